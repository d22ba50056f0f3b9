"""The prototypes' way through the pictures, in one joint t-SNE (the paper's Figure 3), for the report."""

from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.manifold import TSNE

from protoadapt.core.estimators import PrototypeClassifier
from protoadapt.labeling.classifier import Classifier

ROWS = 500
POINTS = 400
"""Of prototypes, all steps together; with more classes than fit, the start and the end alone are drawn."""


def prototype_paths(
    unfitted: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray
) -> dict[str, Any] | None:
    """Plane positions of at most ROWS rows and of every step of the prototypes; None where they would say nothing.

    rows (n, D), codes (n): the class a row was given, or -1. Where rows are many the steps are those on a sample, and
    only the last is the classifier's own.
    """
    n_way = len(classifier.classes)
    if 2 * n_way > POINTS or len(rows) < 5:
        return None
    rng = np.random.default_rng(0)
    labelled, others = (rng.permutation(np.flatnonzero(found)) for found in (codes >= 0, codes < 0))
    kept = np.concatenate([_some_of_each(labelled, codes), others])[:ROWS]
    sample, given = rows[kept], codes[kept]
    steps = _steps(unfitted, classifier, sample, given, full=22 * n_way <= POINTS)
    positions = torch.stack(steps).double()  # (T, W, D)
    u = classifier.calibrate(sample).double()
    everything = torch.cat([u, positions.flatten(0, 1)]).numpy()
    # Directions only, as classes differ by those. Neighbourhoods reach beyond one class: with small ones the classes
    # fly apart, and what moves inside one shrinks to a dot.
    everything /= np.linalg.norm(everything, axis=1, keepdims=True).clip(1e-12)
    # Of pictures that are all the same there is nothing to draw, and scikit-learn's t-SNE crashes on it.
    if not np.isfinite(everything).all() or np.ptp(everything, axis=0).max() < 1e-6:
        return None
    wide = {"perplexity": min(len(everything) / 3, 100), "early_exaggeration": 2.0, "max_iter": 500}
    plane = TSNE(init="pca", random_state=0, **wide).fit_transform(everything).round(3)
    place = plane[len(kept) :].reshape(len(steps), n_way, 2).swapaxes(0, 1)
    best = classifier.answer(sample).best
    return {
        "rows": plane[: len(kept)].tolist(),
        "row_label": np.where(given >= 0, given, best[:, 0]).tolist(),
        "support": (given >= 0).tolist(),
        "steps": place.tolist(),
    }


def _steps(
    unfitted: PrototypeClassifier, classifier: Classifier, rows: np.ndarray, codes: np.ndarray, full: bool
) -> list[torch.Tensor]:
    """Positions (W, D) from the start to the end. A method without steps stays where it is."""
    n_iter = unfitted.get_params().get("n_iter", 0)
    steps = range(n_iter) if full and n_iter <= 20 else range(min(n_iter, 1))
    fits = [clone(unfitted).set_params(n_iter=step).fit(rows, codes) for step in steps]
    start = [torch.from_numpy(fit.prototypes_).float() for fit in fits] or [classifier.prototypes]
    return [*start, classifier.prototypes]


def _some_of_each(labelled: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Labelled rows that leave room for others: at least one of each class, as otherwise nothing can be fitted."""
    _, first = np.unique(codes[labelled], return_index=True)
    rest = np.delete(labelled, first)
    return np.concatenate([labelled[first], rest[: max(0, ROWS // 2 - len(first))]])
