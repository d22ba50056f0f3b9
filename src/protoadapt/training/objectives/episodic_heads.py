"""Episodic training of the few-shot heads in `HEADS`: cross-entropy of the queries of every episode of the step.

All episodes and classes of a step pass through the head at once. The head is the one that `evaluate --head` runs.
"""

from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor

from protoadapt.core.heads import HEADS, EpisodeHead, HeadShape
from protoadapt.training.objectives.objective import MakeHead, Needs, Objective, Outputs, Sizes


def objective(name: str) -> Objective:
    """The objective that trains a head of HEADS by its logits."""
    kind = HEADS[name]
    needs = Needs(heads={name: HEAD_MAKERS[name]}, episodes=True, places=kind.places, noise=kind.noisy)
    needs = replace(needs, conditions=kind.conditions)
    return Objective(partial(_loss, name), needs, partial(_accuracy, name))


def make_head(kind: type[EpisodeHead], sizes: Sizes) -> EpisodeHead:
    channels = sizes.channels if kind.conditions else ()
    return kind(HeadShape(sizes.dim, sizes.side, sizes.config.way, sizes.config.shot, channels))


HEAD_MAKERS: dict[str, MakeHead] = {name: partial(make_head, kind) for name, kind in HEADS.items()}
"""One maker per head, so that all objectives that train a head share it."""


def tasks(outputs: Outputs, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Support rows (E, W·K, D), their classes as one-hot rows (E, W·K, W) and query rows (E, W·Q, D), in float32."""
    rows = outputs.as_episodes(rows).float()
    episodes, way = rows.shape[:2]
    shot = outputs.config.shot
    classes = torch.eye(way, device=rows.device).repeat_interleave(shot, 0)
    return rows[:, :, :shot].flatten(1, 2), classes.expand(episodes, -1, -1), rows[:, :, shot:].flatten(1, 2)


def _step(name: str, outputs: Outputs) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (E, W·Q, W), loss () and targets (E, W·Q), computed once per step, in full precision."""
    if name not in outputs.memo:
        with torch.autocast(outputs.features.device.type, enabled=False):
            kind = HEADS[name]
            rows = outputs.places if kind.places else outputs.conditioned if kind.conditions else outputs.features
            support, classes, query = tasks(outputs, rows)  # type: ignore[arg-type]
            (episodes, queries), way = query.shape[:2], classes.shape[-1]
            targets = torch.arange(way, device=query.device).repeat_interleave(queries // way).expand(episodes, -1)
            head, smoothing = cast(EpisodeHead, outputs.heads[name]), outputs.config.label_smoothing
            step = head.train_step(support, classes, query, targets, smoothing, outputs.noise)
            outputs.memo[name] = (*step, targets)
    return outputs.memo[name]


def _loss(name: str, outputs: Outputs) -> Tensor:
    return _step(name, outputs)[1]


def _accuracy(name: str, outputs: Outputs) -> Tensor:
    logits, _, targets = _step(name, outputs)
    return (logits.argmax(-1) == targets).float().mean()
