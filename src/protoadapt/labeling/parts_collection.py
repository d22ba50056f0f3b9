"""A table of millions of rows on a disk and its examples: the collection of `label --features`.

Rows are read once per step of the estimator and never held.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.core.errors import UserError, count
from protoadapt.core.parts import Part, PartsTable, read_lists
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.collection import Collection
from protoadapt.labeling.familiarity import SAMPLE
from protoadapt.labeling.names import UNKNOWN, to_text
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, AnsweredBlock, skipped_records
from protoadapt.labeling.pictures import load_same
from protoadapt.labeling.support import IN_FOLDER, Example, Examples, check_classes, digest_of, one_per_picture
from protoadapt.labeling.thumbnails import Progress
from protoadapt.vision import networks
from protoadapt.vision.networks.cards import of_card
from protoadapt.vision.networks.engines import ONNXRUNTIME
from protoadapt.vision.pictures.walk import Entry, Skipped, size_of
from protoadapt.vision.shards.extract import open_features
from protoadapt.vision.shards.make import embed_entries

REPORTED = 2000
"""Pictures in the report, beside the examples."""
SKIPPED = 1000
"""Unreadable pictures that are listed; extract's broken.csv has all."""


def parts_collection(
    features: str | Path, support: Examples, model: str | Path | None, device: str, passes: int, on_progress: Progress
) -> Collection:
    """Joins the rows of a table (`extract --manifest`) and examples, by the names that tables give and by content.

    A picture of a class folder that is no row is embedded, exactly as the rows were. passes: how often the rows will be
    read, for `on_progress`.
    """
    table = open_features(Path(features))
    if not table.n_rows:
        raise UserError(f"{str(features)!r} has no rows: none of its pictures could be read, see its broken.csv")
    listed = [example for example in support.examples if not example.source.is_dir()]
    in_folders = [example for example in support.examples if example.source.is_dir()]
    pictures = one_per_picture((digest_of(example.file), example) for example in in_folders)
    table.check()  # before any of its lists is believed
    found, copies = table.find({example.file for example in listed}, pictures)
    if missing := [example for example in listed if example.file not in found]:
        raise UserError(
            f"{str(missing[0].source)!r} names {count(len({one.file for one in missing}), 'picture')} without a row, "
            f"such as {to_text(missing[0].file)!r}: write names as the manifest has them, relative to the folder it "
            f"was made from"
        )
    by_name = [(example.file, example) for example in listed]
    example_of = one_per_picture([*by_name, *((name, pictures[content]) for content, name, _ in copies)])
    counted = {content for content, name, _ in copies if name in found}  # with the tables already
    new = [example for content, example in pictures.items() if content not in counted]
    embedded, broken = _embedded(new, table, model, device)
    names = sorted(name for name in found if example_of[name].label != UNKNOWN)
    labels = [*(example_of[name].label for name in names), *(new[i].label for i in embedded)]
    classes, skipped = sorted(set(labels)), [*support.skipped, *broken]
    check_classes(in_folders, classes, skipped)
    number = {name: code for code, name in enumerate(classes)} | {UNKNOWN: NONE_OF_CLASSES}
    places: dict[int, dict[int, int]] = {}  # part → position → class or NONE_OF_CLASSES
    for name, (part, position, *_) in (*found.items(), *(copy[1:] for copy in copies)):
        places.setdefault(part, {})[position] = number[example_of[name].label]
    codes = np.array([number[label] for label in labels])
    origins = {example.file: example.origin for example in listed if example.by_table}
    leave = {part: np.array(list(positions)) for part, positions in places.items()}
    unlabeled = replace(table, leave=leave, tick=_counter(on_progress, passes * table.n_rows))
    index, made_with = table.index, table.index["model"]
    # The card as it is now, not as it was when the features were made.
    own = of_card(model or made_with["model"], index["weights"], made_with.get("dataset")) | {"views": index["views"]}
    if own["views"] > 1:  # a card is calibrated with one view
        own["calibration"] = None
    unread = islice((one for part in table.parts for one in part.record["broken"]), SKIPPED)
    every = -(-table.n_rows // REPORTED)
    return Collection(
        to_text(Path(features).resolve().name),
        classes,
        np.stack([*(found[name][2] for name in names), *embedded.values()]),
        codes,
        unlabeled,
        lambda: np.concatenate([rows[:: -(-table.n_rows // SAMPLE)] for rows in unlabeled]).astype(np.float32),
        lambda classifier: _blocks(classifier, unlabeled, places, origins, every, device),
        made_with | own,
        root=index["root"],
        skipped=skipped_records([*skipped, *(Skipped(one["name"], one["reason"]) for one in unread)]),
        notes=support.notes(),
        rows_on_disk=table.n_rows,
        knows=lambda one: one.file in example_of and example_of[one.file].label == one.label,
    )


def _embedded(
    examples: Sequence[Example], table: PartsTable, model: str | Path | None, device: str
) -> tuple[dict[int, np.ndarray], list[Skipped]]:
    """The rows of the readable examples by position, made as extract makes them: decoding, batches, views, rounding."""
    if not examples:
        return {}, []
    index = table.index
    place = "cpu" if index["engine"] == ONNXRUNTIME else device
    load: Callable[[str | Path], Any] = lambda name: networks.load(name, place, index["engine"])  # noqa: E731
    network, own = load_same(model, index["model"]["model"], index["weights"], "the features were", load)
    entries = [Entry(os.path.abspath(example.file), size_of(example.file)) for example in examples]
    rows, broken = embed_entries(entries, network, own, index["views"])
    skipped = [Skipped(examples[row].file, reason) for row, reason in broken.items()]
    return {row: rows[row] for row in range(len(examples)) if row not in broken}, skipped


def _counter(on_progress: Progress, total: int) -> Callable[[int], None]:
    """Reports the rows of all passes; a method may need fewer passes than expected, or one more."""
    done = 0

    def tick(rows: int) -> None:
        nonlocal done
        done += rows
        on_progress("rows, all passes", min(done, total), total)

    return tick


def _blocks(
    classifier: Classifier,
    table: PartsTable,
    places: dict[int, dict[int, int]],
    origins: dict[str, int],
    every: int,
    device: str,
) -> Iterator[AnsweredBlock]:
    """One block per part. Every `every`-th row is in the report, and all that have a label."""
    parts = table.parts
    starts = dict(zip((part.number for part in parts), accumulate((part.shape[0] for part in parts), initial=0)))
    answering = classifier.to(device)

    def block(part: Part, rows: np.ndarray) -> AnsweredBlock:
        lists, codes = read_lists(part), np.full(len(rows), UNLABELED)
        for position, code in places.get(part.number, {}).items():
            codes[position] = code
        sampled = ((np.arange(len(rows)) + starts[part.number]) % every == 0) & (codes < 0)
        origin = np.array([origins.get(name, IN_FOLDER) for name in lists["names"]])
        with torch.inference_mode():
            answers = answering.answer(rows)
        text, numbers = [to_text(name) for name in lists["names"]], np.array(lists["numbers"], np.int32)
        shown, featured = sampled | (codes != UNLABELED), np.flatnonzero(sampled)
        return AnsweredBlock(text, codes, origin, answers, shown, rows[sampled], featured, part.number, numbers)

    return table.each(block)
