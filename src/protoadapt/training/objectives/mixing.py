"""What Manifold Mixup and HCT share: a line between two hidden features, and the same line between their labels."""

import torch.nn.functional as F
from torch import Tensor


def mix(first: Tensor, second: Tensor, lam: Tensor) -> Tensor:
    """x̄ = λ·x₁ + (1−λ)·x₂ for hidden features of any shape and one λ ()."""
    return lam * first + (1 - lam) * second


def mixed_cross_entropy(logits: Tensor, first: Tensor, second: Tensor, lam: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy against ȳ = λ·y₁ + (1−λ)·y₂: logits (B, C) of the mixed rows, labels first and second (B).

    Cross-entropy is linear in its target, so two plain ones weighted by λ are the soft-label one.
    """
    one = F.cross_entropy(logits, first, label_smoothing=smoothing)
    two = F.cross_entropy(logits, second, label_smoothing=smoothing)
    return lam * one + (1 - lam) * two
