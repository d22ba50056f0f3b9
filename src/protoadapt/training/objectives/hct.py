"""Hybrid Consistency Training (Ye et al., "Hybrid Consistency Training with Prototype Adaptation", section 3.2).

The loss is that of Manifold Mixup (`manifold_mixup.mixed_cross_entropy`); the rows differ. The second picture of each
mixed row is a STRONG view: interpolation consistency and augmentation consistency in one term,

    x̄ˡ = λ·x₁ˡ + (1−λ)·x̃₂ˡ        x₁ weak view of picture i, x̃₂ strong view of picture perm[i].
"""

from protoadapt.training.objectives.manifold_mixup import mixed_loss
from protoadapt.training.objectives.objective import CLASSIFIER, Needs, Objective, classifier_accuracy

OBJECTIVE = Objective(mixed_loss, Needs(heads=CLASSIFIER, partner="strong"), classifier_accuracy)
