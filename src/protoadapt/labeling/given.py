"""The labelled rows of `label --features`: pictures embedded now, or pictures that are among the rows."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoadapt import models
from protoadapt.data.folders import size_of
from protoadapt.errors import UserError
from protoadapt.features import embed
from protoadapt.labeling.names import from_text, to_text
from protoadapt.labeling.processes import of_all
from protoadapt.labeling.support import Shot, counting_rows, read_support
from protoadapt.shards import Entry, stream
from protoadapt.shards.decode import BATCH, decoded
from protoadapt.shards.make import half


class Given(NamedTuple):
    rows: np.ndarray  # (S, D) float16
    classes: list[str]
    codes: np.ndarray  # (S)
    places: dict[tuple[int, int], int]  # (shard, position) → class, of those that are among the rows

    @property
    def shots(self) -> list[int]:
        return np.bincount(self.codes, minlength=len(self.classes)).tolist()


def read_given(
    support: Path, rows: stream.Rows, about: Mapping[str, Any], model: str | Path | None, device: str
) -> Given:
    """`support`: a folder of class folders, or a csv with file and label, files named as the manifest names them."""
    if support.is_dir():
        return _embedded(read_support([support], support).shots, about, model, device)
    if not support.is_file():
        raise UserError(f"there is no {str(support)!r}: --support takes a folder of class folders, or a csv file")
    named = {os.path.normpath(from_text(name)): label for _, name, label, _ in counting_rows(support)}
    found = {name: place for part in of_all(stream.find_names(rows, named)) for name, place in part.items()}
    if missing := [name for name in named if name not in found]:
        raise UserError(
            f"{str(support)!r} names {len(missing):,} pictures that have no row, such as {to_text(missing[0])!r}: "
            f"give names as the manifest has them, relative to the folder it was made of"
        )
    shots = [Shot(name, label) for name, label in sorted(named.items())]
    classes, codes = _numbered(shots, str(support))
    places = {found[shot.file][:2]: code for shot, code in zip(shots, codes.tolist())}
    return Given(np.stack([found[shot.file].row for shot in shots]), classes, codes, places)


def _embedded(shots: Sequence[Shot], about: Mapping[str, Any], model: str | Path | None, device: str) -> Given:
    """As extract embeds: the same decoding, batches, views and rounding."""
    network, own = models.load(model or about["model"]["model"], device)
    if own["weights"] != about["weights"]:
        raise UserError(
            f"the features were made with other weights ({about['weights']}) than those of {own['model']!r} "
            f"({own['weights']}), and features of two models do not mix: give --model their own"
        )
    kept: list[Shot] = []
    parts = []
    for start in range(0, len(shots), BATCH):
        part = shots[start : start + BATCH]
        entries = [Entry(os.path.abspath(shot.file), size_of(shot.file)) for shot in part]
        pixels, broken = decoded(Path(), entries, own["size"])
        good = sorted(set(range(len(part))) - {row for row, _ in broken})
        parts.append(half(embed(network, own, pixels, about["views"], batch=BATCH))[good])
        kept += [part[row] for row in good]
    classes, codes = _numbered(kept, "the support")
    return Given(np.concatenate(parts), classes, codes, {})


def _numbered(shots: Sequence[Shot], where: str) -> tuple[list[str], np.ndarray]:
    classes = sorted({shot.label for shot in shots})
    if len(classes) < 2:
        raise UserError(f"{where} gives readable pictures of {len(classes)} classes, and two are needed: add others")
    number = {name: code for code, name in enumerate(classes)}
    return classes, np.array([number[shot.label] for shot in shots])
