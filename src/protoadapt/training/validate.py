"""Validation: accuracy on fixed few-shot episodes of the validation classes, which training does not see."""

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Protocol
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.training.learner import Learner

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
def embed(learner: Learner, pixels, device: torch.device, chunk: int = 512) -> Tensor:
    """Features (N, D) of pictures (N, 3, H, H) uint8, normalised and batched as in training.

    `vision.embed` divides by the standard deviation, runs 16 pictures at a time on a CPU and returns to the CPU: its
    last bits differ, and with them the accuracies that choose the best epoch of published runs.
    """
    parts = []
    for start in range(0, len(pixels), chunk):
        images = torch.from_numpy(np.array(pixels[start : start + chunk])).to(device)
        parts.append(learner.backbone(learner.normalise(images)))
    return torch.cat(parts)


def validate(features: Tensor, labels: np.ndarray, episodes: int) -> dict[str, float]:
    """Accuracy in percent as "cipa_1", …, and "score", the mean of CIPA's, which selects the best checkpoint."""
    scores = {}
    for shot, protocol in protocols(labels).items():
        results = compare(features, labels, METHODS, protocol, episodes=episodes, seed=SEED, device=features.device)
        for result in results:
            scores[f"{result.method.name}_{shot}"] = result.accuracy
    return {**scores, "score": float(np.mean([scores[f"cipa_{shot}"] for shot in SHOTS]))}
