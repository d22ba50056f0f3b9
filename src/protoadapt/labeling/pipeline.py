"""From labelled and unlabelled rows to named pictures: one way, whether the rows are in memory or on disk.

A `Task` holds the examples, a source of unlabelled rows and the pictures to be named. `name_pictures` fits the
estimator, answers all pictures block by block, and makes the result. `write_results` writes the files.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from protoadapt.core.files import write_text
from protoadapt.core.methods.row_source import MemorySource, RowSource, block_size
from protoadapt.core.provenance import made_now
from protoadapt.labeling import outputs, thumbnails
from protoadapt.labeling.classifier import Classifier, save_classifier
from protoadapt.labeling.familiarity import RATE, SAMPLE, check_calibration, with_threshold
from protoadapt.labeling.label_methods import described
from protoadapt.labeling.names import to_text
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, Block
from protoadapt.labeling.parquet_table import parquet_writer
from protoadapt.labeling.prototype_paths import picture_map, prototype_paths
from protoadapt.labeling.suggest import next_pictures
from protoadapt.labeling.support import IN_FOLDER, corrected_rows
from protoadapt.labeling.thumbnails import Progress as Progress

if TYPE_CHECKING:
    from protoadapt.core.estimators import PrototypeClassifier

FEATURED = 10_000
"""Unlabelled rows that the report draws from and suggestions come from, at most."""
NEXT = 18
"""Pictures that a result suggests to label next."""


@dataclass(frozen=True)
class Task:
    """Examples, unlabelled rows and the pictures to be named, however the rows are held.

    S labelled rows of D features.
    """

    title: str
    root: str  # the folder that the pictures' names start from
    classes: list[str]
    support: np.ndarray  # (S, D): labelled rows
    labels: np.ndarray  # (S): their classes, as positions in `classes`
    unlabeled: RowSource
    blocks: Callable[[Classifier], Iterator[Block]]  # the pictures, answered; of several processes this one's
    model: dict[str, Any]  # what a classifier keeps of its network
    trained_on: str | None
    calibration: Mapping[str, Any] | None
    sample: Callable[[], np.ndarray]  # unlabelled rows, SAMPLE at most
    corrected: np.ndarray | None = None  # (S): whether a labelled row does not represent its class; None: no row
    skipped: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    table: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # rows, codes and each picture's row, in memory
    contents: Mapping[str, bytes] = field(default_factory=dict)  # sha256 by name, where it is known


class Named(NamedTuple):
    """All pictures of a task, named."""

    result: dict[str, Any]  # what labels.json holds: the pictures that the report shows
    classifier: Classifier
    records: list[dict[str, Any]] | None  # of all pictures, where they were asked for


def model_entry(metadata: Mapping[str, Any], views: int = 1) -> dict[str, Any]:
    """What a classifier keeps of its network: how to make the features that it was fitted on."""
    entry = {"name": metadata["model"]} | {key: metadata[key] for key in ("weights", "size", "mean", "std")}
    return entry if views == 1 else entry | {"views": views}


def in_memory(
    title: str,
    names: Sequence[str],
    row: np.ndarray,
    rows: np.ndarray,
    codes: np.ndarray,
    classes: list[str],
    metadata: Mapping[str, Any],
    *,
    root: str = "",
    device: str = "cpu",
    origin: np.ndarray | None = None,
    **more: Any,
) -> Task:
    """A task whose rows are in memory.

    names, row (n): each picture's name and its row, which several may share. rows (N, D): features. codes, origin (N)
    as in `outputs.Block`. metadata: of the network. device: the estimator's.
    """
    origin = np.full(len(rows), IN_FOLDER) if origin is None else origin
    support, unlabeled = codes >= 0, np.flatnonzero(codes == UNLABELED)
    some = np.sort(np.random.default_rng(0).permutation(unlabeled)[:FEATURED])
    first = np.zeros(len(rows), int)
    first[row[::-1]] = np.arange(len(row))[::-1]  # of the pictures that share a row

    def blocks(classifier: Classifier) -> Iterator[Block]:
        answers = classifier.answer(rows).at(row)
        yield Block(names, codes[row], origin[row], answers, np.ones(len(row), bool), rows[some], first[some])

    source = MemorySource(rows, unlabeled, block_size(len(classes), rows.shape[1]), torch.float32, device)
    of_network = (model_entry(metadata), metadata["trained_on"], metadata["calibration"])
    table = rows, np.maximum(codes, UNLABELED), row
    arguments = (title, root, classes, rows[support], codes[support], source, blocks, *of_network)
    more["sample"] = lambda: rows[np.random.default_rng(0).permutation(unlabeled)[:SAMPLE]]
    return Task(*arguments, table=table, corrected=corrected_rows(codes, origin)[support], **more)


def name_pictures(
    task: Task,
    estimator: "PrototypeClassifier",
    *,
    paths: bool = True,
    n_next: int = NEXT,
    keep: bool = True,
    rate: float | None = None,
    parquet: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> Named:
    """Fits the estimator on the task's rows and answers each picture once.

    paths: compute the prototypes' paths for the report, which takes seconds. n_next: how many pictures to suggest for
    labelling next. keep: return the records of all pictures, not only of those in the report. rate: the share of known
    pictures that may be called unknown (`checked_rate`). parquet: a file that gets a row per picture; `check` may
    refuse right before it is replaced.
    """
    check_calibration(task.calibration, rate, to_text(task.model["name"]))
    estimator.fit_rows(task.support, task.labels, task.unlabeled, task.corrected)
    classifier = Classifier.of(estimator, task.classes, task.model, task.support, task.labels, task.corrected)
    rows = task.sample() if task.calibration else task.support[:0]
    classifier = with_threshold(classifier, task.calibration, task.labels, rows, task.corrected, rate)
    n_way = len(task.classes)
    (found, unknown), no_class, rows_of_blocks = np.zeros((2, n_way), np.int64), 0, [task.support[:0]]
    sample: list[dict[str, Any]] = []
    featured: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    with parquet_writer(parquet, task.classes, check) if parquet else nullcontext(lambda block: None) as write:
        for block in map(Block.settled, task.blocks(classifier)):
            best, chosen = block.answers.best[:, 0], np.flatnonzero(block.sampled)
            asked, no_class = block.codes == UNLABELED, no_class + int((block.codes == NONE_OF_CLASSES).sum())
            found += np.bincount(best[asked], minlength=n_way)
            unknown += np.bincount(best[asked & block.answers.unknown], minlength=n_way)
            every = block.records(task.classes) if keep else []
            for some, places in ((sample, chosen), (featured, block.featured)):
                some += [every[i] for i in places] if keep else block.records(task.classes, places)
            records += every
            rows_of_blocks.append(block.features)
            write(block)
    features = np.concatenate(rows_of_blocks)
    support = np.bincount(task.labels, minlength=n_way)
    counts = zip(task.classes, support.tolist(), found.tolist(), unknown.tolist())
    result = {
        "schema": outputs.SCHEMA,
        "title": task.title,
        **made_now(),
        "model": {
            "name": to_text(task.model["name"]),  # a path need not be text
            **{key: task.model[key] for key in ("weights", "size")},
            "dataset": task.trained_on,
        },
        "method": described(estimator),
        "calibrated": classifier.threshold is not None,
        "temperature": classifier.temperature,
        "threshold": classifier.threshold,
        "unknown_rate": None if classifier.threshold is None or rate == 0 else rate or RATE,
        "classes": [dict(zip(("name", "support", "found", "unknown"), values)) for values in counts],
        "no_class": no_class,  # pictures of none of the classes, as people said
        "pictures": sample,
        "skipped": list({tuple(one.items()): one for one in task.skipped}.values()),
        "notes": task.notes,
        "next": next_pictures(classifier, task.support, features, featured, n_next),
        "paths": None,
    }
    if paths:
        rows = np.concatenate([task.support, features]).astype(np.float32)
        codes = np.concatenate([task.labels, np.full(len(features), UNLABELED)])
        result["paths"] = prototype_paths(estimator, classifier, rows, codes)
        result["map"] = picture_map(estimator, classifier, *task.table) if task.table else None
    return Named(result, classifier, records if keep else None)


def write_results(
    out: Path,
    task: Task,
    named: Named,
    sources: Sequence[str | Path],
    unchanged: Callable[[], None],
    on_progress: Progress = lambda stage, done, total: None,
) -> None:
    """Writes the report's thumbnails, labels.csv, labels.json and classifier.safetensors.

    Where the records of all pictures were not kept, a labels.csv of an earlier run is removed, as it would contradict
    the other files, unless it is one of the `sources` of examples. `unchanged` may refuse right before.
    """
    result, labels_csv = named.result, out / "labels.csv"
    thumbnails.add_thumbnails(result, task.root, task.contents, out, on_progress)
    if named.records is not None:  # first: if it refuses, all is as it was
        write_text(labels_csv, outputs.as_csv(result | {"pictures": named.records}), unchanged)
    elif not any(labels_csv.exists() and Path(source).samefile(labels_csv) for source in sources):
        unchanged()
        labels_csv.unlink(missing_ok=True)
    write_text(out / "labels.json", json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    save_classifier(out / "classifier.safetensors", named.classifier)
    thumbnails.remove_unused(result, out)
