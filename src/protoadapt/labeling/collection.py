"""A `Collection`: labelled examples joined with a table of features, which an estimator gives a name to every picture.

The rows may be in memory (`Collection.of_rows`: the pictures of a folder, of a page) or stay on a disk, in a table of
millions (`parts_collection`): the pictures come in blocks either way.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from protoadapt.core.errors import UserError, count
from protoadapt.core.methods.rows import Slices
from protoadapt.core.parts import INDEX, Part, PartsTable, open_parts, read_lists
from protoadapt.core.projection import plane_paths, principal_plane
from protoadapt.core.provenance import made_now
from protoadapt.labeling.classifier import Classifier, load_same
from protoadapt.labeling.label_methods import described
from protoadapt.labeling.names import UNKNOWN, to_text
from protoadapt.labeling.outputs import (
    NONE_OF_CLASSES,
    SCHEMA,
    UNLABELED,
    AnsweredBlock,
    Progress,
    codes_of,
    skipped_records,
)
from protoadapt.labeling.suggest import next_pictures
from protoadapt.labeling.support import IN_TABLE, Example, Examples, check_classes, digest_of, one_per_picture
from protoadapt.vision import networks
from protoadapt.vision.networks.cards import input_errors, trained_on
from protoadapt.vision.networks.onnx_engine import ONNXRUNTIME
from protoadapt.vision.pictures.walk import Entry, Skipped, size_of
from protoadapt.vision.shards.make import embed_entries

if TYPE_CHECKING:
    from protoadapt.core.estimators import PrototypeClassifier

FEATURED = 10_000
"""Unlabelled rows that the report draws from and suggestions come from, at most."""
FEW = 100_000
"""Rows of a table that a spreadsheet opens without complaint: up to so many there is a labels.csv too."""
NEXT = 18
"""Pictures that a result suggests to label next."""
_ROWS = 500
POINTS = 400
"""Of prototypes, all steps together; with more classes than fit, only the start and the end are drawn."""
_STEPS = 5
"""Positions of a prototype on the map of all pictures, the first and the last among them."""


REPORTED = 2000
"""Pictures in the report, beside the examples."""
SKIPPED = 1000
"""Unreadable pictures that are listed; extract's broken.csv has all."""


class Named(NamedTuple):
    """All pictures of a collection, named."""

    result: dict[str, Any]  # what labels.json holds: the pictures that the report shows
    classifier: Classifier
    records: list[dict[str, Any]] | None  # of all pictures, unless there are more than FEW
    featured: tuple[np.ndarray, list[dict[str, Any]]]  # rows (m, D) and records of some unlabelled pictures


@dataclass(frozen=True)
class Collection:
    """Examples, unlabelled rows and the pictures to be named, wherever the rows are. S labelled rows of D features."""

    title: str
    classes: list[str]
    support: np.ndarray  # (S, D): labelled rows
    labels: np.ndarray  # (S): their classes, as positions in `classes`
    unlabeled: Iterable[np.ndarray]  # arrays (n, D), run through in every step
    blocks: Callable[[Classifier], Iterator[AnsweredBlock]]  # the pictures, answered
    network: Mapping[str, Any]  # metadata of the network that made the features, with `views` where there are several
    root: str = ""  # the folder that the pictures' names start from
    skipped: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    table: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # rows, codes and each picture's row, in memory
    contents: Mapping[str, bytes] = field(default_factory=dict)  # sha256 by the pictures' names, where it is known
    rows_on_disk: int = 0  # of a table that is not in memory
    knows: Callable[[Example], bool] = lambda example: False  # whether it is among the examples, or cannot be read

    @classmethod
    def of_rows(
        cls,
        title: str,
        names: Sequence[str],
        row: np.ndarray,
        rows: np.ndarray,
        codes: np.ndarray,
        classes: list[str],
        network: Mapping[str, Any],
        origin: np.ndarray | None = None,
        **more: Any,
    ) -> "Collection":
        """A collection whose rows are in memory.

        names, row (n): each picture's name and its row, which several may share. rows (N, D): features. codes, origin
        (N) as in `outputs.AnsweredBlock`. network: its metadata.
        """
        origin = np.full(len(rows), IN_TABLE) if origin is None else origin
        support, unlabeled = codes >= 0, np.flatnonzero(codes == UNLABELED)
        some = np.sort(np.random.default_rng(0).permutation(unlabeled)[:FEATURED])
        _, first = np.unique(row, return_index=True)  # of the pictures that share a row

        def blocks(classifier: Classifier) -> Iterator[AnsweredBlock]:
            answers = classifier.answer(rows).at(row)
            yield AnsweredBlock(
                names, codes[row], origin[row], answers, np.ones(len(row), bool), rows[some], first[some]
            )

        given = Slices(rows, unlabeled), blocks, network
        return cls(title, classes, rows[support], codes[support], *given, table=(rows, codes, row), **more)

    def name(
        self,
        estimator: "PrototypeClassifier",
        *,
        paths: bool = True,
        n_next: int = NEXT,
        each: Callable[[AnsweredBlock], None] = lambda block: None,
    ) -> Named:
        """Fits the estimator on all rows and answers each picture once.

        paths: compute the prototypes' paths for the report, which takes seconds. n_next: how many pictures to suggest
        for labelling next. each: called with every block.
        """
        network = self.network
        estimator.fit_rows(self.support, self.labels, self.unlabeled)
        about = {"name": network["model"]} | {key: network[key] for key in ("weights", "size", "mean", "std")}
        about |= {"views": network["views"]} if network.get("views", 1) > 1 else {}
        classifier = Classifier.of(estimator, self.classes, about)
        named = self.answered(classifier, described(estimator), each)
        result, (rows, records) = named.result, named.featured
        result["next"], result["paths"] = next_pictures(classifier, self.support, rows, records, n_next), None
        if paths:
            codes = np.concatenate([self.labels, np.full(len(rows), UNLABELED)])
            drawn = np.concatenate([self.support, rows]).astype(np.float32)
            rows, codes, row = self.table or (drawn, codes, None)
            prepared, path = prepared_path(estimator, classifier, rows, codes)
            result["paths"] = prototype_paths(classifier, rows, prepared, codes, path)
            result["map"] = None
            if row is not None:
                points, moves = principal_plane(prepared, few_steps(path))
                of_class = dict(zip(self.classes, moves.round(4).tolist()))
                result["map"] = {"points": points[row].round(4).tolist(), "paths": of_class}
        return named

    def answered(
        self,
        classifier: Classifier,
        method: Mapping[str, Any],
        each: Callable[[AnsweredBlock], None] = lambda block: None,
    ) -> Named:
        """The pictures as a classifier names them; method: `name` and `settings`."""
        n_way, no_class, keep = len(self.classes), 0, self.rows_on_disk <= FEW
        found, unknown = np.zeros((2, n_way), np.int64)
        grouped = np.zeros(len(classifier.groups), np.int64)
        sure = 0.0
        reported: list[dict[str, Any]] = []
        featured: list[dict[str, Any]] = []
        records: list[dict[str, Any]] = []
        features = [self.support[:0]]
        for block in map(AnsweredBlock.labelled, self.blocks(classifier)):
            best, asked = block.answers.best[:, 0], block.codes == UNLABELED
            no_class += int((block.codes == NONE_OF_CLASSES).sum())
            found += np.bincount(best[asked], minlength=n_way)
            unknown += np.bincount(best[asked & block.answers.unknown], minlength=n_way)
            grouped += np.bincount(block.answers.group[block.answers.group >= 0], minlength=len(grouped))
            sure += float(block.answers.probability[asked & ~block.answers.unknown, 0].sum())
            every = block.records(self.classes) if keep else []
            for some, places in ((reported, np.flatnonzero(block.reported)), (featured, block.featured)):
                some += [every[i] for i in places] if keep else block.records(self.classes, places)
            records += every
            features.append(block.features)
            each(block)
        counts = zip(
            self.classes, *(part.tolist() for part in (np.bincount(self.labels, minlength=n_way), found, unknown))
        )
        model = {key: classifier.model[key] for key in ("name", "weights", "size")}
        model |= {"name": to_text(model["name"]), "dataset": self.network.get("trained_on")}  # a path need not be text
        of_all = f": {len(reported):,} of {count(self.rows_on_disk, 'picture')}" if self.rows_on_disk else ""
        result = {
            "schema": SCHEMA,
            "title": self.title + of_all,
            **made_now(),
            "model": model,
            "method": method,
            "temperature": classifier.temperature,
            "threshold": classifier.threshold,
            "classes": [dict(zip(("name", "support", "found", "unknown"), values)) for values in counts],
            "unnamed": [dict(zip(("name", "found"), group)) for group in zip(classifier.groups, grouped.tolist())],
            "estimate": None if classifier.threshold is None else right_of_100(sure, int((found - unknown).sum())),
            "no_class": no_class,  # pictures of none of the classes, as people said
            "pictures": reported,
            "skipped": self.skipped,
            "notes": self.notes,
        }
        return Named(result, classifier, records if keep else None, (np.concatenate(features), featured))


def right_of_100(sure: float, n: int) -> dict[str, float] | None:
    """How many of 100 names are right: the mean of the n likeliest classes' probabilities, whose sum is `sure`.

    The bounds are what held for nine of ten tasks of collections that no constant was chosen on: probabilities are
    wrong by as much as the collection is unlike those.
    """
    if not n:
        return None
    right = 100 * sure / n
    off = 2 + (100 - right) / 2
    return {"right": round(right, 1), "low": round(max(right - off, 0), 1), "high": round(min(right + off, 100), 1)}


def prepared_path(
    estimator: "PrototypeClassifier", classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) as the classifier compares them, and T positions (T, W, D) of its prototypes among them, a fit's
    steps. codes (n): the class of a labelled row, negative for the others."""
    path = estimator.path(rows, np.maximum(codes, UNLABELED))
    path[-1] = classifier.prototypes[: len(classifier.classes)]
    return classifier.prepare(rows).numpy(), path


def few_steps(path: np.ndarray) -> np.ndarray:
    """(W, _STEPS, D) of the positions (T, W, D), for the map of all pictures."""
    return path[np.linspace(0, len(path) - 1, _STEPS).round().astype(int)].swapaxes(0, 1)


def prototype_paths(
    classifier: Classifier, rows: np.ndarray, prepared: np.ndarray, codes: np.ndarray, path: np.ndarray
) -> dict[str, Any] | None:
    """Plane positions of at most _ROWS of the rows (n, D) and of all prototypes, as `plane_paths` returns them.

    prepared, codes, path: of `prepared_path`. None where rows are too few or classes too many for a chart.
    """
    n_way = len(classifier.classes)
    if 2 * n_way > POINTS or len(rows) < 5:
        return None
    rng = np.random.default_rng(0)
    labelled, others = (rng.permutation(np.flatnonzero(chosen)) for chosen in (codes >= 0, codes < 0))
    kept = np.concatenate([labelled[: _ROWS // 2], others])[:_ROWS]
    best = classifier.answer(rows[kept]).best[:, 0]
    steps = path if 2 < len(path) <= POINTS // n_way - 1 and len(path) <= 21 else path[[0, -1]]
    support = codes[kept] >= 0
    return plane_paths(prepared[kept], np.where(support, codes[kept], best), support, steps)


def parts_collection(
    features: str | Path, support: Examples, model: str | Path | None, device: str, passes: int, on_progress: Progress
) -> Collection:
    """Joins the rows of a table (`extract --manifest`) and examples, by the names that tables give.

    A picture of a class folder that is no row is embedded, exactly as the rows were. passes: how often the rows will be
    read, for `on_progress`.
    """
    table = open_parts(Path(features))
    if not table.n_rows:
        raise UserError(f"{str(features)!r} has no rows: none of its pictures could be read, see its broken.csv")
    index, made_with = table.index, table.index["model"]
    texts = made_with.get("model"), made_with.get("weights"), made_with.get("dataset") or ""
    if input_errors(made_with) or {*map(type, texts)} != {str}:
        raise UserError(
            f"{INDEX} in {str(features)!r} does not describe its network: remove it, and run protoadapt extract again"
        )
    listed = [example for example in support.examples if not example.source.is_dir()]
    in_folders = [example for example in support.examples if example.source.is_dir()]
    pictures = one_per_picture((digest_of(example.file), example) for example in in_folders)
    table.check()  # before any of its lists is believed
    found = table.find({example.file for example in listed})
    if missing := [example for example in listed if example.file not in found]:
        raise UserError(
            f"{str(missing[0].source)!r} names {count(len({one.file for one in missing}), 'picture')} without a row, "
            f"such as {to_text(missing[0].file)!r}: write names as the manifest has them, relative to its folder"
        )
    example_of = one_per_picture((example.file, example) for example in listed)
    new = list(pictures.values())
    embedded, broken = _embedded(new, table, model, device)
    names = sorted(name for name in found if example_of[name].label != UNKNOWN)
    labels = [*(example_of[name].label for name in names), *(new[i].label for i in embedded)]
    classes, skipped = sorted(set(labels)), [*support.skipped, *broken]
    check_classes(in_folders, classes, skipped)
    number = codes_of(classes)
    places: dict[int, dict[int, int]] = {}  # part → position → class or NONE_OF_CLASSES
    for name, (part, position, _) in found.items():
        places.setdefault(part, {})[position] = number[example_of[name].label]
    codes = np.array([number[label] for label in labels])
    leave = {part: np.array(list(positions)) for part, positions in places.items()}
    total, done = passes * table.n_rows, 0

    def tick(rows: int) -> None:
        nonlocal done
        done = min(done + rows, total)  # a method may need fewer passes than expected, or one more
        on_progress("rows, all passes", done, total)

    unlabeled = replace(table, leave=leave, tick=tick)
    # The card as it is now, not as it was when the features were made.
    words = trained_on(model or made_with["model"], made_with.get("dataset"))
    own = {"trained_on": words, "views": index["views"]}
    unread = islice((one for part in table.parts for one in part.record["broken"]), SKIPPED)
    every = -(-table.n_rows // REPORTED)
    return Collection(
        to_text(Path(features).resolve().name),
        classes,
        np.stack([*(found[name][2] for name in names), *embedded.values()]),
        codes,
        unlabeled,
        lambda classifier: _blocks(classifier, unlabeled, places, every, device),
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


def _blocks(
    classifier: Classifier, table: PartsTable, places: dict[int, dict[int, int]], every: int, device: str
) -> Iterator[AnsweredBlock]:
    """One block per part. Every `every`-th row is in the report, and all that have a label."""
    parts = table.parts
    starts = dict(zip((part.number for part in parts), accumulate((part.shape[0] for part in parts), initial=0)))
    answering = classifier.to(device)

    def block(part: Part, rows: np.ndarray) -> AnsweredBlock:
        lists, codes, origin = read_lists(part), np.full(len(rows), UNLABELED), np.full(len(rows), IN_TABLE)
        labelled = places.get(part.number, {})
        codes[[*labelled]] = [*labelled.values()]
        sampled = ((np.arange(len(rows)) + starts[part.number]) % every == 0) & (codes < 0)
        with torch.inference_mode():
            answers = answering.answer(rows)
        text, numbers = [to_text(name) for name in lists["names"]], np.array(lists["numbers"], np.int32)
        shown, featured = sampled | (codes != UNLABELED), np.flatnonzero(sampled)
        return AnsweredBlock(text, codes, origin, answers, shown, rows[sampled], featured, part.number, numbers)

    return table.each(block)
