"""Class cross-entropy, the classifier baseline of few-shot learning (Chen et al. 2019; the paper's Eq. 5)."""

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean of −log p_y over the rows: logits (R, C), labels (R).

    With rotation in the same phase, the rotated copies are rows like any others: one mean over all of them.
    """
    return F.cross_entropy(logits, labels, label_smoothing=smoothing)
