"""Class cross-entropy, the classifier baseline of few-shot learning (Chen et al. 2019; the paper's Eq. 5)."""

import torch.nn.functional as F
from torch import Tensor

from protoadapt.training.objectives.objective import CLASSIFIER, Needs, Objective, classifier_accuracy


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean of −log p_y over all rows of logits (R, C), rotated copies included."""
    return F.cross_entropy(logits, labels, label_smoothing=smoothing)


OBJECTIVE = Objective(
    lambda outputs: cross_entropy(outputs.logits, outputs.labels, outputs.config.label_smoothing),
    Needs(heads=CLASSIFIER),
    classifier_accuracy,
)
