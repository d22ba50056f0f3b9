"""The one module that is trained: backbone, heads and the objectives of the phase, in one forward pass per step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from protoadapt.core.heads import EpisodeHead
from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.objectives import OBJECTIVES, Head, Outputs, apply_head, heads_of
from protoadapt.vision.networks import film
from protoadapt.vision.networks.backbones import Staged, drop_blocks, generalised_mean


class Learner(nn.Module):
    """`forward(batch, draw)` → {"loss", one entry per objective, "accuracy"}, all scalars on the device.

    batch  "weak" (B, 3, H, W) uint8 and "labels" (B); when rows are mixed also "partner" (B, 3, H, W) uint8, the view
           (strong or weak) of each row's second picture, and "partner_labels" (B)
    draw   "layer", the mixing layer, and "lam", λ (): the same on all processes; "seed", that of DropBlock and of the
           noise of heads

    All rows share one pass. Up to layer l it holds [weak, rotated, partner], so that weak and strong views share their
    BatchNorm statistics; there the mixed row takes the partner's place, and [weak, rotated, mixed] go on. So every
    stage sees the same number of rows whatever l is, and a step costs one pass of that many pictures.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self, backbone: Staged, n_classes: int, mean: Sequence[float], std: Sequence[float], config: TrainConfig
    ):
        """The heads are those of all objectives of the config's phases; each is an attribute of its own name."""
        super().__init__()
        self.backbone = backbone.requires_grad_(not config.frozen)
        self.config = config
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("scale", 1 / (torch.tensor(std).view(1, 3, 1, 1) * 255), persistent=False)
        self.phase = config.phases[0]
        self.teacher: Callable[[Tensor], Tensor] | None = None
        makers = heads_of(name for phase in config.phases for name in phase.weights)
        self.head_names = tuple(makers)
        for name, make in makers.items():  # last: random numbers are drawn in this order
            setattr(self, name, make(backbone, n_classes, config))

    def train(self, mode: bool = True) -> "Learner":
        """A frozen backbone keeps its BatchNorm statistics as well."""
        super().train(mode)
        self.backbone.train(mode and not self.config.frozen)
        return self

    @property
    def heads(self) -> dict[str, Head]:
        """Name → head, a module or a parameter of this module."""
        return {name: getattr(self, name) for name in self.head_names}

    @property
    def few_shot_head(self) -> EpisodeHead | None:
        """The head that answers episodes by itself, where the config trains one."""
        return None if self.config.head is None else cast(EpisodeHead, self.heads[self.config.head])

    def set_phase(self, phase: Phase, teacher: "Learner | None" = None) -> None:
        """Train its objectives from now on. The teacher is a frozen network; it is not part of this module."""
        self.phase = phase
        self.teacher = None if teacher is None else teacher.classify

    def normalise(self, images: Tensor) -> Tensor:
        """uint8 images (B, 3, H, W) as the backbone takes them: float, channels last, zero mean and unit variance."""
        x = images.to(torch.float32, memory_format=torch.channels_last)
        return (x - self.mean).mul_(self.scale)

    def classify(self, images: Tensor) -> Tensor:
        """Class logits (B, C) of uint8 images."""
        return apply_head(self.heads["classifier"], self.backbone(self.normalise(images)))

    def forward(self, batch: dict[str, Tensor], draw: dict) -> dict[str, Tensor]:
        needs, weights = self.phase.needs, self.phase.weights
        weak, labels = batch["weak"], batch["labels"]
        views = [weak]
        every = self.config.rotate_every
        if needs.rotated and every == 1:  # the upright copies come first, and are the weak views
            views = [rotations(weak)]
            labels = labels.repeat(4)
        elif needs.rotated:
            # Every n-th picture, not the first ones: the same are chosen however the batch is split over processes.
            views.append(rotations(weak[::every]))
            labels = torch.cat([labels, labels[::every].repeat(4)])
        if needs.partner:
            views.append(batch["partner"])

        b, r = len(weak), len(labels)
        layer = draw["layer"]
        generator = torch.Generator(weak.device).manual_seed(draw["seed"])
        share = self.config.dropblock
        drop = partial(drop_blocks, share=share, generator=generator) if share else None
        hidden = self.backbone.forward_to(self.normalise(torch.cat(views)), layer, drop)
        if needs.partner:
            first, rotated, second = hidden.split([b, r - b, b])
            hidden = torch.cat([first, rotated, draw["lam"] * first + (1 - draw["lam"]) * second])
        maps = self.backbone.maps_from(hidden, layer, drop)

        outputs = Outputs(generalised_mean(maps, 1.0), labels, b, self.heads, self.config, maps)
        outputs.noise = generator if self.training else None
        if needs.conditions:
            support, classes, _ = outputs.tasks(outputs.features)
            with torch.autocast(weak.device.type, enabled=False):
                conditions = cast(EpisodeHead, self.few_shot_head).film(support, classes)
            outputs.conditioned = film.conditioned(self.backbone, self.normalise(weak), conditions)
        if needs.partner:
            outputs.partner_labels = batch["partner_labels"]
            outputs.lam = draw["lam"]
        if needs.teacher:
            with torch.no_grad():
                outputs.teacher_logits = self.teacher(weak)  # type: ignore[misc]

        answers = {name: OBJECTIVES[name].compute(outputs) for name in weights}
        parts = {name: loss for name, (loss, _) in answers.items()}
        loss = torch.stack([weight * parts[name] for name, weight in weights.items()]).sum()
        accuracies = (answers[name][1] for name in OBJECTIVES if name in answers)
        accuracy = next((one for one in accuracies if one is not None), loss.new_zeros(()))
        return {"loss": loss + self._idle(), **parts, "accuracy": accuracy}

    def _idle(self) -> Tensor | float:
        """Zero, with a zero gradient for the heads that this phase does not use: distributed training waits for it."""
        idle = [head for name, head in self.heads.items() if name not in self.phase.needs.heads]
        parameters = [p for head in idle for p in ([head] if isinstance(head, nn.Parameter) else head.parameters())]
        return sum(0.0 * p.sum() for p in parameters)


def rotations(images: Tensor) -> Tensor:
    """Images (n, 3, H, H) in all four rotations: (4n, 3, H, H), all upright ones first, then 90°, 180°, 270°."""
    return torch.cat([torch.rot90(images, turns, (2, 3)) for turns in range(4)])
