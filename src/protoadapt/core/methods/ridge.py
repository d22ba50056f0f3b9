"""Ridge regression to the labels, the base learner of R2D2 (Bertinetto et al., ICLR 2019) and MetaOptNet-RR (Lee et
al., CVPR 2019), here on the features of any network.

Each query is answered alone.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.settings import Setting, Temperature, checked

Penalty = Annotated[float, Setting("λ, penalty on the squared weights", 1e-6, 1e9)]
UnitRows = Annotated[bool, Setting("scale rows to unit length first")]


@checked
def ridge(episodes: Episodes, *, lam: Penalty = 1.0, tau: Temperature = 10.0, l2: UnitRows = True) -> Tensor:
    """softmax(τ·X_q X_sᵀ (X_s X_sᵀ + λI)⁻¹ Y): linear regression of one-hot labels on the support. Returns (E, Q, W).

    Inductive. MetaOptNet trains with λ = 50 on un-pooled rows of any length (`l2=false`); rows of unit length want a λ
    near 1.
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
