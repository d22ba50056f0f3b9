"""What the page knows, and what follows from it: pictures, the labels that people gave, and names for all the others.

A board never changes: every function returns another one. Pictures are known by the sha256 of their file, so the same
picture dropped twice is there once. Features are computed before a picture comes here; everything here takes
milliseconds, and is a function of the pictures and their labels alone, in whatever order they came.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.labeling import outputs
from protoadapt.labeling.classifier import estimator
from protoadapt.labeling.names import UNKNOWN, composed, to_text
from protoadapt.labeling.run import METHOD, named
from protoadapt.vision.pictures.decode import data_url
from protoadapt.vision.pictures.walk import Skipped

LONGEST = 80
"""Characters of a class name."""


class Picture(NamedTuple):
    name: str
    thumb: bytes  # JPEG
    feature: np.ndarray  # (D)
    label: str | None = None  # given by a person


@dataclass(frozen=True)
class Board:
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # by content, in the order they came
    skipped: tuple[Skipped, ...] = ()

    @property
    def classes(self) -> list[str]:
        """Those that have an example."""
        return sorted({picture.label for picture in self.pictures.values() if picture.label is not None})


def add(board: Board, seen: Mapping[str, Picture], skipped: Sequence[Skipped] = (), label: str | None = None) -> Board:
    """More pictures, all of one class where a label is given. Those that are here already keep their name, and their
    label unless there is a new one."""
    pictures = dict(board.pictures)
    taken = {picture.name for picture in pictures.values()}
    for key, picture in seen.items():
        if key not in pictures:
            pictures[key] = picture._replace(name=_another(picture.name, taken))
            taken.add(pictures[key].name)
        if label is not None:
            pictures[key] = pictures[key]._replace(label=class_name(label, board))
    return Board(pictures, (*board.skipped, *skipped))


def give(board: Board, key: str, label: str | None) -> Board:
    """A picture becomes an example of a class, or of none any more (None)."""
    name = None if label is None else class_name(label, board)
    return replace(board, pictures={**board.pictures, key: board.pictures[key]._replace(label=name)})


def drop(board: Board, key: str) -> Board:
    """Without that picture."""
    return replace(board, pictures={other: p for other, p in board.pictures.items() if other != key})


def class_name(text: str, board: Board) -> str:
    """A name as people meant it: without stray blanks, and spelled as the class that is there already."""
    name = " ".join(composed(text).split())
    name = "".join(c for c in name if c.isprintable())
    if not name:
        raise UserError("the class has no name yet: type one")
    if name.casefold() == UNKNOWN:
        raise UserError(f"{name!r} stands for pictures of no class: take another name")
    if len(name) > LONGEST:
        raise UserError(f"the name has {len(name)} characters: {LONGEST} are enough")
    return next((known for known in board.classes if known.casefold() == name.casefold()), name)


def tell(board: Board, about: Mapping[str, Any], paths: bool = False) -> dict[str, Any] | None:
    """Names for all pictures, as labels.json tells them (`labeling.outputs`), in the board's order; None before there
    are two classes. `paths` adds the prototypes' way for the report, which takes seconds."""
    classes = board.classes
    if len(classes) < 2:
        return None
    # Sums in one order, whatever the order of arrival: the same pictures get the same answers to the last bit.
    place = {key: row for row, key in enumerate(sorted(board.pictures))}
    ordered = [board.pictures[key] for key in place]
    rows = np.stack([picture.feature for picture in ordered])
    number: dict[str | None, int] = {name: code for code, name in enumerate(classes)}
    codes = np.array([number.get(picture.label, -1) for picture in ordered])
    names = [to_text(picture.name) for picture in board.pictures.values()]
    came = [place[key] for key in board.pictures]
    told, _ = named("Pictures", names, came, rows, codes, classes, estimator(METHOD, {}), about, paths)
    for row, picture in zip(told["pictures"], board.pictures.values()):
        row |= {"thumb": data_url(picture.thumb), "by_page": True}
    return told | {"skipped": outputs.tell_skipped(board.skipped, to_text)}


def _another(name: str, taken: Iterable[str]) -> str:
    """The name, or as file managers write it where that is taken: `IMG_1 (2).jpg`. Tables tell pictures by name."""
    path, count, free = PurePosixPath(name), 1, name
    while free in taken:
        count += 1
        free = f"{path.stem} ({count}){path.suffix}"
    return free
