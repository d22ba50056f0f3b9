"""The path of the prototypes through the labelled and unlabelled rows, for the report."""

from typing import Any

import numpy as np
from sklearn.base import clone

from protoadapt.core.estimators import PrototypeClassifier
from protoadapt.core.projection import plane_paths
from protoadapt.labeling.classifier import Classifier

ROWS = 500
POINTS = 400
"""Of prototypes, all steps together; with more classes than fit, only the start and the end are drawn."""


def prototype_paths(
    estimator: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> dict[str, Any] | None:
    """Plane positions of at most ROWS rows (n, D) and of every step of the prototypes, as `plane_paths` returns them.

    codes (n): the class of a labelled row, −1 for the others. Steps before the last are those of a fit on the drawn
    rows alone; the last is the classifier's. None where rows are too few or classes too many for a chart.
    """
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
