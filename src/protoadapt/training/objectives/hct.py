"""Hybrid Consistency Training (Ye et al., "Hybrid Consistency Training with Prototype Adaptation", section 3.2)."""

from torch import Tensor

from protoadapt.training.objectives.mixing import mixed_cross_entropy


def hct(logits: Tensor, first: Tensor, second: Tensor, lam: Tensor, smoothing: float = 0.0) -> Tensor:
    """Soft-label cross-entropy of rows mixed at a random layer l:

        x̄ˡ = λ·x₁ˡ + (1−λ)·x̃₂ˡ        x₁ weak view of image i, x̃₂ STRONG view of image perm[i]
        x̄  = f^L ∘ … ∘ f^{l+1}(x̄ˡ)     logits (B, C) = head(x̄)
        ȳ  = λ·y₁ + (1−λ)·y₂           first = y₁ (B), second = y₂ (B), one λ ~ Beta(α, α) and one l a batch

    The pass itself is in `Learner`, which shares it with the other objectives of the step.
    """
    return mixed_cross_entropy(logits, first, second, lam, smoothing)
