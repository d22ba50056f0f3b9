"""Manifold Mixup (Verma et al. 2019; in few-shot learning S2M2, Mangla et al. 2020)."""

import torch.nn.functional as F
from torch import Tensor

from protoadapt.training.objectives.objective import CLASSIFIER, Needs, Objective, Outputs, classifier_accuracy


def mixed_cross_entropy(logits: Tensor, first: Tensor, second: Tensor, lam: Tensor, smoothing: float = 0.0) -> Tensor:
    """Soft-label cross-entropy of rows that were mixed at a random layer l:

        x̄ˡ = λ·x₁ˡ + (1−λ)·x₂ˡ         x₁ a weak view of picture i, x₂ a view of picture perm[i]
        x̄  = f^L ∘ … ∘ f^{l+1}(x̄ˡ)     logits = classifier(x̄)
        ȳ  = λ·y₁ + (1−λ)·y₂           one λ ~ Beta(α, α) and one layer l per batch

    Cross-entropy is linear in its target, so two plain ones weighted by λ are the soft-label one. The forward pass
    itself is in `Learner`, which shares it with the other objectives of the step.
    """
    one = F.cross_entropy(logits, first, label_smoothing=smoothing)
    two = F.cross_entropy(logits, second, label_smoothing=smoothing)
    return lam * one + (1 - lam) * two


def mixed_loss(outputs: Outputs) -> Tensor:
    first, second = outputs.labels[: outputs.batch], outputs.partner_labels
    return mixed_cross_entropy(outputs.mixed_logits, first, second, outputs.lam, outputs.config.label_smoothing)  # type: ignore[arg-type]


OBJECTIVE = Objective(mixed_loss, Needs(heads=CLASSIFIER, partner="weak"), classifier_accuracy)
