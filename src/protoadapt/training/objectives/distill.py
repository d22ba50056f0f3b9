"""Distillation from an earlier run of the same network (Hinton et al. 2015; in few-shot learning Tian et al. 2020)."""

import torch.nn.functional as F
from torch import Tensor


def distill(student: Tensor, teacher: Tensor, temperature: float = 4.0) -> Tensor:
    """T²·KL(teacher ‖ student) of logits (B, C) softened by T, meant over rows; T² keeps the gradient's size."""
    student = F.log_softmax(student / temperature, dim=1)
    teacher = F.log_softmax(teacher / temperature, dim=1)
    return temperature**2 * F.kl_div(student, teacher, log_target=True, reduction="batchmean")
