"""Rotation as a second task (Gidaris et al. 2018; for few-shot learning Gidaris et al. 2019, Mangla et al. 2020)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def rotate(images: Tensor) -> Tensor:
    """Images (n, 3, H, H) in all four rotations: (4n, 3, H, H), all upright ones first, then 90°, 180°, 270°."""
    return torch.cat([torch.rot90(images, turns, (2, 3)) for turns in range(4)])


def rotation(logits: Tensor) -> Tensor:
    """4-way cross-entropy of the rotation head's logits (4n, 4), whose rows are in the order of `rotate`."""
    turns = torch.arange(4, device=logits.device).repeat_interleave(len(logits) // 4)
    return F.cross_entropy(logits, turns)
