"""Several networks as one: `lite0+lite2` has the unit features of both side by side.

The squared distance of two such rows is the sum of the networks' squared distances of unit rows, so each network
counts alike, whatever the size of its features.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.vision.networks.cards import network_metadata


class Joined(nn.Module):
    """Pixels in [0, 1], (B, 3, S, S) with S the largest input size, to the networks' unit features (B, D₁ + D₂ + …)."""

    def __init__(self, networks: Sequence[nn.Module], metadata: Sequence[dict[str, Any]]):
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.inputs = [tuple(torch.tensor(one[key]).view(3, 1, 1) for key in ("mean", "std")) for one in metadata]
        self.sizes = [one["size"] for one in metadata]

    def forward(self, x: Tensor) -> Tensor:
        parts = []
        for network, (mean, std), size in zip(self.networks, self.inputs, self.sizes):
            fitting = x if x.shape[-1] == size else F.interpolate(x, (size, size), mode="bilinear", antialias=True)
            parts.append(F.normalize(network((fitting - mean.to(x)) / std.to(x)).float()))
        return torch.cat(parts, 1)


def joined_weights(weights: Sequence[str]) -> str:
    """The hash that stands for several networks, from theirs."""
    return hashlib.sha256("+".join(weights).encode()).hexdigest()[:16]


def join(name: str, parts: Sequence[tuple[nn.Module, dict[str, Any]]]) -> tuple[Joined, dict[str, Any]]:
    """Join loaded networks (`networks.load`) under a name; smaller inputs are made from the largest one's pixels."""
    networks, metadata = zip(*parts)
    return Joined(networks, metadata), network_metadata(
        name,
        "join others",
        backbone="+".join(one["backbone"] for one in metadata),
        dim=sum(one["dim"] for one in metadata),
        weights=joined_weights([one["weights"] for one in metadata]),
        size=max(one["size"] for one in metadata),
        mean=[0.0] * 3,
        std=[1.0] * 3,
        dataset="+".join(dict.fromkeys(one["dataset"] for one in metadata)),
        trained_on=" and ".join(dict.fromkeys(str(one["trained_on"]) for one in metadata)),
        engine=metadata[0]["engine"],
        model=name,
    )
