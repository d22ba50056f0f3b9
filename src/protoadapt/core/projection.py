"""Rows and the path of the class prototypes in the plane, by one joint t-SNE (Figure 3 of Ye et al., 2020)."""

from typing import Any

import numpy as np
import torch

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods import method
from protoadapt.core.methods.cipa import cosine_rule
from protoadapt.core.methods.common import powered
from protoadapt.core.methods.family import prototype_path
from protoadapt.core.prototype_model import prepared_rows

_SCHEMA = "protoadapt-paths/1"


def plane_paths(
    rows: np.ndarray, labels: np.ndarray, support: np.ndarray, steps: np.ndarray, seed: int = 0
) -> dict[str, Any] | None:
    """Project prepared rows (N, D) and T positions of W prototypes, `steps` (T, W, D), into one plane.

    `labels` (N) holds the class of each row or −1, `support` (N) whether it is a labelled example. Returns a dict that
    JSON can hold, which `protoadapt.report.motion` draws: `rows` (N, 2), `row_label` (N), `support` (N) and `steps`
    (W, T, 2). None where all rows are the same.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    vectors = np.concatenate([rows, steps.reshape(-1, steps.shape[-1])]).astype(np.float64)
    # Classes differ by direction, so everything goes to the unit sphere: a prototype lies inside it.
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    # scikit-learn's t-SNE crashes on equal rows
    if not np.isfinite(vectors).all() or np.ptp(vectors, axis=0).max() < 1e-6:
        return None
    # Neighbourhoods reach beyond one class: with small ones the classes fly apart, and what moves inside a class
    # shrinks to a dot.
    # After 350 iterations the plane is that of 1,000 (rank correlation of distances 0.99 to 1 on four collections).
    wide: dict[str, Any] = {"perplexity": min(len(vectors) / 2, 100), "early_exaggeration": 2.0, "max_iter": 350}
    with threadpool_limits(1):  # two threads take as long: for so few rows they mostly wait for each other, awake
        plane = TSNE(init="pca", random_state=seed, **wide).fit_transform(vectors).astype(np.float64).round(3)
    return {
        "rows": plane[: len(rows)].tolist(),
        "row_label": np.asarray(labels).tolist(),
        "support": np.asarray(support, bool).tolist(),
        "steps": plane[len(rows) :].reshape(*steps.shape[:2], 2).swapaxes(0, 1).tolist(),
    }


def principal_plane(rows: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Project rows (N, D) and `steps` (W, T, D) onto the two directions in which the rows vary most (PCA).

    Returns points (N, 2) and (W, T, 2). Rows on the unit sphere, as a classifier compares them, make a useful plane.
    The sign of a direction is fixed by its largest entry, so that the plane does not flip from one fit to the next.

    >>> principal_plane(np.array([[0.0, 0], [4, 0], [4, 1], [0, 1]]), np.zeros((1, 1, 2)))[0].round(1).tolist()
    [[-2.0, -0.5], [2.0, -0.5], [2.0, 0.5], [-2.0, 0.5]]
    """
    from sklearn.decomposition import PCA

    with np.errstate(invalid="ignore"):  # rows that are all the same have no variance to share out
        plane = PCA(min(2, *rows.shape), random_state=0).fit(rows)
    return tuple(((part - plane.mean_) @ plane.components_.T).astype(np.float64) for part in (rows, steps))


def episode_paths(episode: Episodes, query_labels: np.ndarray, seed: int = 0) -> dict[str, Any] | None:
    """Project the first episode with the 21 positions of CIPA's prototypes; support rows come before queries.

    `query_labels` (Q) are the true classes. Returns a document of schema `protoadapt-paths/1` (see `plane_paths`), or
    None where all rows are the same.
    """
    settings = method("cipa").settings | {"power": "auto"}
    one = powered(episode[:1], settings.pop("beta"), settings.pop("power"))
    with torch.no_grad():
        path = list(prototype_path(one, cosine_rule(**settings)))
        support = prepared_rows(one.support[0], one.support[0].mean(0), True)
        query = path[-1].prepare(one.query)[0]
    steps = np.stack([model.prototypes[0].numpy() for model in path])
    labels = np.concatenate([one.support_labels[0].numpy(), query_labels])
    rows = torch.cat([support, query]).numpy()
    is_support = np.arange(len(labels)) < len(support)
    points = plane_paths(rows, labels, is_support, steps, seed)
    return {"schema": _SCHEMA, **points} if points else None
