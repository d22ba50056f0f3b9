"""The contract between the training step and its objectives.

An objective declares what it needs (`Needs`) and computes one loss from the outputs of the step's forward pass
(`Outputs`). The objectives are in `objectives`.

Axes: B pictures of the batch, R = B + rotated copies, D feature dimensions, C base classes, E episodes, W classes per
episode, K support and Q query pictures per class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from protoadapt.vision.networks.staged import Staged

if TYPE_CHECKING:
    from protoadapt.training.config import TrainConfig

Head = nn.Module | nn.Parameter


MakeHead = Callable[[Staged, int, "TrainConfig"], Head]
"""(backbone, number of base classes, config) → a module or a parameter that is trained and saved with the backbone."""


@dataclass(frozen=True)
class Needs:
    """What an objective needs besides the weak view and the label of each picture.

    heads         name → maker; objectives that give the same name share the head
    rotated       every n-th picture is also passed in its four rotations, n being the config's `rotate_every`
    partner       "weak" or "strong": each row is mixed with that view of another picture at a random layer; "": no
                  mixed rows
    episodes      the batch consists of few-shot episodes
    teacher       the class logits of a frozen network, which the phase names
    places        the features of every place of the last stage, besides their mean
    noise         random numbers of the head itself, such as dropout
    conditions    a second pass through the network, conditioned on each episode
    """

    heads: Mapping[str, MakeHead] = field(default_factory=dict)
    rotated: bool = False
    partner: Literal["", "weak", "strong"] = ""
    episodes: bool = False
    teacher: bool = False
    places: bool = False
    noise: bool = False
    conditions: bool = False

    def rows(self, pictures: int, rotate_every: int) -> int:
        """Rows that pass forward and backward for so many pictures: weak views, rotated copies, mixed rows.

        Where every picture is rotated, its upright copy is the weak view itself. Conditioned rows pass again.
        """
        rotated = 4 * pictures // rotate_every if self.rotated else 0
        upright = pictures if rotate_every == 1 and self.rotated else 0
        return pictures * (1 + bool(self.partner) + self.conditions) + rotated - upright


def apply_head(head: Head, features: Tensor) -> Tensor:
    """A head's output for features (n, D), in full precision: bfloat16 logits would carry three digits only."""
    with torch.autocast(features.device.type, enabled=False):
        return head(features.float())  # type: ignore[operator]


@dataclass
class Outputs:
    """The outputs of one forward pass. What no objective of the phase needs is None."""

    features: Tensor  # (R, D): B weak views, then rotated copies; with mixed rows (R + B, D), the mixed rows last
    labels: Tensor  # (R) class of every row that is not mixed
    batch: int  # B
    heads: Mapping[str, Head]
    config: "TrainConfig"
    partner_labels: Tensor | None = None  # (B) class of the second picture of each mixed row
    lam: Tensor | None = None  # () weight λ of the first picture
    teacher_logits: Tensor | None = None  # (B, C) of the weak views
    places: Tensor | None = None  # (…, D · side²): the rows of `features` before the mean over places
    conditioned: Tensor | None = None  # (B, D) features of the weak views, conditioned on their episodes
    noise: torch.Generator | None = None  # for heads that draw random numbers while training

    @cached_property
    def all_logits(self) -> Tensor:
        """Class logits of all rows, computed once for all objectives."""
        return apply_head(self.heads["classifier"], self.features)

    @property
    def logits(self) -> Tensor:
        """(R, C) class logits of the rows that are not mixed."""
        return self.all_logits[: len(self.labels)]

    @property
    def mixed_logits(self) -> Tensor:
        """(B, C) class logits of the mixed rows."""
        return self.all_logits[len(self.labels) :]

    @cached_property
    def accuracy(self) -> Tensor:
        """Share () of the weak views that the classifier puts into their own class."""
        b = self.batch
        return (self.logits[:b].argmax(1) == self.labels[:b]).float().mean()

    @property
    def rotated_features(self) -> Tensor:
        """(R − B, D) features of the rotated copies, in the order of `learner.rotations`."""
        first = 0 if self.config.rotate_every == 1 else self.batch
        return self.features[first : len(self.labels)]

    def as_episodes(self, rows: Tensor) -> Tensor:
        """The weak views among rows (R, …) as episodes (E, W, K + Q, …), the K support rows of each class first."""
        config = self.config
        return rows[: self.batch].unflatten(0, (-1, config.way, config.shot + config.query))

    def tasks(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Support rows (E, W·K, D), their classes as one-hot rows (E, W·K, W), query rows (E, W·Q, D), in float32."""
        rows = self.as_episodes(rows).float()
        episodes, way = rows.shape[:2]
        shot = self.config.shot
        classes = torch.eye(way, device=rows.device).repeat_interleave(shot, 0)
        return rows[:, :, :shot].flatten(1, 2), classes.expand(episodes, -1, -1), rows[:, :, shot:].flatten(1, 2)


@dataclass(frozen=True)
class Objective:
    """What it needs, and its function: outputs → mean loss () and the training accuracy () to log, or None."""

    compute: Callable[[Outputs], tuple[Tensor, Tensor | None]]
    needs: Needs
