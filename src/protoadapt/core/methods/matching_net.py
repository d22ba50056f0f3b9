"""Matching Networks' inference. Vinyals, Blundell, Lillicrap, Kavukcuoglu, Wierstra: Matching Networks for One Shot
Learning (NeurIPS 2016), with the scale of Chen et al. (2019).

Each query is answered alone: it takes the labels of the support rows it resembles.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.settings import Temperature, checked

SCALE = 100.0


@checked
def matching_net(episodes: Episodes, *, tau: Temperature = SCALE) -> Tensor:
    """softmax over the support rows of τ·max(cos(q, s), 0), summed per class. Returns (E, Q, W).

    Inductive, and near to the nearest neighbour at τ = 100. `train matching_net` fits the backbone to it.
    """
    rows = episodes.each_row(unit)
    return label_attention(rows.support, rows.membership, rows.query, tau)


def label_attention(support: Tensor, membership: Tensor, query: Tensor, tau: float = SCALE) -> Tensor:
    """Probabilities (E, Q, W) of unit rows (E, Q, D) given unit support rows (E, S, D) with classes (E, S, W)."""
    return (tau * (query @ support.mT).clamp_min(0)).softmax(-1) @ membership
