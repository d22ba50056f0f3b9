"""α-AM. Lazarou, Avrithis, Stathaki: Adaptive Manifold for Imbalanced Transductive Few-Shot Learning (WACV 2024).

Labels spread over a graph of class centroids, support rows and queries, and the graph itself is learned per task. With
z these rows (unit length; centroids start at the support means), d their distances divided by their standard deviation,

    A = exp(−G d) at the k nearest other rows, centroids have no neighbours of their own;   S = D^−½ (B (A + Aᵀ)/2) D^−½
    logits = τ (I − a S)⁻¹ Y,   Y the identity at the centroids and 0 elsewhere .

Adam changes the centroids and the entries of G and B (started at 1 and a) to lower α-TIM's loss, cross-entropy of the
support − H_α(Y) + H_α(Y|X). A thousand steps with a matrix inverse each: slow, 600 episodes are usual.
Axes: E episodes, W classes, S support rows, Q queries, M = W + S + Q, D.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import class_means, neighbours, sq_distances, transductive_only, unit
from protoadapt.core.methods.settings import LogitScale, LossWeights, Setting, Steps, checked

Neighbours = Annotated[
    int | None, Setting("k, neighbours of a row; none: 20 below five shots, 10 from five", 1, 100_000)
]
Reach = Annotated[
    float | None, Setting("a, how far labels spread; none: 0.8 below five shots, 0.9 from five", 0, 0.999)
]
Step = Annotated[float, Setting("learning rate", 1e-9, 1e-2)]
Order = Annotated[
    float | None, Setting("order α of the entropies, above 1; none: 2 below five shots, 5 from five", 1.001, 1e3)
]


@checked
def alpha_am(
    episodes: Episodes,
    *,
    n_iter: Steps = 1000,
    n_neighbors: Neighbours = None,
    reach: Reach = None,
    alpha: Order = None,
    lr: Step = 1e-4,
    temp: LogitScale = 15.0,
    weights: LossWeights = (1.0, 1.0, 1.0),
) -> Tensor:
    """Label propagation over a graph that is learned per task, for imbalanced queries. Returns (E, Q, W).

    >>> alpha_am(episodes).argmax(-1)    # (E, Q) predicted classes    # doctest: +SKIP
    """
    transductive_only(episodes, "α-AM")
    dtype = episodes.rows.dtype
    episodes = episodes.each_row(_unit_double)  # Adam enlarges the rounding of tiny gradients
    y, n_way, n_support = episodes.membership, episodes.n_way, episodes.support_index.shape[1]
    fixed = torch.cat([episodes.support, episodes.query], 1)
    centroids, still = class_means(episodes.support, y).requires_grad_(), sq_distances(fixed, fixed)
    n_rows = n_way + fixed.shape[1]
    many = (episodes.shots.mean(1) >= 5)[:, None, None]  # (E, 1, 1)

    def chosen(value: float | None, few: float, more: float) -> Tensor:
        """(E, 1, 1): a setting, or its default by the number of shots."""
        return torch.where(many, more, few).to(fixed) if value is None else torch.full_like(many, value, dtype=y.dtype)

    a, order = chosen(reach, 0.8, 0.9), chosen(alpha, 2.0, 5.0)
    near = chosen(n_neighbors, 20, 10)
    G = torch.ones(len(y), n_rows, n_rows, dtype=y.dtype, device=y.device, requires_grad=True)
    B = (a * torch.ones_like(G)).detach().clamp_min(1e-12).requires_grad_()
    eye = torch.eye(n_rows, dtype=y.dtype, device=y.device)
    adam = torch.optim.Adam([centroids, B, G], lr=lr)

    def logits() -> Tensor:
        """(E, S + Q, W)"""
        moving = sq_distances(centroids, torch.cat([centroids, fixed], 1))  # of rows that stay, `still` has them
        d = (torch.cat([moving, torch.cat([moving[..., n_way:].mT, still], 2)], 1) + 1e-12).sqrt()
        stretched = G * d / d.std((1, 2), keepdim=True).clamp_min(1e-6)
        mask = sum(neighbours(stretched.detach(), int(k)) * (near == k) for k in near.unique())
        A = torch.exp(-stretched) * mask
        A = torch.cat([torch.zeros_like(A[:, :n_way]), A[:, n_way:]], 1)
        S = B * (A + A.mT) / 2
        root = (S.sum(-1).clamp_min(0) + 1e-12).rsqrt()
        S = root[:, :, None] * S * root[:, None]
        return temp * torch.linalg.solve(eye - a * S, eye[:, :n_way])[:, n_way:]

    def entropy(p: Tensor) -> Tensor:
        return (1 - ((p + 1e-12) ** order).sum(-1, keepdim=True)) / (order - 1)

    for _ in range(n_iter):
        with torch.enable_grad():
            p = logits().softmax(-1)
            support, query = p[:, :n_support], p[:, n_support:]
            fit = -(y * (support + 1e-12).log()).sum(-1).mean(1).sum()
            marginal, conditional = entropy(query.mean(1, keepdim=True)).sum(), entropy(query).mean(1).sum()
            loss = weights[0] * fit - weights[1] * marginal + weights[2] * conditional
        centroids.grad, B.grad, G.grad = torch.autograd.grad(loss, [centroids, B, G])
        adam.step()
    return logits()[:, n_support:].softmax(-1).detach().to(dtype)


def _unit_double(rows: Tensor) -> Tensor:
    return unit(rows.double())
