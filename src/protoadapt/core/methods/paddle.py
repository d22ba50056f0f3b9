"""PADDLE. Martin, Boudiaf, Chouzenoux, Pesquet, Ben Ayed: Towards Practical Few-shot Query Sets: Transductive Minimum
Description Length Inference (NeurIPS 2022).

Made for many candidate classes of which few are among the queries: a term for the class sizes lets classes that get
few queries lose the rest of them. With u = 1 at the support rows and N queries,

    u = softmax_c(−½‖q − w_c‖² + γ v_c),   v_c = log(mean_q u_c) + 1,   w_c = (Σ_q u q + Σ_S s) / (Σ_q u + K_c) .

γ is the paper's λ/N with λ = N = 75. The distances are not scaled by anything, so the scale of the features decides how
much the size term weighs: in the authors' code each dimension is divided by its range among the queries.
Axes: E episodes, W classes, S support rows, Q queries, D.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import class_means, transductive_only, unit
from protoadapt.core.methods.settings import Setting, Steps, checked

SizeWeight = Annotated[float, Setting("γ, weight of the term that favours large classes; the paper's λ/N", 0, 1e3)]
FeatureScale = Annotated[
    float | None,
    Setting("length of the rows; none: every dimension is divided by its range among the queries", 1e-3, 1e3),
]
LEAST_SHARE = 1e-6
"""Added to a class's share before its logarithm, as in the authors' code."""


@checked
def paddle(episodes: Episodes, *, n_iter: Steps = 100, gamma: SizeWeight = 1.0, scale: FeatureScale = None) -> Tensor:
    """Prototypes that adapt to queries of few of many classes. Returns (E, Q, W).

    `scale` puts rows of that length in the place of the authors' scaling by range: the method depends on it, and a
    comparison should give it the best one on validation classes.

    >>> paddle(episodes, scale=12.0).argmax(-1)    # (E, Q) predicted classes    # doctest: +SKIP
    """
    transductive_only(episodes, "PADDLE")
    if scale is None:
        support, query = by_range(episodes)
    else:
        episodes = episodes.each_row(unit)
        support, query = scale * episodes.support, scale * episodes.query
    y = episodes.membership
    w, v = class_means(support, y), torch.zeros_like(support[:, :1, :1])
    for _ in range(n_iter):
        u = (similarity(query, w) + gamma * v).softmax(-1)
        w, v = centroids(support, y, query, u), log_sizes(u)
    return (similarity(query, w) + gamma * v).softmax(-1)


def by_range(episodes: Episodes) -> tuple[Tensor, Tensor]:
    """Support and queries, each dimension divided by its range among the queries unless that is 0."""
    support, query = episodes.support, episodes.query
    lowest = query.amin(1, keepdim=True)
    length = query.amax(1, keepdim=True) - lowest
    length = torch.where(length > 0, length, 1)
    return (support - lowest) / length, (query - lowest) / length  # the shift changes no distance


def similarity(query: Tensor, w: Tensor) -> Tensor:
    """(E, Q, W): −½‖q − w‖² without ‖q‖², which is the same for every class."""
    return query @ w.mT - w.square().sum(-1)[:, None] / 2


def log_sizes(u: Tensor) -> Tensor:
    """(E, 1, W): v from assignments u (E, Q, W)."""
    return (u.mean(1, keepdim=True) + LEAST_SHARE).log() + 1


def centroids(support: Tensor, y: Tensor, query: Tensor, u: Tensor) -> Tensor:
    """(E, W, D): means of support rows by their labels y (E, S, W) and of queries by u (E, Q, W)."""
    return class_means(torch.cat([support, query], 1), torch.cat([y, u], 1))
