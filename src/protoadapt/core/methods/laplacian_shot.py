"""LaplacianShot. Ziko, Dolz, Granger, Ben Ayed: Laplacian Regularized Few-Shot Learning (ICML 2020).

Each query is drawn to its nearest prototype and to the classes of its nearest neighbours among the queries. Prototypes
and queries are those of BD-CSPN unless `rectify` is off, as in studies of imbalanced queries.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.bd_cspn import rectified
from protoadapt.core.methods.common import cl2n, class_means, neighbours, sq_distances, transductive_only
from protoadapt.core.methods.settings import Setting, Steps, checked

Laplacian = Annotated[
    float | None, Setting("weight of the neighbours; none: 0.7 below 5 shots per class, 0.3 from 5 on", 0, 1e3)
]
Neighbours = Annotated[int, Setting("number of nearest other queries that a query follows", 0, 100_000)]
Rectify = Annotated[bool, Setting("rectify prototypes and queries as BD-CSPN does")]


@checked
def laplacian_shot(
    episodes: Episodes,
    *,
    lam: Laplacian = None,
    n_neighbors: Neighbours = 2,
    n_iter: Steps = 20,
    rectify: Rectify = True,
) -> Tensor:
    """Near a prototype, and like one's neighbours: minimises Σ y log y + y·a − λ y·(Wy). Returns (E, Q, W).

    a_qc = ‖q − p_c‖², and W_ij = 1 for the nearest other queries j of i (those that tie share the last place). The
    authors choose λ on validation classes.
    """
    transductive_only(episodes, "LaplacianShot")
    episodes = cl2n(episodes, "LaplacianShot")
    query, prototypes = episodes.query, class_means(episodes.support, episodes.membership)
    if rectify:
        query, prototypes = rectified(episodes)
    W = neighbours(sq_distances(query, query), n_neighbors)
    few = (episodes.shots.mean(1) < 5)[:, None, None]
    W = W * (torch.where(few, W.new_tensor(0.7), W.new_tensor(0.3)) if lam is None else lam)
    return _bound_updates(sq_distances(prototypes, query), W, n_iter).mT


def _bound_updates(a: Tensor, W: Tensor, n_iter: int) -> Tensor:
    """y ← softmax(−a + λWy), a and y (E, W, Q), λ within W, until the energy moves by 1e-6 of itself or less.

    It is looked at from the third round on, and each episode stops by itself. The energy is a sum of many terms that
    all but stands still, so it is added up in float64.
    """
    y = (-a).softmax(1)
    pull = y @ W.mT
    running = torch.ones(len(a), dtype=torch.bool, device=a.device)
    energy = torch.zeros(len(a), dtype=torch.float64, device=a.device)
    for i in range(n_iter):
        y = torch.where(running[:, None, None], (pull - a).softmax(1), y)
        pull = y @ W.mT
        before, energy = energy, (y * (y.clamp_min(1e-20).log() + a - pull)).sum((1, 2), dtype=torch.float64)
        if i > 1:
            running = running & ((energy - before).abs() > 1e-6 * before.abs())
            if not running.any():
                break
    return y
