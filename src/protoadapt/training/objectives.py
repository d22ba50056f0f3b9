"""Training objectives. To add one: write its loss of `Outputs`, and one entry of `OBJECTIVES`.

Learner, config and loop know objectives by this table only. Axes as in `contract`.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.errors import UserError
from protoadapt.core.heads import HEADS, EpisodeHead, HeadShape
from protoadapt.core.methods.common import sq_distances
from protoadapt.training.contract import Head, MakeHead, Needs, Objective, Outputs, apply_head
from protoadapt.vision.networks import film
from protoadapt.vision.networks.staged import Staged

if TYPE_CHECKING:
    from protoadapt.training.config import TrainConfig


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


Answer = tuple[Tensor, Tensor | None]


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
    logits, lam, smoothing = outputs.mixed_logits, cast(Tensor, outputs.lam), outputs.config.label_smoothing
    one = F.cross_entropy(logits, outputs.labels[: outputs.batch], label_smoothing=smoothing)
    two = F.cross_entropy(logits, cast(Tensor, outputs.partner_labels), label_smoothing=smoothing)
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
    shot, temperature = outputs.config.shot, cast(Tensor, outputs.heads["log_temperature"]).exp()
    features = outputs.as_episodes(outputs.features)
    prototypes = features[:, :, :shot].mean(2)  # (E, W, D)
    query = features[:, :, shot:].flatten(1, 2)  # (E, W·Q, D)
    distances = (query[:, :, None] - prototypes[:, None]).square().sum(-1)
    logits = -temperature * distances.unflatten(1, (features.shape[1], -1))  # (E, W, Q, W)
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
    side = backbone.side(config.size) if HEADS[name].places else 1
    channels = [layer.num_features for layer in film.layers(backbone)] if HEADS[name].conditions else []
    return HEADS[name](HeadShape(backbone.dim, side, config.way, config.shot, tuple(channels)))


def head_loss(name: str, outputs: Outputs) -> Answer:
    """Cross-entropy of the queries of every episode of the step by a head of HEADS, in full precision."""
    with torch.autocast(outputs.features.device.type, enabled=False):
        kind = HEADS[name]
        rows = outputs.places if kind.places else outputs.conditioned if kind.conditions else outputs.features
        _, classes, query = parts = outputs.tasks(cast(Tensor, rows))
        (episodes, queries), way = query.shape[:2], classes.shape[-1]
        targets = torch.arange(way, device=query.device).repeat_interleave(queries // way).expand(episodes, -1)
        head, smoothing = cast(EpisodeHead, outputs.heads[name]), outputs.config.label_smoothing
        logits, loss = head.train_step(parts, targets, smoothing, outputs.noise)
        return loss, (logits.argmax(-1) == targets).float().mean()


def of_head(name: str) -> Objective:
    """The objective that trains a head of HEADS by its logits."""
    kind, heads = HEADS[name], {name: partial(make_head, name)}
    needs = Needs(heads, episodes=True, places=kind.places, noise=kind.noisy, conditions=kind.conditions)
    return Objective(partial(head_loss, name), needs)


CLASSIFIER = {"classifier": make_classifier}
ROTATION = {"rotation_head": lambda backbone, classes, config: nn.Linear(backbone.dim, 4)}
FEAT = {"feat": partial(make_head, "feat")}
PROTONET = {"log_temperature": lambda backbone, classes, config: nn.Parameter(torch.zeros(()))}

OBJECTIVES: dict[str, Objective] = {
    **{name: of_head(name) for name in HEADS},
    "feat_contrast": Objective(feat_contrast, Needs(FEAT, episodes=True, noise=True)),
    "ce": Objective(cross_entropy, Needs(CLASSIFIER)),
    "rotation": Objective(rotation, Needs(ROTATION, rotated=True)),
    "manifold_mixup": Objective(mixed_cross_entropy, Needs(CLASSIFIER, partner="weak")),
    "hct": Objective(mixed_cross_entropy, Needs(CLASSIFIER, partner="strong")),
    "distill": Objective(distillation, Needs(CLASSIFIER, teacher=True)),
    "protonet": Objective(prototypical, Needs(PROTONET, episodes=True)),
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
    flags = ("rotated", "episodes", "teacher", "places", "noise", "conditions")
    combined = {flag: any(getattr(need, flag) for need in needs.values()) for flag in flags}
    return Needs(heads_of(needs), partner=next(iter(partners), ""), **combined)
