"""The labels that people give: a folder a class, or a table of files and labels, such as a corrected labels.csv.

A table counts every row with a label. But labels.csv also holds guesses, and a guess that comes back as truth would
teach its own mistakes. So it has a column `guess`, what the label was when the file was written: a row counts if its
label has been changed, or its guess emptied, which says that it is right. Labels that were given count again; there
`guess` says by what, "(folder)" or "(table)". Without that column all rows count.
"""

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from protoadapt.errors import UserError
from protoadapt.labeling.names import UNKNOWN, class_of_cell, from_folder, from_text, to_text
from protoadapt.labeling.pictures import Skipped, find_pictures

BY_FOLDER, BY_TABLE = "(folder)", "(table)"
DELIMITERS = ",;\t"  # spreadsheets of some countries write the others


class Shot(NamedTuple):
    """A picture and the label that it was given."""

    file: str
    label: str
    by_table: bool = False  # people's work that may be nowhere else


class Support(NamedTuple):
    shots: list[Shot]
    skipped: list[Skipped]


def read_support(given: Sequence[str | Path], images: str | Path) -> Support:
    """All shots of class folders and tables; files of a table are looked up beside it, then in `images`."""
    shots, skipped = [], []
    for source in map(Path, given):
        if source.is_dir():
            found = _of_folders(source)
        elif source.is_file():
            found = Support(list(table_shots(source, images)), [])
        else:
            raise UserError(f"there is no {str(source)!r}: --support takes a folder of class folders, or a csv file")
        shots += found.shots
        skipped += found.skipped
    classes = sorted({shot.label for shot in shots})
    where = " and ".join(repr(str(source)) for source in given)
    if not classes:
        raise UserError(
            f"{where} gives no labels: make one folder a class with pictures inside, or a csv with file and label"
        )
    if len(classes) == 1:
        raise UserError(f"{where} gives one class only, {classes[0]!r}: add at least one other, to tell it from")
    return Support(shots, skipped)


def _of_folders(root: Path) -> Support:
    """The class is the first folder below the root; the pictures may lie deeper."""
    shots, (files, skipped) = [], find_pictures(root)
    for file in files:
        first, *deeper = os.path.relpath(file, root).split(os.sep)
        label = from_folder(to_text(first))
        if not deeper:
            skipped.append(Skipped(file, "in no class folder"))
        elif not _is_no_class(label):
            shots.append(Shot(file, label))
    return Support(shots, skipped)


def table_shots(table: Path, images: str | Path, strict: bool = True) -> Iterator[Shot]:
    """The rows that count. Files that are nowhere are an error, or else left out."""
    for line, name, label, by_table in counting_rows(table):
        file = next((path for path in _places(name, table.parent, images) if os.path.isfile(path)), None)
        if file is None and strict:
            raise UserError(
                f"line {line} of {str(table)!r} names {name!r}, which is neither beside it nor in {str(images)!r}: "
                f"correct the name or remove the line"
            )
        if file is not None:
            yield Shot(file, label, by_table)


def counting_rows(table: Path) -> Iterator[tuple[int, str, str, bool]]:
    """(line, file as written, label, whether it is a table's own) of the rows whose label was given or corrected."""
    for line, name, label, guess in _rows(table):
        if not _is_no_class(label) and (guess != label or guess in (BY_FOLDER, BY_TABLE)):
            yield line, name, label, guess != BY_FOLDER


def _places(name: str, *folders: str | Path) -> list[str]:
    return [os.path.join(folder, way) for folder in folders for way in (name, from_text(name))]


def _rows(table: Path) -> Iterator[tuple[int, str, str, str | None]]:
    """(line, file, label, guess) of each row; guess is None where there is no such column."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(DELIMITERS, key=header.count))
            columns = [name.strip().casefold() for name in next(reader, [])]
            if not {"file", "label"} <= set(columns):
                raise UserError(f"{str(table)!r} has no columns file and label: name them in its first line")
            place = {name: columns.index(name) for name in ("file", "label", "guess") if name in columns}
            for cells in reader:
                if len(cells) <= max(place["file"], place["label"]):
                    continue  # an empty line
                label = class_of_cell(cells[place["label"]].strip())
                guess = cells[place["guess"]].strip() if place.get("guess", len(cells)) < len(cells) else None
                yield reader.line_num, cells[place["file"]], label, guess and class_of_cell(guess)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{str(table)!r} cannot be read as csv ({error}): save it as csv in UTF-8") from error


def _is_no_class(label: str) -> bool:
    return not label or label.casefold() == UNKNOWN
