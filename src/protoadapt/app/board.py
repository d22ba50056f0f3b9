"""The state of one board: pictures, what people said about them, and names for all other pictures.

A board is immutable: every function returns a new one. A picture is known by its place on the board, which never
changes; one that is taken off stays in its place, so that this can be undone. A change is a *patch*, a dict of

    labels    {place: class, "unknown" (none of the classes) or None (no label)}
    classes   all classes in order; those with a label must be among them
    gone      {place: whether the picture is off the board}
    origins   {place: where its label comes from}, as `labeling.support` has it

A label whose origin the patch does not say, as those from browsers do not, is a correction if the pictures had names
by then, and an example as of a table if not; a picture that is given another label keeps the origin of its first,
which is why it was chosen. `difference` is the patch between two boards, such as the one that undoes a change. Features
are computed before a picture comes here; everything here takes milliseconds, and names depend on the pictures, their
labels and the origins of these, not on the order in which they came.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError, count
from protoadapt.labeling.classifier import METHOD
from protoadapt.labeling.collection import NEXT, Collection, Named
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.names import UNKNOWN, composed, to_text
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, skipped_records
from protoadapt.labeling.suggest import next_record, suggest_first
from protoadapt.labeling.support import CORRECTED, IN_FOLDER, IN_TABLE
from protoadapt.vision.pictures.walk import Skipped

NAMED = 2
"""Classes with an example from which on all pictures are named."""
LONGEST = 80
"""Characters of a class name."""
Patch = Mapping[str, Any]


class BoardPicture(NamedTuple):
    """One picture on the board."""

    name: str
    key: str  # sha256 of its file
    feature: np.ndarray  # (D)


@dataclass(frozen=True)
class Board:
    """All pictures of one session, and the files that could not be used."""

    pictures: tuple[BoardPicture, ...] = ()
    labels: Mapping[int, str] = field(default_factory=dict)  # by place: what people said
    classes: tuple[str, ...] = ()  # in the order in which they were made
    gone: frozenset[int] = frozenset()
    origins: Mapping[int, int] = field(default_factory=dict)  # of the labels
    skipped: tuple[Skipped, ...] = ()

    @property
    def present(self) -> list[int]:
        """The places of the pictures that are on the board."""
        return [place for place in range(len(self.pictures)) if place not in self.gone]

    @property
    def used(self) -> list[str]:
        """The classes that have an example, sorted."""
        return sorted({label for place, label in self.labels.items() if place not in self.gone} - {UNKNOWN})


def with_pictures(board: Board, added: Sequence[BoardPicture], skipped: Sequence[Skipped] = ()) -> Board:
    """The board with further pictures, which have no label; of a content that is there already, none."""
    pictures, keys = list(board.pictures), {picture.key for picture in board.pictures}
    names = {picture.name for picture in pictures}
    for picture in added:
        if picture.key not in keys:
            pictures.append(picture._replace(name=_free_name(picture.name, names)))
            keys.add(picture.key)
            names.add(pictures[-1].name)
    return replace(board, pictures=tuple(pictures), skipped=(*board.skipped, *skipped))


def labelling(board: Board, labels: Mapping[int, str | None], origins: Mapping[int, int] | None = None) -> Patch:
    """The patch that gives these labels, makes new classes where needed, and brings the pictures back."""
    classes, given = list(board.classes), dict(labels)
    for place, text in labels.items():
        if text is not None and text != UNKNOWN:
            given[place] = name = class_name(text, classes)
            classes += [] if name in classes else [name]
    patch: dict[str, Any] = {"labels": given} | ({"origins": dict(origins)} if origins else {})
    patch |= {"classes": classes} if classes != list(board.classes) else {}
    back = {place: False for place in labels if place in board.gone}
    return patch | ({"gone": back} if back else {})


def change(board: Board, patch: Patch) -> Board:
    """The board after a patch. Patches come from browsers: everything is checked."""
    if not isinstance(patch, dict) or not patch.keys() <= {"labels", "classes", "gone", "origins"}:
        raise UserError("a change has labels, classes and gone: load the page again")
    classes = list(board.classes)
    if "classes" in patch:
        classes = []
        for name in _values(patch["classes"], list, str):
            classes.append(class_name(name, classes))
        if len({name.casefold() for name in classes}) < len(classes):
            raise UserError("two classes have the same name: choose another name for one")
    given = _places(board, patch.get("labels", {}), (str, type(None)))
    gone = _places(board, patch.get("gone", {}), (bool,))
    labels = {place: label for place, label in {**board.labels, **given}.items() if label is not None}
    origins = _origins(board, given, labels, _places(board, patch.get("origins", {}), (int,)))
    if homeless := sorted(set(labels.values()) - {UNKNOWN, *classes}):
        raise UserError(f"there is no class {homeless[0][:LONGEST]!r}: make it first")
    away = (board.gone | {place for place, off in gone.items() if off}) - {p for p, off in gone.items() if not off}
    return replace(board, labels=labels, classes=tuple(classes), gone=frozenset(away), origins=origins)


def difference(before: Board, after: Board) -> Patch:
    """The patch that leads from one board to another. Pictures that a board does not have yet count as taken off."""
    size = max(len(before.pictures), len(after.pictures))
    away, absent = ({*board.gone, *range(len(board.pictures), size)} for board in (before, after))
    changed = [place for place in range(size) if before.labels.get(place) != after.labels.get(place)]
    patch: dict[str, Any] = {
        "labels": {place: after.labels.get(place) for place in changed},
        "origins": {place: origin for place, origin in after.origins.items() if before.origins.get(place) != origin},
        "gone": {place: place in absent for place in away ^ absent},
    }
    classes = {"classes": list(after.classes)} if before.classes != after.classes else {}
    return {key: part for key, part in patch.items() if part} | classes


def _origins(board: Board, given: Mapping[int, Any], labels: Mapping[int, str], said: dict[int, int]) -> dict[int, int]:
    """The origin of each label after labels were given."""
    if not set(said.values()) <= {IN_FOLDER, IN_TABLE, CORRECTED}:
        raise UserError(f"{max(said.values())} is no origin of a label: load the page again")
    default = CORRECTED if len(board.used) >= NAMED else IN_TABLE
    new = {place: board.origins.get(place, default) for place in given} | said
    return {place: origin for place, origin in {**board.origins, **new}.items() if place in labels}


def class_name(text: str, classes: Iterable[str]) -> str:
    """A class name as typed, without surplus blanks, and in the spelling of a class that is there already."""
    name = " ".join(composed(text).split())
    name = "".join(c for c in name if c.isprintable())
    if not name:
        raise UserError("the class has no name yet: type one")
    if name.casefold() == UNKNOWN:
        raise UserError(f"{name!r} is reserved for pictures of no class: choose another name")
    if len(name) > LONGEST:
        raise UserError(f"the name has {len(name)} characters: use at most {LONGEST}")
    return next((known for known in classes if known.casefold() == name.casefold()), name)


def name_board(board: Board, metadata: Mapping[str, Any], paths: bool = False) -> Named | None:
    """Names all pictures; None while fewer than two classes have an example.

    metadata: of the network. `result` is that of `label` (labels.json), with the pictures in the board's order. `paths`
    adds the prototypes' paths for the report, which takes seconds.
    """
    classes, present = board.used, board.present
    if len(classes) < NAMED:
        return None
    # Sums in one order, whatever the order of arrival: the same pictures get the same answers to the last bit.
    ordered = sorted(present, key=lambda place: board.pictures[place].key)
    row = np.empty(len(board.pictures), np.int64)
    row[ordered] = np.arange(len(ordered))
    rows = np.stack([board.pictures[place].feature for place in ordered])
    number = {name: code for code, name in enumerate(classes)} | {UNKNOWN: NONE_OF_CLASSES}
    codes = np.array([number.get(board.labels.get(place, ""), UNLABELED) for place in ordered])
    names = [to_text(board.pictures[place].name) for place in present]
    skipped = skipped_records(board.skipped)
    origin = np.array([board.origins.get(place, IN_TABLE) for place in ordered])
    table = (row[present], rows, codes)
    collection = Collection.of_rows("Pictures", names, *table, classes, metadata, origin=origin, skipped=skipped)
    named = collection.name(make_estimator(METHOD, {}), paths=paths)
    for record in named.result["pictures"]:
        record["by_page"] = True
    return named


def first_pictures(board: Board, n: int = NEXT) -> dict[int, str]:
    """{place: reason} of the pictures to label first, while nothing is named: the most typical of each cluster."""
    ordered = sorted(board.present, key=lambda place: board.pictures[place].key)
    if len(ordered) < NAMED:
        return {}
    rows = np.stack([board.pictures[place].feature for place in ordered])
    codes = np.array([0 if place in board.labels else UNLABELED for place in ordered])
    records = {ordered[one.row]: next_record(one, {"file": ""}) for one in suggest_first(rows, codes, n)}
    return {place: record["reason"] for place, record in records.items()}


def _free_name(name: str, names: Iterable[str]) -> str:
    """The name, or a numbered one as file managers write it, `IMG_1 (2).jpg`: tables identify pictures by name."""
    path, number, free = PurePosixPath(name), 1, name
    while free in names:
        number += 1
        free = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
    return free


def _places(board: Board, values: Any, kinds: tuple[type, ...]) -> dict[int, Any]:
    """{place: value} of a patch, whose keys are text when they come as JSON."""
    most, checked = len(board.pictures), {}
    for key, value in _values(values, dict).items():
        place = int(key) if re.fullmatch("[0-9]{1,9}", str(key)) else most
        if place >= most:
            raise UserError(
                f"there is no picture {str(key)[:20]!r} among {count(most, 'picture')}: load the page again"
            )
        if not isinstance(value, kinds):
            raise UserError(f"a {type(value).__name__} is no value of a change: load the page again")
        checked[place] = value
    return checked


def _values(values: Any, kind: Any, inside: type = object) -> Any:
    if not isinstance(values, kind) or not all(isinstance(value, inside) for value in (values if kind is list else ())):
        raise UserError(f"a {type(values).__name__} is no part of a change here: load the page again")
    return values
