"""Choices that never depend on the order of rows or classes: what ties shares, or is taken together.

Duplicate and all-zero rows tie exactly on paper and to within rounding on a machine, so scores count as tied when they
differ by less than a slack well above rounding and well below any real difference.
"""

import torch
from torch import Tensor

from protoadapt.core.prototype_model import slack as slack


def tied_argmax(scores: Tensor) -> Tensor:
    """Rows (…, W) that sum to 1: the best class, or equal shares of those that tie."""
    best = (scores >= scores.amax(-1, keepdim=True) - slack(scores)).to(scores.dtype)
    return best / best.sum(-1, keepdim=True)


def neighbours(distance: Tensor, k: int) -> Tensor:
    """(E, N, N): row i has 1 at its k nearest other rows; rows tied at the k-th place share what is left of k."""
    itself = torch.eye(distance.shape[1], dtype=torch.bool, device=distance.device)
    k = min(k, distance.shape[1] - 1)
    if k < 1:
        return torch.zeros_like(distance)
    distance = distance.masked_fill(itself, torch.inf)
    last = distance.topk(k, largest=False).values[..., -1:]
    width = slack(last)
    nearer = (distance < last - width).to(distance.dtype)
    tied = ((distance - last).abs() <= width).to(distance.dtype)
    return nearer + tied * (k - nearer.sum(-1, keepdim=True)) / tied.sum(-1, keepdim=True)


def lowest_of_each_class(cost: Tensor, labels: Tensor, k: int) -> Tensor:
    """(E, N) bool: for each class the k rows of lowest cost (E, N), and every row that ties with the k-th.

    labels (E, N, W): a row belongs to the classes where it is positive, and to none if it is zero.
    """
    cost = torch.where(labels.mT > 0, cost[:, None], torch.inf)  # (E, W, N)
    last = cost.topk(min(k, cost.shape[-1]), largest=False).values[..., -1:]
    return ((cost <= last + slack(last)) & cost.isfinite()).any(1)
