"""Validation: accuracy on fixed few-shot episodes of the validation classes, which training does not see."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.heads import as_method
from protoadapt.core.protocol import Protocol
from protoadapt.training.learner import Learner
from protoadapt.vision.embed import embed
from protoadapt.vision.networks import film

_METHODS = ("cipa", "protonet")
_SHOTS = (1, 5)
SEED = 0  # of the validation episodes: the same for every run, so that runs can be compared
_CHUNK = 512  # pictures that are embedded at once


def protocols(labels: np.ndarray) -> dict[int, Protocol]:
    """Shot → protocol: 5-way episodes with 15 queries per class; fewer where there are few classes or pictures."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2 or counts.min() <= max(_SHOTS):
        raise UserError(
            f"validation needs two classes with {max(_SHOTS) + 1} pictures each, but there are {len(classes)} classes, "
            f"the smallest with {counts.min() if len(counts) else 0}: add pictures, or train without validation"
        )
    query = min(15, int(counts.min()) - max(_SHOTS))
    return {shot: Protocol(way=min(5, len(classes)), shot=shot, query=query) for shot in _SHOTS}


def validate(
    learner: Learner, metadata: Mapping[str, Any], images: Any, autocast: Callable[[], AbstractContextManager]
) -> dict[str, float]:
    """Accuracy in percent as "cipa_1", …, and "score", the mean over shots that selects the best checkpoint.

    The score is that of the few-shot head where one is trained, else CIPA's. The head takes the features, those of
    every place, or the pictures where it conditions its network. metadata: "mean" and "std" of the input · images:
    pixels (N, 3, H, H) uint8 and labels (N) · autocast: the precision in which pictures are embedded, and they alone.
    """
    pixels = images.pixels
    labels = np.asarray(images.labels)
    device = learner.mean.device

    def embedded(**options: Any) -> Tensor:
        with autocast():
            return embed(learner.backbone, metadata, pixels, batch=_CHUNK, **options).to(device, torch.float32)

    features = rows = embedded()
    name, head, pictures = learner.config.head, learner.few_shot_head, None
    if head and head.places:
        rows = embedded(maps=True)
    if head and head.conditions:
        rows = torch.arange(float(len(pixels)), device=device)[:, None]  # the numbers of the pictures
        pictures = film.embedder(learner.backbone, learner.normalise, pixels)
    run = partial(compare, episodes=learner.config.validation_episodes, seed=SEED, device=device)
    scores: dict[str, float] = {}
    for shot, protocol in protocols(labels).items():
        results = run(features, labels, _METHODS, protocol)
        fits = head and (protocol.way == head.shape.way or not head.fixed_way)
        if name and head and fits and (shot == head.shape.shot or not head.fixed_shot):
            results += run(rows, labels, [as_method(name, head, pictures)], protocol)
        scores |= {f"{result.method.name}_{shot}": result.accuracy for result in results}
    chosen = [scores[key] for shot in _SHOTS if (key := f"{name}_{shot}") in scores]
    return {**scores, "score": float(np.mean(chosen or [scores[f"cipa_{shot}"] for shot in _SHOTS]))}
