"""How well the network names classes it has not seen: fixed episodes of the validation classes."""

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Protocol
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.training.learner import Learner

METHODS = ("cipa", "protonet")
SHOTS = (1, 5)
SEED = 0
"""Of the validation episodes: the same for every run, so that runs can be compared."""


def protocols(labels: np.ndarray) -> dict[int, Protocol]:
    """5-way episodes with 15 queries by shot; fewer where the validation classes are few or small."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2 or counts.min() <= max(SHOTS):
        raise UserError(
            f"validation needs two classes with {max(SHOTS) + 1} pictures each, there are {len(classes)} and the "
            f"smallest has {counts.min() if len(counts) else 0}: add pictures, or train without validation"
        )
    way, query = min(5, len(classes)), min(15, int(counts.min()) - max(SHOTS))
    return {shot: Protocol(way=way, shot=shot, query=query) for shot in SHOTS}


@torch.no_grad()
def embed(learner: Learner, pixels, device: torch.device, chunk: int = 512) -> Tensor:
    """Features (N, D) of pictures (N, 3, H, H) uint8 as they are, without augmentation."""
    out = []
    for start in range(0, len(pixels), chunk):
        images = torch.from_numpy(np.array(pixels[start : start + chunk])).to(device)
        out.append(learner.backbone(learner.normalise(images)))
    return torch.cat(out)


def validate(features: Tensor, labels: np.ndarray, episodes: int) -> dict[str, float]:
    """Accuracy in percent by method and shot, and "score", the mean of CIPA's: what selects the model."""
    found = {}
    for shot, protocol in protocols(labels).items():
        for result in compare(
            features, labels, METHODS, protocol, episodes=episodes, seed=SEED, device=features.device
        ):
            found[f"{result.method.name}_{shot}"] = result.accuracy
    return {**found, "score": float(np.mean([found[f"cipa_{shot}"] for shot in SHOTS]))}
