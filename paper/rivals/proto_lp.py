"""protoLP. Zhu, Koniusz: Transductive Few-shot Learning with Prototype-based Label Propagation by Iterative Graph
Refinement (CVPR 2023), in the form that takes no class sizes as known.

Labels spread over a graph that joins rows through the prototypes, and prototypes follow the labels. With rows of unit
length in the episode's D' first principal directions, about their mean and unit again, Z (N, W) the labels of support
rows and softmax_c(−λ‖x − μ_c‖²) of queries, Δ = diag(Σ_i Z_i) and K = diag(K_c),

    L = ZᵀZ − ZᵀZ Δ⁻¹ ZᵀZ,   A = (K + γL)⁻¹ K   are the labels of the prototypes,   ZA those of the rows
    estimate of μ_c = means of the rows by β ZA + (1 − β) Z,   μ ← μ + α (estimate − μ) .

The authors' scripts scale both Z and ZA by Sinkhorn's iteration to known class sizes, which is left out here, as their
paper does by soft k-means; rows of ZA sum to 1 without it. Axes: E episodes, W classes, S support rows, N rows, D.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, class_means, powered, sq_distances, transductive_only, unit
from protoadapt.core.methods.settings import DistanceScale, Exponent, Power, Setting, Steps, StepSize, checked

Directions = Annotated[int, Setting("D', number of principal directions", 1, 10_000)]
Spread = Annotated[float, Setting("γ, weight of the graph's smoothness", 0, 1e3)]
Mixture = Annotated[float, Setting("β, weight of the labels that have spread", 0, 1)]


@checked
def proto_lp(
    episodes: Episodes,
    *,
    n_iter: Steps = 50,
    lam: DistanceScale = 10.0,
    gamma: Spread = 0.05,
    mix: Mixture = 0.7,
    step: StepSize = 0.2,
    n_components: Directions = 40,
    beta: Exponent = 0.5,
    power: Power = "auto",
) -> Tensor:
    """Prototypes that follow labels spread over a graph of prototypes and rows. Returns (E, Q, W).

    >>> proto_lp(episodes).argmax(-1)    # (E, Q) predicted classes    # doctest: +SKIP
    """
    transductive_only(episodes, "protoLP")
    episodes = powered(episodes, beta, power)
    y, n_support = episodes.membership, episodes.support_index.shape[1]
    rows = _principal(torch.cat([episodes.support, episodes.query], 1), n_components)
    rows = unit(rows - rows.mean(1, keepdim=True))
    query, mu = rows[:, n_support:], unit(class_means(rows[:, :n_support], y))
    count = torch.diag_embed(y.sum(1))
    for _ in range(n_iter):
        z = torch.cat([y, (-lam * sq_distances(query, mu)).softmax(-1)], 1)
        gram = z.mT @ z
        laplacian = gram - gram @ (gram / z.sum(1)[..., None].clamp_min(TINY))
        spread = z @ torch.linalg.solve(count + gamma * laplacian, count)
        labels = (mix * spread + (1 - mix) * z).clamp(0, 1)
        mu = mu + step * (class_means(rows, labels) - mu)
    return (-lam * sq_distances(query, mu)).softmax(-1)


def _principal(rows: Tensor, n_components: int) -> Tensor:
    """(E, N, D'): rows (E, N, D) in the directions of their largest singular values, from their Gram matrix."""
    size, vectors = torch.linalg.eigh(rows @ rows.mT)
    return (vectors * size.clamp_min(0).sqrt()[:, None])[..., -n_components:]
