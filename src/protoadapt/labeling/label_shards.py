"""`label --features`: names for pictures by the million, over the feature shards that `extract --manifest` writes.

Rows are read once per step and never held. The labels of all rows are written as Parquet, and as csv where they are
few; the report shows a sample.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_ours, unchanged_since_now
from protoadapt.core.parts import Part, PartsTable, Place, read_lists
from protoadapt.labeling.classifier import METHOD, Classifier
from protoadapt.labeling.familiarity import SAMPLE as SAMPLED
from protoadapt.labeling.familiarity import checked_rate
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.names import UNKNOWN, to_text
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, Block, check_replaced, link_between, skipped_records
from protoadapt.labeling.parquet_table import OURS, PARQUET, check_pyarrow
from protoadapt.labeling.pipeline import Progress, Task, model_entry, name_pictures, write_results
from protoadapt.labeling.same_network import load_same
from protoadapt.labeling.support import (
    IN_FOLDER,
    Example,
    Support,
    check_classes,
    check_corrections,
    corrected_rows,
    one_per_picture,
    read_support,
    table_examples,
)
from protoadapt.vision import networks
from protoadapt.vision.networks.cards import calibration_of, card_file, trained_on
from protoadapt.vision.networks.engines import ONNXRUNTIME
from protoadapt.vision.pictures.walk import Skipped, size_of
from protoadapt.vision.shards import Entry, open_features
from protoadapt.vision.shards.make import decode_entries, embed_decoded, rows_of
from protoadapt.vision.shards.shard_source import ShardSource

FEW = 100_000
"""Rows that a spreadsheet opens without complaint: up to so many there is a labels.csv too."""
SAMPLE = 2000
"""Pictures in the report, beside the examples."""
SKIPPED = 1000
"""Unreadable pictures that are listed; extract's broken.csv has all."""


class Labelled(NamedTuple):
    """The examples of S labelled rows, and the rows of the shards that have a label."""

    classes: list[str]
    rows: np.ndarray  # (S, D) float16
    codes: np.ndarray  # (S)
    places: dict[int, dict[int, int]]  # shard → position → class or NONE_OF_CLASSES
    examples: dict[str, Example]  # by the name of a row
    corrected: np.ndarray  # (S): whether a row does not represent its class
    origins: dict[str, int]  # by name, of labels that are a table's own
    skipped: list[Skipped]


def label_features(
    support: Sequence[str | Path],
    features: str | Path,
    out: str | Path,
    *,
    model: str | Path | None = None,
    method: str = METHOD,
    settings: Mapping[str, Any] | None = None,
    unknown: str | float | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names every row of a folder of feature shards, in bounded memory; the unlabelled rows shape the classifier too.

    Parameters
    ----------
    support : as in `label`, but tables name files as the manifest does. A picture of a class folder that is also among
        the rows, by the sha256 of its bytes, is one example, and its row is labelled.
    features : the folder that `extract --manifest` wrote.
    out : the folder that gets labels.parquet, labels.csv for at most
        100,000 rows, labels.json with a sample, and classifier.safetensors.
    model : the network of the features, where it is not found under the name that they keep.
    method, settings, unknown, device : as in `label`; not "pt_map".
    on_progress : called with "rows, all passes", how many are done, and of how many.

    Returns
    -------
    What labels.json holds, as `label` returns it; `pictures` are a sample, `classes` count all rows.

    Examples
    --------
    >>> label_features(["examples.csv"], "features", "named")["classes"][0]
    {'name': 'oak', 'support': 3, 'found': 412345, 'unknown': 0}
    """
    features, out, rate = Path(features), Path(out), checked_rate(unknown)
    estimator = make_estimator(method, settings or {}, device)
    if method == "pt_map":
        raise UserError("--features with --method pt_map would read all rows thousands of times: choose bapa")
    check_pyarrow()
    check_replaced(out)
    rows = open_features(features)
    record, total = rows.index, rows.n_rows
    if not total:
        raise UserError(f"{str(features)!r} has no rows: none of its pictures could be read, see its broken.csv")
    labels_csv = out / "labels.csv"
    unchanged = unchanged_since_now(labels_csv)
    examples = read_support(support)
    labelled = _labelled(examples, rows, record, model, device)
    if labels_csv.is_file():
        label_of = {name: example.label for name, example in labelled.examples.items()}
        check_corrections(labels_csv, table_examples(labels_csv), label_of.get)
    rows.check()
    passes = estimator.get_params().get("n_iter", 0) + 2
    rows = replace(rows, tick=_counter(on_progress, passes * total))
    task = _task(features, rows, labelled, examples.notes(), record, model, device, total)
    parquet = check_ours(out / PARQUET, OURS)
    named = name_pictures(task, estimator, keep=total <= FEW, rate=rate, parquet=parquet, check=unchanged)
    result = named.result
    result["title"] += f": {len(result['pictures']):,} of {count(total, 'picture')}"
    result["folder"] = link_between(out, record["root"])
    write_results(out, task, named, support, unchanged)
    return result


def _labelled(
    support: Support, rows: PartsTable, record: Mapping[str, Any], model: str | Path | None, device: str
) -> Labelled:
    """Finds the examples among the rows, and embeds those that are not there."""
    listed = [example for example in support.examples if not example.source.is_dir()]
    in_folders = [example for example in support.examples if example.source.is_dir()]
    found = _find_listed(listed, rows)
    pictures = one_per_picture((_sha256(example.file), example) for example in in_folders)
    copies = rows.find_contents(pictures)
    by_name = [(example.file, example) for example in listed]
    by_name += [(name, pictures[content]) for content, name, _ in copies]
    examples = one_per_picture(by_name)
    counted = {content for content, name, _ in copies if name in found}  # with the tables already
    new = [example for content, example in pictures.items() if content not in counted]
    kept, embedded, broken = _embed(new, record, model, device)
    names = sorted(name for name in found if examples[name].label != UNKNOWN)
    labels = [*(examples[name].label for name in names), *(example.label for example in kept)]
    classes, skipped = sorted(set(labels)), [*support.skipped, *broken]
    check_classes(in_folders, classes, skipped)
    number = {name: code for code, name in enumerate(classes)} | {UNKNOWN: NONE_OF_CLASSES}
    places: dict[int, dict[int, int]] = {}
    for name, (shard, position) in [(name, place[:2]) for name, place in found.items()] + [copy[1:] for copy in copies]:
        places.setdefault(shard, {})[position] = number[examples[name].label]
    codes = np.array([number[label] for label in labels])
    origins = {example.file: example.origin for example in listed if example.by_table}
    origin = np.array([origins.get(name, IN_FOLDER) for name in names] + [IN_FOLDER] * len(embedded))
    rows_of = np.stack([*(found[name].row for name in names), *embedded])
    return Labelled(classes, rows_of, codes, places, examples, corrected_rows(codes, origin), origins, skipped)


def _find_listed(examples: Sequence[Example], rows: PartsTable) -> dict[str, Place]:
    """The rows of the pictures that tables name."""
    found = rows.find_names(example.file for example in examples)
    if missing := [example for example in examples if example.file not in found]:
        raise UserError(
            f"{str(missing[0].source)!r} names {count(len({one.file for one in missing}), 'picture')} without a row, "
            f"such as {to_text(missing[0].file)!r}: write names as the manifest has them, relative to the folder it "
            f"was made from"
        )
    return found


def _embed(
    examples: Sequence[Example], record: Mapping[str, Any], model: str | Path | None, device: str
) -> tuple[list[Example], list[np.ndarray], list[Skipped]]:
    """The readable examples and their rows, exactly as extract makes them: decoding, batches, views and rounding."""
    if not examples:
        return [], [], []
    engine = record["engine"]
    place = "cpu" if engine == ONNXRUNTIME else device
    network, own = load_same(
        model,
        record["model"]["model"],
        record["weights"],
        "the features were",
        lambda name: networks.load(name, place, engine),
    )
    entries = [Entry(os.path.abspath(example.file), size_of(example.file)) for example in examples]
    batches = decode_entries(Path(), entries, own["size"], own.get("resize"))
    rows, broken = rows_of(embed_decoded(batches, network, own, record["views"]), len(entries))
    good = [row for row in range(len(examples)) if row not in broken]
    skipped = [Skipped(examples[row].file, reason) for row, reason in broken.items()]
    return [examples[row] for row in good], list(rows[good]), skipped


def _sha256(file: str) -> bytes | None:
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError:
        return None


def _task(
    features: Path,
    rows: PartsTable,
    labelled: Labelled,
    notes: list[str],
    record: Mapping[str, Any],
    model: str | Path | None,
    device: str,
    total: int,
) -> Task:
    """All rows as a task; those with a class are no unlabelled rows."""
    card = card_file(model or record["model"]["model"])  # as it is now, not as it was when the features were made
    broken = islice((one for part in rows.parts for one in part.record["broken"]), SKIPPED)
    leave = {
        shard: np.array([position for position, code in codes.items() if code != UNLABELED], int)
        for shard, codes in labelled.places.items()
    }
    source = ShardSource(replace(rows, leave=leave), device)
    return Task(
        title=to_text(features.resolve().name),
        root=record["root"],
        classes=labelled.classes,
        support=labelled.rows,
        labels=labelled.codes,
        unlabeled=source,
        blocks=lambda classifier: _blocks(classifier, source, labelled, -(-total // SAMPLE)),
        model=model_entry(record["model"], record["views"]),
        trained_on=trained_on(card, record["model"].get("dataset")),
        # a card is calibrated with one view
        calibration=calibration_of(card, record["weights"]) if record["views"] == 1 else None,
        sample=lambda: _sample(source, -(-total // SAMPLED)),
        corrected=labelled.corrected,
        skipped=skipped_records([*labelled.skipped, *(Skipped(one["name"], one["reason"]) for one in broken)]),
        notes=notes,
    )


def _sample(source: ShardSource, every: int) -> np.ndarray:
    """Every `every`-th unlabelled row of each part."""
    return np.concatenate([rows[::every] for rows in source.table]).astype(np.float32)


def _counter(on_progress: Progress, total: int) -> Callable[[int], None]:
    """Reports the rows of all passes. BAPA takes one more than expected where class sizes differ, fewer where classes
    overlap."""
    done = 0

    def tick(rows: int) -> None:
        nonlocal done
        done += rows
        on_progress("rows, all passes", min(done, total), total)

    return tick


def _blocks(classifier: Classifier, source: ShardSource, labelled: Labelled, every: int) -> Iterator[Block]:
    """One block per part. Every `every`-th row is in the report, and all that have a label."""
    parts = source.table.parts
    starts = dict(zip((part.number for part in parts), accumulate((part.shape[0] for part in parts), initial=0)))
    source, answering = source.powered(classifier.beta, classifier.power), classifier.to(source.device)

    def block(part: Part, table: np.ndarray) -> Block:
        number, lists = part.number, read_lists(part)
        codes = np.full(len(table), UNLABELED)
        for position, code in labelled.places.get(number, {}).items():
            codes[position] = code
        sampled = ((np.arange(len(table)) + starts[number]) % every == 0) & (codes < 0)
        origin = np.array([labelled.origins.get(name, IN_FOLDER) for name in lists["names"]])
        with torch.inference_mode():
            answers = answering.answer_blocks(source.blocks(table))
        text = [to_text(name) for name in lists["names"]]
        shown, featured = sampled | (codes != UNLABELED), np.flatnonzero(sampled)
        numbers = np.array(lists["numbers"], np.int32)
        return Block(text, codes, origin, answers, shown, table[sampled], featured, number, numbers)

    return source.table.each(block, everything=True)
