"""The networks that protoadapt trains: images (B, 3, H, W) → non-negative features (B, D). One file per network."""

from collections.abc import Callable
from functools import partial

from protoadapt.core.errors import UserError, no_such
from protoadapt.vision.networks.conv4 import conv4
from protoadapt.vision.networks.resnet12 import resnet12
from protoadapt.vision.networks.resnet18 import resnet18
from protoadapt.vision.networks.staged import Staged, initialise
from protoadapt.vision.networks.wrn import wrn_28_10

BACKBONES: dict[str, Callable[..., Staged]] = {
    "conv4": conv4,
    "resnet12": resnet12,
    "resnet12-tiny": partial(resnet12, width=16),
    "resnet18": resnet18,
    "wrn-28-10": wrn_28_10,
}


def build(name: str, width: int | None = None) -> Staged:
    """Build a backbone with random weights; `width` is the channels of its first stage, which the later ones follow."""
    if name not in BACKBONES:
        raise no_such("backbone", name, BACKBONES)
    if width is None:
        return BACKBONES[name]()
    if not 1 <= width <= 4096:
        raise UserError(f"width is {width}: give 1 to 4096 channels for the first stage")
    return BACKBONES[name](width=width)


__all__ = ["BACKBONES", "Staged", "build", "initialise"]
