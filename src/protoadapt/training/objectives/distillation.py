"""Distillation from an earlier run of the same network (Hinton et al. 2015; in few-shot learning Tian et al. 2020)."""

import torch.nn.functional as F
from torch import Tensor

from protoadapt.training.objectives.objective import CLASSIFIER, Needs, Objective, Outputs, classifier_accuracy


def distillation(student: Tensor, teacher: Tensor, temperature: float = 4.0) -> Tensor:
    """T²·KL(softmax(teacher/T) ‖ softmax(student/T)) of logits (B, C), averaged; T² keeps the size of the gradient."""
    student = F.log_softmax(student / temperature, dim=1)
    teacher = F.log_softmax(teacher / temperature, dim=1)
    return temperature**2 * F.kl_div(student, teacher, log_target=True, reduction="batchmean")


def _loss(outputs: Outputs) -> Tensor:
    student, teacher = outputs.logits[: outputs.batch], outputs.teacher_logits
    return distillation(student, teacher, outputs.config.distill_temperature)  # type: ignore[arg-type]


OBJECTIVE = Objective(_loss, Needs(heads=CLASSIFIER, teacher=True), classifier_accuracy)
