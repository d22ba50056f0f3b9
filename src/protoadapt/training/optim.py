"""The optimiser, its learning rate, and the average of the weights."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError
from protoadapt.training.config import TrainConfig
from protoadapt.training.learner import Learner

FACTOR = "factor"
"""Entry of a group of the optimiser's parameters: its rate relative to the config's."""


def make_optimizer(config: TrainConfig, learner: Learner, fused: bool) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum, or Adam, as the config says; heads learn `head_factor` times as fast."""
    heads = [p for name, p in learner.named_parameters() if not name.startswith("backbone.")]
    parameters: Any = heads if config.frozen else learner.parameters()
    if config.frozen and not heads:
        raise UserError("the backbone is frozen and its head has no parameters, so nothing can learn: set frozen=false")
    if config.head_factor != 1 and not config.frozen:
        parameters = [{"params": learner.backbone.parameters()}, {"params": heads, FACTOR: config.head_factor}]
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, config.lr, weight_decay=config.weight_decay, fused=fused)
    nesterov = config.momentum > 0
    return torch.optim.SGD(
        parameters, config.lr, config.momentum, weight_decay=config.weight_decay, nesterov=nesterov, fused=fused
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the step, times the factor of each group of parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(FACTOR, 1.0)


def learning_rate(config: TrainConfig, epoch: float) -> float:
    """Linear warm-up, then half a cosine from lr to 0, or lr itself. `epoch` counts with fractions."""
    if epoch < config.warmup:
        return config.lr * epoch / config.warmup
    if config.schedule == "constant":
        return config.lr
    done = (epoch - config.warmup) / max(config.epochs - config.warmup, 1e-9)
    return config.lr * 0.5 * (1 + math.cos(math.pi * done))


class Average:
    """A running average of a module's weights and BatchNorm statistics (Polyak and Juditsky 1992), kept in `module`.

    Early on the decay is (1+t)/(10+t), so that the random initialisation is forgotten even in a short run.
    """

    def __init__(self, module: nn.Module, source: nn.Module, decay: float):
        self.module = module
        self.decay = decay
        pairs = list(zip(module.state_dict().values(), source.state_dict().values()))
        self.mine, self.theirs = zip(*[pair for pair in pairs if pair[0].is_floating_point()])
        self.counters = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the average towards the source after `step` earlier updates; counters are copied."""
        decay = min(self.decay, (1 + step) / (10 + step)) if self.decay else 0.0
        torch._foreach_lerp_(self.mine, self.theirs, 1 - decay)
        for mine, theirs in self.counters:
            mine.copy_(theirs)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by name: all of it is tensors (momentum, moments, Adam's step counter)."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{i}.{name}": t for i, slots in state.items() for name, t in slots.items() if t is not None}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`. Slots take their parameter's device and memory layout."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, t in tensors.items():
        _, index, name = key.split(".")
        p = parameters[int(index)]
        # Adam's step counters are scalars and stay where load_state_dict puts them.
        slot = torch.empty_like(p).copy_(t) if t.shape == p.shape and name != "step" else t
        state.setdefault(int(index), {})[name] = slot
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
