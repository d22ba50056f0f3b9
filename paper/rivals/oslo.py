"""OSLO. Boudiaf, Bennequin, Tami, Toubhans, Piantanida, Hudelot, Ben Ayed: Open-Set Likelihood Maximization for
Few-Shot Learning (CVPR 2023).

Made for queries of which some are of no class of the task. Beside its assignment z a query has a score ξ of being of
one of the classes, and both rise together in one likelihood. With rows about the mean of the task and of unit length,

    ξ = σ(Σ_c z_c cos(q, μ_c)/λ_ξ),   z = softmax_c(ξ cos(q, μ_c)/λ_z)
    μ_c = (Σ_S s + Σ_q ξ z_c q) / (K_c + Σ_q ξ z_c) .

Axes: E episodes, W classes, S support rows, Q queries, D.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import class_means, tied_argmax, transductive_only, unit
from protoadapt.core.methods.settings import Setting, checked

Rounds = Annotated[int, Setting("number of rounds", 1, 100_000)]
Smoothness = Annotated[float, Setting("weight of an entropy: the larger, the softer", 1e-4, 1e4)]


@checked
def oslo(episodes: Episodes, *, n_iter: Rounds = 2, lambda_xi: Smoothness = 0.05, lambda_z: Smoothness = 0.1) -> Tensor:
    """Assignments and scores of belonging that rise together, for queries of unknown classes. Returns (E, Q, W).

    The nearest prototype has the answer; its probability grows with ξ, so that a threshold on it is one on ξ.

    >>> oslo(episodes).amax(-1)    # (E, Q), low for queries that belong to no class    # doctest: +SKIP
    """
    transductive_only(episodes, "OSLO")
    y, n_support = episodes.membership, episodes.support_index.shape[1]
    rows = torch.cat([episodes.support, episodes.query], 1)
    rows = unit(rows - rows.mean(1, keepdim=True))
    support, query = rows[:, :n_support], rows[:, n_support:]
    cosine = query @ unit(class_means(support, y)).mT
    z = torch.full_like(cosine, 1 / episodes.n_way)
    belongs = z
    for _ in range(n_iter):
        belongs = ((z * cosine).sum(-1, keepdim=True) / lambda_xi).sigmoid()
        z = (belongs * cosine / lambda_z).softmax(-1)
        cosine = query @ unit(class_means(rows, torch.cat([y, belongs * z], 1))).mT
    return answered(cosine, belongs)


def answered(scores: Tensor, belongs: Tensor) -> Tensor:
    """(E, Q, W): rows that name the best of scores (E, Q, W), the surer the more a query belongs (E, Q, 1), 0 to 1."""
    even = 1 / scores.shape[-1]
    return even + belongs * (tied_argmax(scores) - even)
