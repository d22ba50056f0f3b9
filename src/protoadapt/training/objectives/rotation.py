"""Rotation as a second task (Gidaris et al. 2018; for few-shot learning Gidaris et al. 2019, Mangla et al. 2020)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.training.objectives.objective import Needs, Objective, apply_head


def rotation_loss(logits: Tensor) -> Tensor:
    """Cross-entropy of logits (4n, 4): how many quarter turns? Rows are in the order of `learner.rotations`."""
    turns = torch.arange(4, device=logits.device).repeat_interleave(len(logits) // 4)
    return F.cross_entropy(logits, turns)


OBJECTIVE = Objective(
    lambda outputs: rotation_loss(apply_head(outputs.heads["rotation_head"], outputs.rotated_features)),
    Needs(heads={"rotation_head": lambda sizes: nn.Linear(sizes.dim, 4)}, rotated=True),
)
