"""Manifold Mixup (Verma et al. 2019; in few-shot learning S2M2, Mangla et al. 2020)."""

from torch import Tensor

from protoadapt.training.objectives.mixing import mixed_cross_entropy


def manifold_mixup(logits: Tensor, first: Tensor, second: Tensor, lam: Tensor, smoothing: float = 0.0) -> Tensor:
    """As `hct`, but both views are weak: the line joins x₁ (weak view of image i) and x₂ (weak view of perm[i])."""
    return mixed_cross_entropy(logits, first, second, lam, smoothing)
