"""Episodic training of the few-shot heads in `HEADS`: cross-entropy of the queries of every episode of the step.

All episodes and classes of a step pass through the head at once. The head is the one that `evaluate --head` runs.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from protoadapt.core.heads import HEADS, EpisodeHead, HeadShape
from protoadapt.training.objectives.objective import MakeHead, Needs, Objective, Outputs, Sizes


def objective(name: str) -> Objective:
    """The objective that trains a head of HEADS by its logits."""
    kind = HEADS[name]
    needs = Needs(heads={name: HEAD_MAKERS[name]}, episodes=True, places=kind.places, noise=kind.noisy)
    return Objective(partial(_loss, name), needs, partial(_accuracy, name))


def make_head(kind: type[EpisodeHead], sizes: Sizes) -> EpisodeHead:
    return kind(HeadShape(sizes.dim, sizes.side, sizes.config.way, sizes.config.shot))


HEAD_MAKERS: dict[str, MakeHead] = {name: partial(make_head, kind) for name, kind in HEADS.items()}
"""One maker per head, so that all objectives that train a head share it."""


def tasks(outputs: Outputs, places: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Support rows (E, W·K, D), their classes as one-hot rows (E, W·K, W) and query rows (E, W·Q, D), in float32."""
    rows = outputs.as_episodes(outputs.places if places else outputs.features).float()  # type: ignore[arg-type]
    episodes, way = rows.shape[:2]
    shot = outputs.config.shot
    classes = torch.eye(way, device=rows.device).repeat_interleave(shot, 0)
    return rows[:, :, :shot].flatten(1, 2), classes.expand(episodes, -1, -1), rows[:, :, shot:].flatten(1, 2)


def _logits(name: str, outputs: Outputs) -> Tensor:
    """(E, W·Q, W), computed once per step, in full precision."""
    if name not in outputs.memo:
        with torch.autocast(outputs.features.device.type, enabled=False):
            parts = tasks(outputs, HEADS[name].places)
            outputs.memo[name] = outputs.heads[name](*parts, outputs.noise)  # type: ignore[operator]
    return outputs.memo[name]


def _targets(logits: Tensor) -> Tensor:
    """(E, W·Q): the queries are in the order of their classes."""
    _, queries, way = logits.shape
    return torch.arange(way, device=logits.device).repeat_interleave(queries // way).expand(logits.shape[:2])


def _loss(name: str, outputs: Outputs) -> Tensor:
    logits = _logits(name, outputs)
    smoothing = outputs.config.label_smoothing
    return F.cross_entropy(logits.flatten(0, 1), _targets(logits).flatten(), label_smoothing=smoothing)


def _accuracy(name: str, outputs: Outputs) -> Tensor:
    logits = _logits(name, outputs)
    return (logits.argmax(-1) == _targets(logits)).float().mean()
