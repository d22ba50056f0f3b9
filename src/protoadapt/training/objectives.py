"""Training objectives. To add one: write its loss of `Outputs`, and one entry of `OBJECTIVES` at the end.

An objective declares what it needs (`Needs`) and computes one loss from the outputs of the step's forward pass
(`Outputs`). A need of a new kind is one more field of both, which `Learner.forward` fills in.

Axes: B pictures of the batch, R = B + rotated copies, D feature dimensions, C base classes, E episodes, W classes per
episode, K support and Q query pictures per class.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.errors import UserError
from protoadapt.core.heads import HEADS, EpisodeHead, HeadShape
from protoadapt.core.methods.common import sq_distances
from protoadapt.vision.networks import film
from protoadapt.vision.networks.backbones import Staged

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
    conditions    a second pass through the network, conditioned on each episode
    """

    heads: Mapping[str, MakeHead] = field(default_factory=dict)
    rotated: bool = False
    partner: Literal["", "weak", "strong"] = ""
    episodes: bool = False
    teacher: bool = False
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
    maps: Tensor | None = None  # (…, D, side, side): the rows of `features` before their mean over places
    partner_labels: Tensor | None = None  # (B) class of the second picture of each mixed row
    lam: Tensor | None = None  # () weight λ of the first picture
    teacher_logits: Tensor | None = None  # (B, C) of the weak views
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


Answer = tuple[Tensor, Tensor | None]
"""The mean loss () and the training accuracy () to log, or None."""


@dataclass(frozen=True)
class Objective:
    """The function of an objective, and what it needs."""

    compute: Callable[[Outputs], Answer]
    needs: Needs


class CosineClassifier(nn.Linear):
    """s·cos(w_c, x), the scale s learned from 10 (Gidaris and Komodakis 2018; Qi et al. 2018)."""

    def __init__(self, dim: int, classes: int):
        super().__init__(dim, classes, bias=False)
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * F.normalize(x, dim=-1) @ F.normalize(self.weight, dim=-1).T


def make_classifier(backbone: Staged, classes: int, config: "TrainConfig") -> nn.Module:
    """The classifier of the base classes, shared by all objectives that declare it."""
    return (CosineClassifier if config.classifier == "cosine" else nn.Linear)(backbone.dim, classes)


def cross_entropy(outputs: Outputs) -> Answer:
    """Mean of −log p_y over weak views and rotated copies: the classifier baseline (Chen et al. 2019; our Eq. 5)."""
    smoothing = outputs.config.label_smoothing
    return F.cross_entropy(outputs.logits, outputs.labels, label_smoothing=smoothing), outputs.accuracy


def rotation(outputs: Outputs) -> Answer:
    """How many quarter turns? Cross-entropy of the rotated copies (Gidaris et al. 2018; Mangla et al. 2020)."""
    logits = apply_head(outputs.heads["rotation_head"], outputs.rotated_features)
    return F.cross_entropy(logits, torch.arange(4, device=logits.device).repeat_interleave(len(logits) // 4)), None


def mixed_cross_entropy(outputs: Outputs) -> Answer:
    """Soft-label cross-entropy of rows that were mixed at a random layer l.

        x̄ˡ = λ·x₁ˡ + (1−λ)·x₂ˡ         x₁ a weak view of picture i, x₂ a view of picture perm[i]
        x̄  = f^L ∘ … ∘ f^{l+1}(x̄ˡ)     logits = classifier(x̄)
        ȳ  = λ·y₁ + (1−λ)·y₂           one λ ~ Beta(α, α) and one layer l per batch

    In Manifold Mixup x₂ is a weak view (Verma et al. 2019; in few-shot learning S2M2, Mangla et al. 2020). In Hybrid
    Consistency Training it is a strong one: interpolation consistency and augmentation consistency in one term (Ye et
    al., "Hybrid Consistency Training with Prototype Adaptation", section 3.2).

    Cross-entropy is linear in its target, so two plain ones weighted by λ are the soft-label one. The forward pass
    itself is in `Learner`, which shares it with the other objectives of the step.
    """
    mixed = outputs.all_logits[len(outputs.labels) :]
    loss = partial(F.cross_entropy, mixed, label_smoothing=outputs.config.label_smoothing)
    one = loss(outputs.labels[: outputs.batch])
    two = loss(cast(Tensor, outputs.partner_labels))
    lam = cast(Tensor, outputs.lam)
    return lam * one + (1 - lam) * two, outputs.accuracy


def distillation(outputs: Outputs) -> Answer:
    """T²·KL(softmax(teacher/T) ‖ softmax(student/T)) of the weak views' logits (Hinton et al. 2015; Tian et al. 2020).

    T² keeps the size of the gradient.
    """
    temperature = 4.0
    student = F.log_softmax(outputs.logits[: outputs.batch] / temperature, dim=1)
    teacher = F.log_softmax(cast(Tensor, outputs.teacher_logits) / temperature, dim=1)
    loss = temperature**2 * F.kl_div(student, teacher, log_target=True, reduction="batchmean")
    return loss, outputs.accuracy


def prototypical(outputs: Outputs) -> Answer:
    """Episodic Prototypical Networks (Snell et al. 2017; the paper's Eqs. 1–3): every query against its own class.

    Logits are −τ·‖q − p_c‖² of each query q and prototype p_c, the mean of the support rows of class c.
    """
    shot = outputs.config.shot
    scale = cast(Tensor, outputs.heads["log_temperature"]).exp()  # τ, by the name that files have for it
    features = outputs.as_episodes(outputs.features)
    prototypes = features[:, :, :shot].mean(2)  # (E, W, D)
    query = features[:, :, shot:].flatten(1, 2)  # (E, W·Q, D)
    distances = (query[:, :, None] - prototypes[:, None]).square().sum(-1)
    logits = -scale * distances.unflatten(1, (features.shape[1], -1))  # (E, W, Q, W)
    own = torch.arange(logits.shape[1], device=logits.device)[:, None]
    loss = F.cross_entropy(logits.flatten(0, 2), own.expand(logits.shape[:3]).flatten())
    return loss, (logits.argmax(-1) == own).float().mean()


def feat_contrast(outputs: Outputs) -> Answer:
    """FEAT's second loss (Ye et al. 2020, section 3.3): after attention within its class, a row finds its class centre.

    c_w = mean over the K + Q rows x of class w of adapt(x | rows of class w)    loss = −log softmax_w(−‖x − c_w‖²/τ)
    """
    temperature = 64.0 if outputs.config.shot == 1 else 32.0  # the authors' for ResNet-12 on mini-ImageNet
    with torch.autocast(outputs.features.device.type, enabled=False):
        rows = outputs.as_episodes(outputs.features).float()  # (E, W, K + Q, D)
        adapted = outputs.heads["feat"].adapt(rows, outputs.noise)  # type: ignore[union-attr,operator]
        distances = sq_distances(rows.flatten(1, 2), adapted.mean(2))  # (E, W·(K + Q), W)
        way, each = rows.shape[1:3]
        own = torch.arange(way, device=rows.device).repeat_interleave(each).repeat(len(rows))
        return F.cross_entropy(-distances.flatten(0, 1) / temperature, own), None


def make_head(name: str, backbone: Staged, classes: int, config: "TrainConfig") -> Head:
    """A few-shot head of HEADS, the one that `evaluate --head` runs."""
    side = config.size >> len(backbone.stages) if HEADS[name].places else 1  # every stage of BACKBONES halves it
    channels = [layer.num_features for layer in film.layers(backbone)] if HEADS[name].conditions else []
    return HEADS[name](HeadShape(backbone.dim, side, config.way, config.shot, tuple(channels)))


def head_loss(name: str, outputs: Outputs) -> Answer:
    """Cross-entropy of the queries of every episode of the step by a head of HEADS, in full precision."""
    with torch.autocast(outputs.features.device.type, enabled=False):
        kind = HEADS[name]
        rows = outputs.maps if kind.places else outputs.conditioned if kind.conditions else outputs.features
        _, classes, query = parts = outputs.tasks(cast(Tensor, rows).flatten(1))
        episodes, queries = query.shape[:2]
        way = classes.shape[-1]
        targets = torch.arange(way, device=query.device).repeat_interleave(queries // way).expand(episodes, -1)
        head = cast(EpisodeHead, outputs.heads[name])
        logits, loss = head.train_step(parts, targets, outputs.config.label_smoothing, outputs.noise)
        return loss, (logits.argmax(-1) == targets).float().mean()


def of_head(name: str) -> Objective:
    """The objective that trains a head of HEADS by its logits."""
    heads = {name: partial(make_head, name)}
    return Objective(partial(head_loss, name), Needs(heads, episodes=True, conditions=HEADS[name].conditions))


_CLASSIFIER = {"classifier": make_classifier}
_ROTATION = {"rotation_head": lambda backbone, classes, config: nn.Linear(backbone.dim, 4)}
_FEAT = {"feat": partial(make_head, "feat")}
_PROTONET = {"log_temperature": lambda backbone, classes, config: nn.Parameter(torch.zeros(()))}

OBJECTIVES: dict[str, Objective] = {
    **{name: of_head(name) for name in HEADS},
    "feat_contrast": Objective(feat_contrast, Needs(_FEAT, episodes=True)),
    "ce": Objective(cross_entropy, Needs(_CLASSIFIER)),
    "rotation": Objective(rotation, Needs(_ROTATION, rotated=True)),
    "manifold_mixup": Objective(mixed_cross_entropy, Needs(_CLASSIFIER, partner="weak")),
    "hct": Objective(mixed_cross_entropy, Needs(_CLASSIFIER, partner="strong")),
    "distill": Objective(distillation, Needs(_CLASSIFIER, teacher=True)),
    "protonet": Objective(prototypical, Needs(_PROTONET, episodes=True)),
}
"""Name in a phase's weights → objective. Heads are built in this order; the first accuracy of a phase is logged."""


def heads_of(names: Iterable[str]) -> dict[str, MakeHead]:
    """Name → maker of the heads of these objectives, in the order of OBJECTIVES."""
    wanted = set(names)
    used = [objective for name, objective in OBJECTIVES.items() if name in wanted]
    return {head: make for objective in used for head, make in objective.needs.heads.items()}


def combined_needs(names: Iterable[str]) -> Needs:
    """What objectives that train together need; an error where two want different rows in the same place."""
    needs = {name: OBJECTIVES[name].needs for name in names}
    partners = {need.partner: name for name, need in needs.items() if need.partner}
    if len(partners) > 1:
        users = " and ".join(partners.values())
        raise UserError(f"{users} mix the rows with different views: choose one of them per phase")
    flags = [each.name for each in fields(Needs) if each.type is bool]
    combined = {flag: any(getattr(need, flag) for need in needs.values()) for flag in flags}
    return Needs(heads_of(needs), partner=next(iter(partners), ""), **combined)
