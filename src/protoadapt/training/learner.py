"""The one module that is trained: backbone, heads and the objectives of the phase, in one forward a step."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from protoadapt.training.objectives import OBJECTIVES, Rows, needs
from protoadapt.training.objectives.mixing import mix
from protoadapt.training.objectives.rotation import rotate
from protoadapt.vision.networks.backbones import Staged
from protoadapt.vision.networks.dropblock import drop_blocks

ROTATED = 4
"""Every fourth picture is rotated, in all four ways: as many rotated rows as pictures. Taking every fourth, not the
first quarter, chooses the same pictures however the batch is split over processes."""


class Learner(nn.Module):
    """`forward(batch, draw)` → {"loss": …, each part, "accuracy"}, all scalars on the device.

    batch  "weak" (B, 3, H, W) uint8 and "labels" (B); when rows are mixed also "partner" (B, 3, H, W) uint8, the view
           (strong or weak) of each row's second picture, and "partner_labels" (B)
    draw   "layer", the mixing layer, and "lam", λ (): the same on all processes; "noise", DropBlock's seed

    All rows share one pass. Up to layer l it holds [weak, rotated, partner], so that weak and strong views share
    their BatchNorm statistics; there the partner's place is taken by the mixed row, and [weak, rotated, mixed] go on.
    So every stage sees the same number of rows whatever l is, and a step costs one pass of that many pictures.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        backbone: Staged,
        n_classes: int,
        mean: Sequence[float],
        std: Sequence[float],
        objectives: frozenset[str],
        smoothing: float = 0.0,
        softness: float = 4.0,
        episode: tuple[int, int, int] = (5, 5, 15),
        dropblock: float = 0.0,
    ):
        """`objectives` are those of all phases together: a head exists if one of them needs it."""
        super().__init__()
        wanted = needs(dict.fromkeys(objectives, 1.0))
        self.backbone = backbone
        self.classifier = nn.Linear(backbone.dim, n_classes) if "classifier" in wanted else None
        self.rotation_head = nn.Linear(backbone.dim, 4) if "rotated" in wanted else None
        self.log_temperature = nn.Parameter(torch.zeros(())) if "episodes" in wanted else None
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("scale", 1 / (torch.tensor(std).view(1, 3, 1, 1) * 255), persistent=False)
        self.smoothing, self.softness, self.episode, self.dropblock = smoothing, softness, episode, dropblock
        self.weights: dict[str, float] = {}
        self.teacher: Callable[[Tensor], Tensor] | None = None

    def set_phase(self, weights: dict[str, float], teacher: "Learner | None" = None) -> None:
        """Train for these objectives from now on. The teacher is a frozen network; it is no part of this module."""
        self.weights = dict(weights)
        self.teacher = None if teacher is None else teacher.classify

    def normalise(self, images: Tensor) -> Tensor:
        x = images.to(torch.float32, memory_format=torch.channels_last)
        return (x - self.mean).mul_(self.scale)

    def classify(self, images: Tensor) -> Tensor:
        """Class logits (B, C) of uint8 images."""
        return self._head(self.classifier, self.backbone(self.normalise(images)))

    def forward(self, batch: dict[str, Tensor], draw: dict) -> dict[str, Tensor]:
        wanted = needs(self.weights)
        weak, labels = batch["weak"], batch["labels"]
        views = [weak]
        if "rotated" in wanted:
            views.append(rotate(weak[::ROTATED]))
            labels = torch.cat([labels, labels[::ROTATED].repeat(4)])
        if "mixed" in wanted:
            views.append(batch["partner"])

        b, r, layer = len(weak), len(labels), draw["layer"]
        noise = None
        if self.dropblock:
            generator = torch.Generator(weak.device).manual_seed(draw["noise"])
            noise = partial(drop_blocks, share=self.dropblock, generator=generator)
        hidden = self.backbone.forward_to(self.normalise(torch.cat(views)), layer, noise)
        if "mixed" in wanted:
            first, turned, second = hidden.split([b, r - b, b])
            hidden = torch.cat([first, turned, mix(first, second, draw["lam"])])
        features = self.backbone.forward_from(hidden, layer, noise=noise)

        rows = Rows(labels, self.smoothing, softness=self.softness)
        if "classifier" in wanted:
            logits = self._head(self.classifier, features)
            rows.logits = logits[:r]
            if "mixed" in wanted:
                rows.mixed, rows.partners, rows.lam = logits[r:], batch["partner_labels"], draw["lam"]
        if "rotated" in wanted:
            rows.turned = self._head(self.rotation_head, features[b:r])
        if "episodes" in wanted:
            way, rows.shot, query = self.episode
            rows.episodes = features[:b].unflatten(0, (-1, way, rows.shot + query))
            rows.temperature = self.log_temperature.exp()  # type: ignore[union-attr]
        if "teacher" in wanted:
            with torch.no_grad():
                rows.teacher = self.teacher(weak)  # type: ignore[misc]

        parts = {name: OBJECTIVES[name].loss(rows) for name in self.weights}
        loss = torch.stack([weight * parts[name] for name, weight in self.weights.items()]).sum()
        with torch.no_grad():
            accuracy = _accuracy(rows, b)
        return {"loss": loss + self._idle(wanted), **parts, "accuracy": accuracy}

    def _head(self, head: nn.Linear | None, features: Tensor) -> Tensor:
        # Full precision costs nothing here, and bfloat16 logits would be known to three digits only.
        with torch.autocast(features.device.type, enabled=False):
            return head(features.float())  # type: ignore[misc]

    def _idle(self, wanted: frozenset[str]) -> Tensor | float:
        """Zero, with a zero gradient for the heads this phase leaves alone: distributed training waits for them."""
        idle = [
            part
            for name, part in [("classifier", self.classifier), ("rotated", self.rotation_head)]
            if part is not None and name not in wanted
        ]
        zero = sum(0.0 * p.sum() for part in idle for p in part.parameters())
        if self.log_temperature is not None and "episodes" not in wanted:
            zero = zero + 0.0 * self.log_temperature
        return zero


def _accuracy(rows: Rows, b: int) -> Tensor:
    """Share of the weak views named rightly: by the classifier, else among the classes of the episode."""
    if rows.logits is not None:
        return (rows.logits[:b].argmax(1) == rows.labels[:b]).float().mean()
    if rows.episodes is None:
        return rows.labels.new_zeros((), dtype=torch.float32)
    from protoadapt.training.objectives.episodic_protonet import protonet_logits

    logits = protonet_logits(rows.episodes, rows.shot, rows.temperature)  # type: ignore[arg-type]
    own = torch.arange(logits.shape[1], device=logits.device)[:, None]
    return (logits.argmax(-1) == own).float().mean()
