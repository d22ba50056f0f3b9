"""Methods beside ProtoNet that answer each query alone, and adapt to nothing."""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import cl2n, class_means, sq_distances, tied_argmax, unit
from protoadapt.core.methods.settings import LogitScale, Setting, checked

_SCALE = 100.0
Penalty = Annotated[float, Setting("λ, penalty on the squared weights", 1e-6, 1e9)]
UnitRows = Annotated[bool, Setting("scale rows to unit length first")]


@checked
def simpleshot(episodes: Episodes) -> Tensor:
    """SimpleShot (CL2N). Wang, Chao, Weinberger, van der Maaten: SimpleShot (2019).

    The nearest class mean by Euclidean distance, of rows centred by the mean of the base classes' features
    (`episodes.base_mean`) and scaled to unit length. Returns (E, Q, W), one-hot.
    """
    episodes = cl2n(episodes, "SimpleShot")
    centroids = class_means(episodes.support, episodes.membership)
    return tied_argmax(-sq_distances(episodes.query, centroids))


@checked
def matching_net(episodes: Episodes, *, tau: LogitScale = _SCALE) -> Tensor:
    """Matching Networks' inference. Vinyals, Blundell, Lillicrap, Kavukcuoglu, Wierstra: Matching Networks for One Shot
    Learning (NeurIPS 2016), with the scale of Chen et al. (2019).

    A query takes the labels of the support rows it resembles: softmax over them of τ·max(cos(q, s), 0), summed per
    class; near to the nearest neighbour at τ = 100. `train matching_net` fits the backbone to it. Returns (E, Q, W).
    """
    rows = episodes.each_row(unit)
    return label_attention(rows.support, rows.membership, rows.query, tau)


def label_attention(support: Tensor, membership: Tensor, query: Tensor, tau: float = _SCALE) -> Tensor:
    """Probabilities (E, Q, W) of unit rows (E, Q, D) given unit support rows (E, S, D) with classes (E, S, W)."""
    return (tau * (query @ support.mT).clamp_min(0)).softmax(-1) @ membership


@checked
def ridge(episodes: Episodes, *, lam: Penalty = 1.0, tau: LogitScale = 10.0, l2: UnitRows = True) -> Tensor:
    """Ridge regression to the labels, the base learner of R2D2 (Bertinetto et al., ICLR 2019) and MetaOptNet-RR (Lee et
    al., CVPR 2019), here on the features of any network.

    softmax(τ·X_q X_sᵀ (X_s X_sᵀ + λI)⁻¹ Y): linear regression of one-hot labels on the support. MetaOptNet trains with
    λ = 50 on un-pooled rows of any length (`l2=false`); rows of unit length want a λ near 1. Returns (E, Q, W).
    """
    prepared = episodes.each_row(unit) if l2 else episodes
    scores = ridge_scores(prepared.support, prepared.membership, prepared.query, lam)
    return (tau * scores).softmax(-1)


def ridge_scores(support: Tensor, membership: Tensor, query: Tensor, lam: float) -> Tensor:
    """Predicted labels (E, Q, W) of query (E, Q, D), by regression on support rows (E, S, D) with classes (E, S, W).

    The dual form: a system of S equations, however many dimensions a row has.
    """
    gram = support @ support.mT
    penalty = lam * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    # solve_ex does not wait for the device to say whether the matrix is regular: the penalty makes it so.
    return query @ (support.mT @ torch.linalg.solve_ex(gram + penalty, membership)[0])
