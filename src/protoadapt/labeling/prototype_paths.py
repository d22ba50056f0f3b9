"""The path of the prototypes through the labelled and unlabelled rows, for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from protoadapt.core.projection import plane_paths, principal_plane
from protoadapt.labeling.classifier import Classifier

if TYPE_CHECKING:
    from protoadapt.core.estimators import PrototypeClassifier

ROWS = 500
POINTS = 400
"""Of prototypes, all steps together; with more classes than fit, only the start and the end are drawn."""
STEPS = 5
"""Positions of a prototype on the map of all pictures, the first and the last among them."""


def prepared_steps(
    estimator: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) as the classifier compares them, and STEPS positions (W, STEPS, D) of its prototypes among them.

    codes (n): the class of a labelled row, negative for the others.
    """
    from sklearn.base import clone

    path = clone(estimator).path(rows, np.maximum(codes, -1))
    chosen = np.linspace(0, len(path) - 1, STEPS).round().astype(int)
    return classifier.prepare(rows).numpy(), path[chosen].swapaxes(0, 1)


def picture_map(
    estimator: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray, row: np.ndarray
) -> dict[str, Any]:
    """All pictures in the plane of their first two principal components, for the board.

    row (n): the row of each picture. Returns `points` [[x, y] per picture] and `paths` {class: [[x, y] per step]}.
    """
    points, steps = principal_plane(*prepared_steps(estimator, classifier, rows, codes))
    return {"points": points[row].round(4).tolist(), "paths": dict(zip(classifier.classes, steps.round(4).tolist()))}


def prototype_paths(
    estimator: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray
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
    kept = np.concatenate([_some_of_each(labelled, codes), others])[:ROWS]
    sample, labels = rows[kept], codes[kept]
    last = classifier.prototypes.numpy()
    start = last[None]  # a method without steps stays where it is
    if n_iter:
        drawn = n_iter if n_iter <= 20 and 22 * n_way <= POINTS else 1
        start = clone(estimator).set_params(n_iter=drawn - 1).path(sample, labels).astype(np.float32)
    best = classifier.answer(sample).best[:, 0]
    prepared = classifier.prepare(sample).numpy()
    return plane_paths(prepared, np.where(labels >= 0, labels, best), labels >= 0, np.stack([*start, last]))


def _some_of_each(labelled: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Labelled rows that leave room for others: at least one per class, without which nothing can be fitted."""
    _, first = np.unique(codes[labelled], return_index=True)
    rest = np.delete(labelled, first)
    return np.concatenate([labelled[first], rest[: max(0, ROWS // 2 - len(first))]])
