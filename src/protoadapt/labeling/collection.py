"""A `Collection`: labelled examples joined with a table of features, which an estimator gives a name to every picture.

The rows may be in memory (`Collection.of_rows`: the pictures of a folder, of a page) or stay on a disk, in a table of
millions (`parts_collection`): the pictures come in blocks either way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protoadapt.core.methods.rows import Slices
from protoadapt.core.projection import plane_paths, principal_plane
from protoadapt.core.provenance import made_now
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.familiarity import RATE, SAMPLE, check_calibration, with_threshold
from protoadapt.labeling.label_methods import described
from protoadapt.labeling.names import to_text
from protoadapt.labeling.outputs import NONE_OF_CLASSES, SCHEMA, UNLABELED, AnsweredBlock
from protoadapt.labeling.suggest import next_pictures
from protoadapt.labeling.support import IN_FOLDER, Example

if TYPE_CHECKING:
    from protoadapt.core.estimators import PrototypeClassifier

FEATURED = 10_000
"""Unlabelled rows that the report draws from and suggestions come from, at most."""
FEW = 100_000
"""Rows of a table that a spreadsheet opens without complaint: up to so many there is a labels.csv too."""
NEXT = 18
"""Pictures that a result suggests to label next."""
ROWS = 500
POINTS = 400
"""Of prototypes, all steps together; with more classes than fit, only the start and the end are drawn."""
STEPS = 5
"""Positions of a prototype on the map of all pictures, the first and the last among them."""


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
    sample: Callable[[], np.ndarray]  # some unlabelled rows, SAMPLE at most
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
        origin = np.full(len(rows), IN_FOLDER) if origin is None else origin
        support, unlabeled = codes >= 0, np.flatnonzero(codes == UNLABELED)
        mixed = np.random.default_rng(0).permutation(unlabeled)
        some, first = np.sort(mixed[:FEATURED]), np.zeros(len(rows), int)
        first[row[::-1]] = np.arange(len(row))[::-1]  # of the pictures that share a row

        def blocks(classifier: Classifier) -> Iterator[AnsweredBlock]:
            answers = classifier.answer(rows).at(row)
            yield AnsweredBlock(
                names, codes[row], origin[row], answers, np.ones(len(row), bool), rows[some], first[some]
            )

        given = Slices(rows, unlabeled), lambda: rows[mixed[:SAMPLE]], blocks, network
        return cls(title, classes, rows[support], codes[support], *given, table=(rows, codes, row), **more)

    def name(
        self,
        estimator: "PrototypeClassifier",
        *,
        rate: float | None = None,
        paths: bool = True,
        n_next: int = NEXT,
        each: Callable[[AnsweredBlock], None] = lambda block: None,
    ) -> Named:
        """Fits the estimator on all rows and answers each picture once.

        rate: the share of known pictures that may be called unknown (`checked_rate`). paths: compute the prototypes'
        paths for the report, which takes seconds. n_next: how many pictures to suggest for labelling next. each: called
        with every block.
        """
        network, calibration = self.network, self.network["calibration"]
        check_calibration(calibration, rate, network["model"])
        estimator.fit_rows(self.support, self.labels, self.unlabeled)
        about = {"name": network["model"]} | {key: network[key] for key in ("weights", "size", "mean", "std")}
        about |= {"views": network["views"]} if network.get("views", 1) > 1 else {}
        classifier = Classifier.of(estimator, self.classes, about, self.support, self.labels)
        if calibration is not None:
            classifier = with_threshold(classifier, calibration, self.labels, self.sample(), rate)
        named = self.answered(classifier, described(estimator), each)
        result, (rows, records) = named.result, named.featured
        result["unknown_rate"] = None if classifier.threshold is None or rate == 0 else rate or RATE
        result["model"]["dataset"] = network["trained_on"]
        result["next"], result["paths"] = next_pictures(classifier, self.support, rows, records, n_next), None
        if paths:
            codes = np.concatenate([self.labels, np.full(len(rows), UNLABELED)])
            drawn = np.concatenate([self.support, rows]).astype(np.float32)
            result["paths"] = prototype_paths(estimator, classifier, drawn, codes)
            result["map"] = None
            if self.table:
                rows, codes, row = self.table
                points, moves = principal_plane(*prepared_steps(estimator, classifier, rows, codes))
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
        reported: list[dict[str, Any]] = []
        featured: list[dict[str, Any]] = []
        records: list[dict[str, Any]] = []
        features = [self.support[:0]]
        for block in map(AnsweredBlock.labelled, self.blocks(classifier)):
            best, asked = block.answers.best[:, 0], block.codes == UNLABELED
            no_class += int((block.codes == NONE_OF_CLASSES).sum())
            found += np.bincount(best[asked], minlength=n_way)
            unknown += np.bincount(best[asked & block.answers.unknown], minlength=n_way)
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
        result = {
            "schema": SCHEMA,
            "title": self.title,
            **made_now(),
            "model": model | {"name": to_text(model["name"])},  # a path need not be text
            "method": method,
            "calibrated": classifier.threshold is not None,
            "temperature": classifier.temperature,
            "threshold": classifier.threshold,
            "classes": [dict(zip(("name", "support", "found", "unknown"), values)) for values in counts],
            "no_class": no_class,  # pictures of none of the classes, as people said
            "pictures": reported,
            "skipped": self.skipped,
            "notes": self.notes,
        }
        return Named(result, classifier, records if keep else None, (np.concatenate(features), featured))


def prepared_steps(
    estimator: "PrototypeClassifier", classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) as the classifier compares them, and STEPS positions (W, STEPS, D) of its prototypes among them.

    codes (n): the class of a labelled row, negative for the others.
    """
    from sklearn.base import clone

    path = clone(estimator).path(rows, np.maximum(codes, -1))
    chosen = np.linspace(0, len(path) - 1, STEPS).round().astype(int)
    return classifier.prepare(rows).numpy(), path[chosen].swapaxes(0, 1)


def prototype_paths(
    estimator: "PrototypeClassifier", classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> dict[str, Any] | None:
    """Plane positions of at most ROWS rows (n, D) and of every step of the prototypes, as `plane_paths` returns them.

    codes (n): the class of a labelled row, −1 for the others. Steps before the last are those of a fit on the drawn
    rows alone; the last is the classifier's. None where rows are too few or classes too many for a chart.
    """
    from sklearn.base import clone

    n_way, n_iter = len(classifier.classes), estimator.get_params().get("n_iter", 0)
    if 2 * n_way > POINTS or len(rows) < 5:
        return None
    rng = np.random.default_rng(0)
    labelled, others = (rng.permutation(np.flatnonzero(chosen)) for chosen in (codes >= 0, codes < 0))
    _, first = np.unique(codes[labelled], return_index=True)  # one of each class, without which nothing can be fitted
    rest = np.delete(labelled, first)[: max(0, ROWS // 2 - n_way)]
    kept = np.concatenate([labelled[first], rest, others])[:ROWS]
    sample, labels = rows[kept], codes[kept]
    last = classifier.prototypes.numpy()
    start = last[None]  # a method without steps stays where it is
    if n_iter:
        drawn = n_iter if n_iter <= 20 and 22 * n_way <= POINTS else 1
        start = clone(estimator).set_params(n_iter=drawn - 1).path(sample, labels).astype(np.float32)
    best = classifier.answer(sample).best[:, 0]
    prepared = classifier.prepare(sample).numpy()
    return plane_paths(prepared, np.where(labels >= 0, labels, best), labels >= 0, np.stack([*start, last]))
