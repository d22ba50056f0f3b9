"""Embedding propagation. Rodríguez, Laradji, Drouin, Lacoste: Embedding Propagation: Smoother Manifold for Few-Shot
Classification (ECCV 2020).

Rows of an episode move towards their neighbours, then labels spread over the rows. N = S + Q rows of an episode.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import sq_distances, transductive_only
from protoadapt.core.methods.settings import Setting, checked

RowSpread = Annotated[float, Setting("α of the rows: share that a row takes from its neighbours", 0, 0.999)]
LabelSpread = Annotated[float, Setting("α of the labels: share that a row's label takes from its neighbours", 0, 0.999)]


@checked
def embedding_propagation(episodes: Episodes, *, alpha: RowSpread = 0.5, label_alpha: LabelSpread = 0.2) -> Tensor:
    """Rows spread over their neighbours, z ← (I − αS)⁻¹z, then labels over the new rows. Returns (E, Q, W).

    S = D^−½ A D^−½ with A = exp(−d²/σ), σ the standard deviation of the squared distances of the episode. Transductive,
    without parameters: `train epnet` fits the backbone to it.
    """
    transductive_only(episodes, "embedding propagation")
    scores = propagated_scores(episodes.support, episodes.membership, episodes.query, alpha, label_alpha) + 1e-6
    return scores / scores.sum(-1, keepdim=True)


def propagated_scores(
    support: Tensor, membership: Tensor, query: Tensor, alpha: float = 0.5, label_alpha: float = 0.2
) -> Tensor:
    """(E, Q, W): how much of each class's labels (E, S, W) reaches a query; rows do not sum to 1."""
    rows = torch.cat([support, query], 1)
    rows = _propagator(rows, alpha) @ rows
    spread = _propagator(rows, label_alpha)
    spread = spread / spread.sum(-1, keepdim=True)
    n_support = support.shape[1]
    return spread[:, n_support:, :n_support] @ membership


def _propagator(rows: Tensor, alpha: float) -> Tensor:
    """(I − α D^−½ A D^−½)⁻¹ of rows (E, N, D). A has no loops; all entries of the inverse are ≥ 0.

    Equal rows do not count in σ. Their distance is a rounding error of the products, relative to the rows' length.
    """
    distance = sq_distances(rows, rows)
    length = rows.detach().square().sum(-1).amax(-1)[:, None, None]
    apart = (distance.detach() > torch.finfo(rows.dtype).eps ** 0.75 * length).to(rows.dtype)
    count = apart.sum((1, 2), keepdim=True)
    mean = (apart * distance).sum((1, 2), keepdim=True) / count.clamp_min(1)
    variance = (apart * (distance - mean)).square().sum((1, 2), keepdim=True) / (count - 1).clamp_min(1)
    # Where all distances are equal, as between two different rows, there is no scale but the distance itself.
    flat = variance.detach() <= torch.finfo(rows.dtype).eps * mean.detach().square()
    sigma = torch.where(flat, mean, torch.where(flat, 1, variance).sqrt())
    sigma = torch.where(sigma.detach() > 0, sigma, 1)
    itself = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    A = (-distance / sigma).exp() * (1 - itself)
    scale = (1e-4 + A.sum(-1)).rsqrt()
    # Eigenvalues of S are at most 1, so the matrix is regular; inv_ex does not wait for the device to say so.
    return torch.linalg.inv_ex(itself - alpha * scale[..., None] * A * scale[:, None])[0]
