"""The path of the prototypes through the labelled and unlabelled rows, for the report."""

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from protoadapt.core.estimators import PrototypeClassifier
from protoadapt.core.projection import plane_paths
from protoadapt.labeling.classifier import Classifier

ROWS = 500
POINTS = 400
"""Of prototypes, all steps together; with more classes than fit, only the start and the end are drawn."""


def prototype_paths(
    unfitted: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> dict[str, Any] | None:
    """Plane positions of at most ROWS rows and of every step of the prototypes; see `core.projection.plane_paths`.

    Parameters
    ----------
    unfitted : the estimator that `classifier` comes from, with its settings.
    classifier : the fitted classifier, whose prototypes are the last step.
    rows : (n, D) features; where they are many, the steps before the last are those on a sample.
    codes : (n) class of a labelled row, −1 for the others.

    Returns
    -------
    Points as plain lists, or None where rows are too few or classes too many for a chart.
    """
    n_way = len(classifier.classes)
    if 2 * n_way > POINTS or len(rows) < 5:
        return None
    rng = np.random.default_rng(0)
    labelled, others = (rng.permutation(np.flatnonzero(chosen)) for chosen in (codes >= 0, codes < 0))
    kept = np.concatenate([_some_of_each(labelled, codes), others])[:ROWS]
    sample, labels = rows[kept], codes[kept]
    steps = _steps(unfitted, classifier, sample, labels, full=22 * n_way <= POINTS)
    best = classifier.answer(sample).best[:, 0]
    prepared = classifier.prepare(sample).numpy()
    return plane_paths(prepared, np.where(labels >= 0, labels, best), labels >= 0, torch.stack(steps).numpy())


def _steps(
    unfitted: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray, full: bool
) -> list[torch.Tensor]:
    """Positions (W, D) from the start to the end. A method without steps stays where it is."""
    n_iter = unfitted.get_params().get("n_iter", 0)
    steps = n_iter if full and n_iter <= 20 else min(n_iter, 1)
    if not steps:
        return [classifier.prototypes, classifier.prototypes]
    path = clone(unfitted).set_params(n_iter=steps - 1).path(rows, codes)
    return [*torch.from_numpy(path).float(), classifier.prototypes]


def _some_of_each(labelled: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Labelled rows that leave room for others: at least one per class, without which nothing can be fitted."""
    _, first = np.unique(codes[labelled], return_index=True)
    rest = np.delete(labelled, first)
    return np.concatenate([labelled[first], rest[: max(0, ROWS // 2 - len(first))]])
