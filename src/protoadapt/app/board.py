"""The state of the page: pictures, the labels that people gave, and names for all other pictures.

A board is immutable: every function returns a new one. Pictures are identified by the sha256 of their file, so a
picture that is dropped twice is there once. Features are computed before a picture comes here; everything here takes
milliseconds and depends on the pictures and their labels only, not on the order in which they came.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.labeling.classifier import make_estimator
from protoadapt.labeling.names import UNKNOWN, composed, to_text
from protoadapt.labeling.outputs import UNLABELED, skipped_records
from protoadapt.labeling.pipeline import METHOD, in_memory, name_pictures
from protoadapt.vision.pictures.decode import data_url
from protoadapt.vision.pictures.walk import Skipped

LONGEST = 80
"""Characters of a class name."""


class Picture(NamedTuple):
    """One picture on the board."""

    name: str
    thumb: bytes  # JPEG
    feature: np.ndarray  # (D)
    label: str | None = None  # None: it is no example


@dataclass(frozen=True)
class Board:
    """All pictures of one open page, and the files that could not be used."""

    pictures: Mapping[str, Picture] = field(default_factory=dict)  # by content, in the order they came
    skipped: tuple[Skipped, ...] = ()

    @property
    def classes(self) -> list[str]:
        """The classes that have an example, sorted."""
        return sorted({picture.label for picture in self.pictures.values() if picture.label is not None})


def add(board: Board, added: Mapping[str, Picture], skipped: Sequence[Skipped] = (), label: str | None = None) -> Board:
    """Adds pictures, as examples of a class where there is a label.

    Pictures that are there already keep their name, and their label unless there is a new one.
    """
    pictures = dict(board.pictures)
    names = {picture.name for picture in pictures.values()}
    for key, picture in added.items():
        if key not in pictures:
            pictures[key] = picture._replace(name=_free_name(picture.name, names))
            names.add(pictures[key].name)
        if label is not None:
            pictures[key] = pictures[key]._replace(label=class_name(label, board))
    return Board(pictures, (*board.skipped, *skipped))


def set_label(board: Board, key: str, label: str | None) -> Board:
    """Makes a picture an example of a class; None: it is no example any more."""
    name = None if label is None else class_name(label, board)
    return replace(board, pictures={**board.pictures, key: board.pictures[key]._replace(label=name)})


def drop(board: Board, key: str) -> Board:
    """Removes a picture."""
    return replace(board, pictures={other: p for other, p in board.pictures.items() if other != key})


def class_name(text: str, board: Board) -> str:
    """A class name as typed, without surplus blanks, and in the spelling of a class that is there already."""
    name = " ".join(composed(text).split())
    name = "".join(c for c in name if c.isprintable())
    if not name:
        raise UserError("the class has no name yet: type one")
    if name.casefold() == UNKNOWN:
        raise UserError(f"{name!r} is reserved for pictures of no class: choose another name")
    if len(name) > LONGEST:
        raise UserError(f"the name has {len(name)} characters: use at most {LONGEST}")
    return next((known for known in board.classes if known.casefold() == name.casefold()), name)


def name_board(board: Board, metadata: Mapping[str, Any], paths: bool = False) -> dict[str, Any] | None:
    """Names all pictures; None while there are fewer than two classes.

    metadata: of the network. Returns the result of `label` (labels.json), pictures in the board's order. `paths` adds
    the prototypes' paths for the report, which takes seconds.
    """
    classes = board.classes
    if len(classes) < 2:
        return None
    # Sums in one order, whatever the order of arrival: the same pictures get the same answers to the last bit.
    place = {key: row for row, key in enumerate(sorted(board.pictures))}
    ordered = [board.pictures[key] for key in place]
    rows = np.stack([picture.feature for picture in ordered])
    number: dict[str | None, int] = {name: code for code, name in enumerate(classes)}
    codes = np.array([number.get(picture.label, UNLABELED) for picture in ordered])
    names = [to_text(picture.name) for picture in board.pictures.values()]
    row, skipped = np.array([place[key] for key in board.pictures]), skipped_records(board.skipped)
    task = in_memory("Pictures", names, row, rows, codes, classes, metadata, skipped=skipped)
    result = name_pictures(task, make_estimator(METHOD, {}), paths=paths).result
    for record, picture in zip(result["pictures"], board.pictures.values()):
        record |= {"thumb": data_url(picture.thumb), "by_page": True}
    return result


def _free_name(name: str, names: Iterable[str]) -> str:
    """The name, or a numbered one as file managers write it, `IMG_1 (2).jpg`: tables identify pictures by name."""
    path, count, free = PurePosixPath(name), 1, name
    while free in names:
        count += 1
        free = f"{path.stem} ({count}){path.suffix}"
    return free
