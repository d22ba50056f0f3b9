"""The state of one board: pictures, what people said about them, and names for all other pictures.

A board is immutable: every function returns a new one. A picture is known by its place on the board, which never
changes; one that is taken off stays in its place, so that this can be undone. A change is a *patch*, a dict of

    labels    {place: class, "unknown" (none of the classes) or None (no label)}
    classes   all classes in order; those with a label must be among them
    gone      {place: whether the picture is off the board}

`difference` is the patch between two boards, such as the one that undoes a change. Features
are computed before a picture comes here; everything here takes milliseconds, and names depend on the pictures and
their labels, not on the order in which they came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from protoadapt.core.errors import UserError, count
from protoadapt.core.methods.unnamed import first_groups
from protoadapt.labeling import DEFAULT_METHOD
from protoadapt.labeling.collection import NEXT, Collection, Named
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.names import UNKNOWN, composed, to_text
from protoadapt.labeling.outputs import UNLABELED, codes_of
from protoadapt.labeling.suggest import centred, next_record, suggest
from protoadapt.labeling.support import ON_PAGE

NAMED = 2
"""Classes with an example from which on all pictures are named."""
LONGEST, MOST_CLASSES = 80, 5000
"""Characters of a class name, and classes of a board."""
Patch = Mapping[str, Any]
_Place = Annotated[int, Field(ge=0, lt=10**9, strict=False)]


class BoardPicture(NamedTuple):
    """One picture on the board."""

    name: str
    key: str  # sha256 of its file
    feature: np.ndarray  # (D)
    taken: str = ""  # when, as its file says (`decode.taken_at`)


@dataclass(frozen=True)
class Board:
    """All pictures of one session."""

    pictures: tuple[BoardPicture, ...] = ()
    labels: Mapping[int, str] = field(default_factory=dict)  # by place: what people said
    classes: tuple[str, ...] = ()  # in the order in which they were made
    gone: frozenset[int] = frozenset()

    @property
    def present(self) -> list[int]:
        """The places of the pictures that are on the board."""
        return [place for place in range(len(self.pictures)) if place not in self.gone]

    @property
    def used(self) -> list[str]:
        """The classes that have an example, sorted."""
        return sorted({label for place, label in self.labels.items() if place not in self.gone} - {UNKNOWN})


def with_pictures(board: Board, added: Sequence[BoardPicture]) -> Board:
    """The board with further pictures, which have no label; of a content that is there already, none."""
    pictures, keys = list(board.pictures), {picture.key for picture in board.pictures}
    names = dict.fromkeys((picture.name for picture in pictures), 1)
    for picture in added:
        if picture.key not in keys:
            pictures.append(picture._replace(name=_free_name(picture.name, names)))
            keys.add(picture.key)
            names[pictures[-1].name] = 1
    return replace(board, pictures=tuple(pictures))


def labelling(board: Board, labels: Mapping[int, str | None]) -> Patch:
    """The patch that gives these labels, makes new classes where needed, and brings the pictures back."""
    classes, given = {name.casefold(): name for name in board.classes}, dict(labels)
    for place, text in labels.items():
        if text is not None and text != UNKNOWN:
            name = class_name(text)
            given[place] = classes.setdefault(name.casefold(), name)
    patch: dict[str, Any] = {"labels": given}
    patch |= {"classes": list(classes.values())} if len(classes) > len(board.classes) else {}
    back = {place: False for place in labels if place in board.gone}
    return patch | ({"gone": back} if back else {})


class Change(BaseModel, extra="forbid", strict=True):
    """A patch as it may come from a browser, whose keys are text in JSON."""

    labels: dict[_Place, str | None] = {}
    classes: list[str] | None = None
    gone: dict[_Place, bool] = {}


def change(board: Board, patch: Patch) -> Board:
    """The board after a patch. Patches come from browsers: everything is checked."""
    try:
        given = Change.model_validate(patch)
    except ValidationError as error:
        raise UserError(f"this is no change of a board ({error.errors()[0]['msg']:.80}): load the page again") from None
    last, most = max([*given.labels, *given.gone], default=-1), len(board.pictures)
    if last >= most:
        raise UserError(f"there is no picture {last} among {count(most, 'picture')}: load the page again")
    classes = list(board.classes)
    if given.classes is not None:
        if len(given.classes) > MOST_CLASSES:
            raise UserError(f"a board has at most {MOST_CLASSES:,} classes, not {len(given.classes):,}: make fewer")
        classes = [class_name(name) for name in given.classes]
        if len({name.casefold() for name in classes}) < len(classes):
            raise UserError("two classes have the same name: choose another name for one")
    labels = {place: label for place, label in {**board.labels, **given.labels}.items() if label is not None}
    if homeless := sorted(set(labels.values()) - {UNKNOWN, *classes}):
        raise UserError(f"there is no class {homeless[0][:LONGEST]!r}: make it first")
    away = {**dict.fromkeys(board.gone, True), **given.gone}
    gone = frozenset(place for place, off in away.items() if off)
    return replace(board, labels=labels, classes=tuple(classes), gone=gone)


def difference(before: Board, after: Board) -> Patch:
    """The patch that leads from one board to another. Pictures that a board does not have yet count as taken off."""
    size = max(len(before.pictures), len(after.pictures))
    away, absent = ({*board.gone, *range(len(board.pictures), size)} for board in (before, after))
    changed = [place for place in range(size) if before.labels.get(place) != after.labels.get(place)]
    patch: dict[str, Any] = {
        "labels": {place: after.labels.get(place) for place in changed},
        "gone": {place: place in absent for place in away ^ absent},
    }
    classes = {"classes": list(after.classes)} if before.classes != after.classes else {}
    return {key: part for key, part in patch.items() if part} | classes


def class_name(text: str) -> str:
    """A class name as typed, without surplus blanks."""
    name = " ".join(composed(text).split())
    name = "".join(c for c in name if c.isprintable())
    if not name:
        raise UserError("the class has no name yet: type one")
    if name.casefold() == UNKNOWN:
        raise UserError(f"{name!r} is reserved for pictures of no class: choose another name")
    if len(name) > LONGEST:
        raise UserError(f"the name has {len(name)} characters: use at most {LONGEST}")
    return name


def name_board(board: Board, metadata: Mapping[str, Any], paths: bool = False) -> Named | None:
    """Names all pictures; None while fewer than two classes have an example.

    metadata: of the network. `result` is that of `label` (labels.json), with the pictures in the board's order. `paths`
    adds the prototypes' paths for the report, which takes seconds; its classes stand as on the board, so that each has
    the same colour, sign and key.
    """
    used = dict.fromkeys(board.used)
    classes = [name for name in board.classes if name in used] if paths else list(used)
    if len(classes) < NAMED:
        return None
    ordered, rows = _ordered(board)
    row = np.empty(len(board.pictures), np.int64)
    row[ordered] = np.arange(len(ordered))
    number = codes_of(classes)
    codes = np.array([number.get(board.labels.get(place, ""), UNLABELED) for place in ordered])
    names = [to_text(board.pictures[place].name) for place in board.present]
    table = (row[board.present], rows, codes, classes, metadata)
    collection = Collection.of_rows("Pictures", names, *table, origin=np.full(len(rows), ON_PAGE))
    return collection.name(make_estimator(DEFAULT_METHOD, {}), paths=paths)


def first_pictures(board: Board) -> dict[int, str]:
    """{place: reason} of the pictures to label first, while nothing is named: the most typical of each cluster."""
    if len(board.present) < NAMED:
        return {}
    ordered, rows = _ordered(board)
    codes = np.array([0 if place in board.labels else UNLABELED for place in ordered])
    first = suggest(centred(rows), codes, NEXT, groups=first_groups(rows))
    return {ordered[one.row]: next_record(one, "")["reason"] for one in first}


def unnamed_groups(board: Board, named: Named | None) -> list[list[int]]:
    """The places of pictures that look like kinds without a name, the most typical of each first.

    While nothing is named, all pictures fall into groups; then they are those of the classifier, in the order of their
    numbers in labels.csv. A picture with a label is in none.
    """
    ordered, rows = _ordered(board) if board.present else ([], np.empty((0, 0)))
    if named:
        of_place = dict(zip(board.present, (record["group"] for record in named.result["pictures"])))
        names = np.array([of_place[place] or "" for place in ordered])
        parts = [np.flatnonzero(names == group["name"]) for group in named.result["unnamed"]]
    else:
        number = first_groups(rows)
        parts = [np.flatnonzero(number == group) for group in range(number.max(initial=-1) + 1)]
        if len(parts) < 2:  # one group of all says nothing
            return []
    u = centred(rows)
    typical = [part[np.argsort(-(u[part] @ u[part].sum(0)), kind="stable")] for part in parts]
    return [[ordered[row] for row in part if ordered[row] not in board.labels] for part in typical]


def _ordered(board: Board) -> tuple[list[int], np.ndarray]:
    """The present places and their features (N, D), in one order whatever the order of arrival.

    So the same pictures get the same answers to the last bit.
    """
    ordered = sorted(board.present, key=lambda place: board.pictures[place].key)
    return ordered, np.stack([board.pictures[place].feature for place in ordered])


def _free_name(name: str, numbers: dict[str, int]) -> str:
    """The name, or a numbered one as file managers write it, `IMG_1 (2).jpg`: tables identify pictures by name.

    numbers: of each name that is taken, up to which its numbered ones are; so that many of one name are counted once.
    """
    path, free = PurePosixPath(name), name
    start = path.with_suffix("")
    while free in numbers:
        numbers[name] += 1
        free = f"{start} ({numbers[name]}){path.suffix}"
    return free
