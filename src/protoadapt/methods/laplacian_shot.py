"""LaplacianShot. Ziko, Dolz, Granger, Ben Ayed: Laplacian Regularized Few-Shot Learning (ICML 2020)."""

import torch
from torch import Tensor

from protoadapt.episodes import Episodes
from protoadapt.methods._checks import transductive_only, whole
from protoadapt.methods._ties import neighbours
from protoadapt.methods.bd_cspn import rectified
from protoadapt.methods.common import cl2n, class_means, sq_distances


def laplacian_shot(
    episodes: Episodes,
    *,
    lam: float | None = None,
    n_neighbors: int = 2,
    n_iter: int = 20,
    rectify: bool = True,
) -> Tensor:
    """Near prototypes, and like one's neighbours: minimises Σ y log y + y·a − λ y·(Wy) by bound updates.

    a_qc = ‖q − p_c‖², W_ij = 1 for the nearest other queries j of i. Returns (E, Q, W).

    lam      None: 0.7 below 5 shots a class, 0.3 from 5 on (the authors choose it on validation classes).
    rectify  prototypes and queries as BD-CSPN leaves them. Studies of imbalanced queries switch it off.
    """
    transductive_only(episodes, "LaplacianShot")
    whole("n_iter", n_iter)
    whole("n_neighbors", n_neighbors)
    episodes = cl2n(episodes)
    if rectify:
        prototypes, query = rectified(episodes)
    else:
        prototypes, query = class_means(episodes.support, episodes.membership), episodes.query
    a = sq_distances(query, prototypes)
    W = neighbours(sq_distances(query, query), n_neighbors)
    if lam is None:
        W = W * torch.where(episodes.shots.mean(1) < 5, 0.7, 0.3)[:, None, None].to(W)
    else:
        W = W * lam
    return _bound_updates(a, W, n_iter)


def _bound_updates(a: Tensor, W: Tensor, n_iter: int) -> Tensor:
    """y ← softmax(−a + λWy), λ within W, until the energy moves by at most 1e-6 of itself, looked at from round 3 on.

    Each episode stops by itself. The energy is a sum of many terms that nearly stands still, so it is kept in float64.
    """
    y = (-a).softmax(-1)
    running = torch.ones(len(a), dtype=torch.bool, device=a.device)
    energy = torch.zeros(len(a), dtype=torch.float64, device=a.device)
    Wy = W @ y
    for i in range(n_iter):
        y = torch.where(running[:, None, None], (Wy - a).softmax(-1), y)
        Wy = W @ y
        before, energy = energy, (y.clamp_min(1e-20).log() + a - Wy).mul(y).sum((1, 2), dtype=torch.float64)
        if i > 1:
            running = running & ((energy - before).abs() > 1e-6 * before.abs())
            if not running.any():
                break
    return y
