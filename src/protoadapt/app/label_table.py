"""A csv of labels, dropped on a board: each line is matched with a picture by its name."""

from io import BytesIO, TextIOWrapper
from pathlib import PurePosixPath
from typing import NamedTuple

from protoadapt.app.board import Patch, labelling
from protoadapt.app.session import Session
from protoadapt.core.errors import UserError
from protoadapt.labeling.names import from_text, to_text
from protoadapt.labeling.support import lines_of

MOST_ROWS = 200_000
"""Labels in a table; a board holds a quarter of that at most."""


class TableLabels(NamedTuple):
    """The labels of a table as a patch, and the files that are not on the board."""

    patch: Patch
    missing: list[str]


def table_labels(session: Session, text: bytes) -> TableLabels:
    """The examples of a table (`labeling.support`) whose file, or whose file name if it is unique, is on the board."""
    board = session.board
    by_path = {to_text(board.pictures[place].name): place for place in board.present}
    by_name: dict[str, list[int]] = {}
    for path, place in by_path.items():
        by_name.setdefault(PurePosixPath(path).name, []).append(place)
    labels: dict[int, str | None] = {}
    origins: dict[int, int] = {}
    missing: list[str] = []
    table = TextIOWrapper(BytesIO(text), "utf-8-sig", newline="")
    for number, row in enumerate(filter(lambda row: row.is_example, lines_of(table, "the table"))):
        if number >= MOST_ROWS:
            raise UserError(f"the table labels more than {MOST_ROWS:,} pictures: give the lines of this board only")
        path = to_text(from_text(row.file.removeprefix("./")))
        alike = by_name.get(PurePosixPath(path).name, [])
        found = by_path.get(path, alike[0] if len(alike) == 1 else None)
        if found is None:
            missing.append(row.file)
        else:
            labels[found], origins[found] = row.label, row.origin
    if not labels:
        first = f", such as {missing[0]!r}" if missing else ""
        raise UserError(f"the table labels no picture of this board{first}: add the pictures first")
    return TableLabels(labelling(board, labels, origins), missing)
