"""Episodic training of Prototypical Networks (Snell et al. 2017; the paper's Eqs. 1–3)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.training.objectives.objective import Needs, Objective, Outputs


def protonet_logits(features: Tensor, shot: int, temperature: Tensor) -> Tensor:
    """−τ·‖q − p_c‖² (E, W, Q, W) of each query q and prototype p_c, the mean of the support rows of class c.

    features (E, W, K+Q, D): the K = `shot` support rows of each class first; temperature τ ().
    """
    prototypes = features[:, :, :shot].mean(2)  # (E, W, D)
    query = features[:, :, shot:].flatten(1, 2)  # (E, W·Q, D)
    distances = (query[:, :, None] - prototypes[:, None]).square().sum(-1)
    return -temperature * distances.unflatten(1, (features.shape[1], -1))


def protonet_loss(features: Tensor, shot: int, temperature: Tensor) -> Tensor:
    """Mean cross-entropy of every query against its own class among the W prototypes. Parameters as above."""
    logits = protonet_logits(features, shot, temperature)
    return F.cross_entropy(logits.flatten(0, 2), _own_class(logits).expand(logits.shape[:3]).flatten())


def _own_class(logits: Tensor) -> Tensor:
    return torch.arange(logits.shape[1], device=logits.device)[:, None]


def _arguments(outputs: Outputs) -> tuple[Tensor, int, Tensor]:
    return outputs.episode_features, outputs.config.shot, outputs.heads["log_temperature"].exp()  # type: ignore[operator]


def _accuracy(outputs: Outputs) -> Tensor:
    logits = protonet_logits(*_arguments(outputs))
    return (logits.argmax(-1) == _own_class(logits)).float().mean()


OBJECTIVE = Objective(
    lambda outputs: protonet_loss(*_arguments(outputs)),
    Needs(heads={"log_temperature": lambda sizes: nn.Parameter(torch.zeros(()))}, episodes=True),
    _accuracy,
)
