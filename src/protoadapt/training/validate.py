"""Validation: accuracy on fixed few-shot episodes of the validation classes, which training does not see."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Protocol
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.heads import EpisodeHead, as_method, as_picture_method
from protoadapt.training.learner import Learner
from protoadapt.vision.networks import film
from protoadapt.vision.networks.staged import generalised_mean

METHODS = ("cipa", "protonet")
SHOTS = (1, 5)
SEED = 0  # of the validation episodes: the same for every run, so that runs can be compared


def protocols(labels: np.ndarray) -> dict[int, Protocol]:
    """Shot → protocol: 5-way episodes with 15 queries per class; fewer where there are few classes or pictures."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2 or counts.min() <= max(SHOTS):
        raise UserError(
            f"validation needs two classes with {max(SHOTS) + 1} pictures each, but there are {len(classes)} classes, "
            f"the smallest with {counts.min() if len(counts) else 0}: add pictures, or train without validation"
        )
    way, query = min(5, len(classes)), min(15, int(counts.min()) - max(SHOTS))
    return {shot: Protocol(way=way, shot=shot, query=query) for shot in SHOTS}


@torch.no_grad()
def embed(learner: Learner, pixels, device: torch.device, chunk: int = 512) -> tuple[Tensor, Tensor]:
    """Features (N, D) of pictures (N, 3, H, H) uint8, normalised and batched as in training, and the rows that the
    learner's head takes: the same, those of every place, or the numbers of the pictures.

    `vision.embed` divides by the standard deviation, runs 16 pictures at a time on a CPU and returns to the CPU: its
    last bits differ, and with them the accuracies that choose the best epoch of published runs.
    """
    head = learner.few_shot_head
    parts: list[Tensor] = []
    rows: list[Tensor] = []
    for start in range(0, len(pixels), chunk):
        images = torch.from_numpy(np.array(pixels[start : start + chunk])).to(device)
        maps = learner.backbone.maps_from(learner.normalise(images), 0)
        parts.append(generalised_mean(maps, 1.0))
        rows.append(maps.flatten(1) if head and head.places else parts[-1])
    if head and head.conditions:
        return torch.cat(parts), torch.arange(float(len(pixels)), device=device)[:, None]
    return torch.cat(parts), torch.cat(rows)


def validate(
    learner: Learner, features: Tensor, rows: Tensor, labels: np.ndarray, episodes: int, pixels: Any = None
) -> dict[str, float]:
    """Accuracy in percent as "cipa_1", …, and "score", the mean over shots that selects the best checkpoint: that of
    the few-shot head where one is trained (on `rows`, as `embed` gives them, and on the pictures where it conditions
    its network), else CIPA's."""
    scores, name, head = {}, learner.config.head, learner.few_shot_head
    run = partial(compare, episodes=episodes, seed=SEED, device=features.device)
    for shot, protocol in protocols(labels).items():
        results = run(features, labels, METHODS, protocol)
        if name and head and answers(head, protocol):
            pictures = film.embedder(learner.backbone, learner.normalise, pixels)
            method = as_picture_method(name, head, pictures) if head.conditions else as_method(name, head)
            results += run(rows, labels, [method], protocol)
        for result in results:
            scores[f"{result.method.name}_{shot}"] = result.accuracy
    chosen = [scores[key] for shot in SHOTS if (key := f"{name}_{shot}") in scores]
    return {**scores, "score": float(np.mean(chosen or [scores[f"cipa_{shot}"] for shot in SHOTS]))}


def answers(head: EpisodeHead, protocol: Protocol) -> bool:
    """Whether a head can answer episodes of this way and shot."""
    way = not head.fixed_way or protocol.way == head.shape.way
    return way and (not head.fixed_shot or protocol.shot == head.shape.shot)
