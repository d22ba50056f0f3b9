"""The labelled rows of `label --features`: pictures embedded now, and pictures that are among the rows."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError, count
from protoadapt.labeling.names import UNKNOWN, slips, to_text
from protoadapt.labeling.processes import of_all
from protoadapt.labeling.support import Shot, by_content, listed_shots, of_folders
from protoadapt.vision import networks
from protoadapt.vision.pictures.walk import Skipped, size_of
from protoadapt.vision.shards import Entry, stream
from protoadapt.vision.shards.make import decode_entries, embed_decoded


class Given(NamedTuple):
    rows: np.ndarray  # (S, D) float16
    classes: list[str]
    codes: np.ndarray  # (S)
    places: dict[tuple[int, int], int]  # (shard, position) → class, of those that are among the rows
    unknown: set[tuple[int, int]]  # and those that a table says are of no class
    labels: dict[str, str]  # by name, of both
    by_table: set[str]  # of those with a class, people's work that may be nowhere else
    skipped: list[Skipped]  # files of folders that count for nothing
    notes: list[str]  # what people may want to know of the classes

    @property
    def shots(self) -> list[int]:
        return np.bincount(self.codes, minlength=len(self.classes)).tolist()


def read_given(
    support: Sequence[Path], rows: stream.Rows, about: Mapping[str, Any], model: str | Path | None, device: str
) -> Given:
    """`support`: folders of class folders, and tables with file and label, files named as the manifest names them.

    A picture of a folder that is among the rows too, by the sha256 of its bytes, counts once, and its row as labelled.
    """
    label_of, found, by_table = _of_tables([source for source in support if not source.is_dir()], rows)
    tabled = sorted(name for name, label in label_of.items() if label != UNKNOWN)
    unknown = {found[name][:2] for name, label in label_of.items() if label == UNKNOWN}
    folders = [of_folders(source) for source in support if source.is_dir()]
    shots = [shot for folder in folders for shot in folder.shots]
    pictures = by_content(shots, {shot.file: _sha256(shot.file) for shot in shots})
    copies = [copy for part in of_all(stream.find_contents(rows, pictures)) for copy in part]
    places = {found[name][:2]: label_of[name] for name in tabled}
    for content, name, place in copies:
        shot = pictures[content]
        if label_of.setdefault(name, shot.label) != shot.label:
            raise UserError(
                f"{to_text(name)!r} is given as {label_of[name]!r} and {to_text(shot.file)!r}, the same picture, as "
                f"{shot.label!r}: keep one of them"
            )
        places[place] = shot.label
    counted = {content for content, name, _ in copies if name in found}  # with the tables already
    new = [shot for content, shot in pictures.items() if content not in counted]
    kept, embedded, broken = _embedded(new, about, model, device)
    labels = [*(label_of[name] for name in tabled), *(shot.label for shot in kept)]
    _every_class_is_seen(shots, set(labels))
    classes, codes = _numbered(labels, support)
    number = {name: code for code, name in enumerate(classes)}
    by_folder = {*(shot.label for shot in shots), *(label_of[name] for name in tabled if name not in by_table)}
    return Given(
        np.stack([*(found[name].row for name in tabled), *embedded]),
        classes,
        codes,
        {place: number[label] for place, label in places.items()},
        unknown,
        label_of,
        by_table,
        [*(one for folder in folders for one in folder.skipped), *broken],
        slips({label_of[name] for name in tabled if name in by_table}, by_folder),
    )


def _of_tables(tables: Sequence[Path], rows: stream.Rows) -> tuple[dict[str, str], dict[str, stream.Place], set[str]]:
    """The label and the row of each picture that the tables name; and which of the labels are theirs alone."""
    label_of: dict[str, str] = {}
    found: dict[str, stream.Place] = {}
    by_table: set[str] = set()
    for table in tables:
        if not table.is_file():
            raise UserError(f"there is no {str(table)!r}: --support takes a folder of class folders, or a csv file")
        shots = list(listed_shots(table))
        named = {shot.file: shot.label for shot in shots}
        by_table |= {shot.file for shot in shots if shot.by_table}
        for part in of_all(stream.find_names(rows, named)):
            found |= part
        if missing := [name for name in named if name not in found]:
            raise UserError(
                f"{str(table)!r} names {count(len(missing), 'picture')} without a row, such as "
                f"{to_text(missing[0])!r}: give names as the manifest has them, relative to the folder it was made of"
            )
        for name, label, _ in shots:
            if label_of.setdefault(name, label) != label:
                raise UserError(
                    f"{to_text(name)!r} is given as {label_of[name]!r} and in {str(table)!r} as {label!r}: keep one"
                )
    return label_of, found, by_table


def _embedded(
    shots: Sequence[Shot], about: Mapping[str, Any], model: str | Path | None, device: str
) -> tuple[list[Shot], list[np.ndarray], list[Skipped]]:
    """Those that can be read, and a row each. As extract embeds: the same decoding, batches, views and rounding."""
    if not shots:
        return [], [], []
    network, own = networks.load(model or about["model"]["model"], device)
    if own["weights"] != about["weights"]:
        raise UserError(
            f"the features were made with other weights ({about['weights']}) than those of {own['model']!r} "
            f"({own['weights']}), and features of two models do not mix: give --model their own"
        )
    entries = [Entry(os.path.abspath(shot.file), size_of(shot.file)) for shot in shots]
    batches = decode_entries(Path(), entries, own["size"], own.get("resize"))
    rows, errors = embed_decoded(batches, len(entries), network, own, about["views"])
    good = [row for row in range(len(shots)) if row not in errors]
    skipped = [Skipped(shots[row].file, reason) for row, reason in errors.items()]
    return [shots[row] for row in good], list(rows[good]), skipped


def _every_class_is_seen(shots: Sequence[Shot], labels: set[str]) -> None:
    """A class of which no picture can be read would be missing from the answers without a word."""
    for shot in shots:
        if shot.label not in labels:
            raise UserError(
                f"no picture of the class {shot.label!r} can be read, such as {to_text(shot.file)!r}: give another, or "
                f"take its folder away"
            )


def _sha256(file: str) -> bytes | None:
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError:
        return None


def _numbered(labels: Sequence[str], support: Sequence[Path]) -> tuple[list[str], np.ndarray]:
    classes = sorted(set(labels))
    if len(classes) < 2:
        where = " and ".join(repr(str(source)) for source in support)
        few = count(len(classes), "class", "classes")
        raise UserError(f"{where} gives readable pictures of {few}, and two are needed: add others")
    number = {name: code for code, name in enumerate(classes)}
    return classes, np.array([number[label] for label in labels])
