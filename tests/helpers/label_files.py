"""Reading and correcting the files that `label` writes."""

import csv
import io
import os
from pathlib import Path


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a csv file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a csv that was downloaded or printed."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def write_table(path: Path, rows: list[dict[str, str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def correct(path: Path, file: str, label: str) -> None:
    """Changes the label of one file, as a user does in a spreadsheet."""
    write_table(path, [row | {"label": label} if row["file"] == file else row for row in read_table(path)])


def truth(name: str) -> str:
    """The class of a picture that is named after it."""
    return os.path.basename(name).split("-")[0]


def listing(folder: Path) -> dict[str, str | bytes]:
    """Every file below a folder with its content, links with their targets."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes() for path in files
    }


def almost_the_same(one: str, other: str) -> str:
    """The note on two classes of which one may be misspelt."""
    return (
        f"{one!r} and {other!r} are two classes with almost the same name: if one is a typing error, correct it in the "
        f"csv and run the same command again"
    )
