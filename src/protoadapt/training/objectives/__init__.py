"""Objectives: what one training pass gives → one number to make small. One paper, one file.

`Rows` is what the pass of a step leaves behind; an objective picks from it and says in `needs` what has to be there.
Axes: B images of the batch, R = B plus rotated copies, C classes, D feature dimensions.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from protoadapt.training.objectives.cross_entropy import cross_entropy
from protoadapt.training.objectives.distill import distill
from protoadapt.training.objectives.episodic_protonet import protonet
from protoadapt.training.objectives.hct import hct
from protoadapt.training.objectives.manifold_mixup import manifold_mixup
from protoadapt.training.objectives.rotation import rotation


@dataclass
class Rows:
    """Outputs of one pass. What the phase's objectives do not need is None."""

    labels: Tensor  # (R) class of every unmixed row
    smoothing: float
    logits: Tensor | None = None  # (R, C) of the unmixed rows, the B weak views first
    turned: Tensor | None = None  # (R−B, 4) logits of the rotation head
    mixed: Tensor | None = None  # (B, C) logits of the mixed rows
    partners: Tensor | None = None  # (B) class of the second picture of each mixed row
    lam: Tensor | None = None  # () share of the first picture
    teacher: Tensor | None = None  # (B, C) teacher's logits of the weak views
    softness: float = 4.0  # temperature of distillation
    episodes: Tensor | None = None  # (E, W, K+Q, D) features of the weak views
    shot: int = 0
    temperature: Tensor | None = None  # () learned


@dataclass(frozen=True)
class Objective:
    loss: Callable[..., Tensor]
    needs: frozenset[str]


def _mixed(loss: Callable[..., Tensor]) -> Callable[[Rows], Tensor]:
    return lambda rows: loss(rows.mixed, rows.labels[: len(rows.mixed)], rows.partners, rows.lam, rows.smoothing)  # type: ignore[arg-type]


def _distill(rows: Rows) -> Tensor:
    return distill(rows.logits[: len(rows.teacher)], rows.teacher, rows.softness)  # type: ignore[index,arg-type]


OBJECTIVES: dict[str, Objective] = {
    "ce": Objective(lambda rows: cross_entropy(rows.logits, rows.labels, rows.smoothing), frozenset({"classifier"})),
    "rotation": Objective(lambda rows: rotation(rows.turned), frozenset({"rotated"})),
    "manifold_mixup": Objective(_mixed(manifold_mixup), frozenset({"classifier", "mixed"})),
    "hct": Objective(_mixed(hct), frozenset({"classifier", "mixed", "strong"})),
    "protonet": Objective(lambda rows: protonet(rows.episodes, rows.shot, rows.temperature), frozenset({"episodes"})),
    "distill": Objective(_distill, frozenset({"classifier", "teacher"})),
}


def needs(weights: dict[str, float]) -> frozenset[str]:
    """What the objectives of a phase need together."""
    return frozenset().union(*(OBJECTIVES[name].needs for name in weights))


__all__ = [
    "OBJECTIVES",
    "Objective",
    "Rows",
    "cross_entropy",
    "distill",
    "hct",
    "manifold_mixup",
    "needs",
    "protonet",
    "rotation",
]
