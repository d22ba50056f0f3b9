"""Networks: images (B, 3, H, W) → non-negative features (B, D). One network, one file."""

from collections.abc import Callable
from functools import partial

from protoadapt.core.errors import UserError, unknown
from protoadapt.vision.networks.conv4 import conv4
from protoadapt.vision.networks.resnet12 import resnet12
from protoadapt.vision.networks.resnet18 import resnet18
from protoadapt.vision.networks.staged import Staged, initialise
from protoadapt.vision.networks.timm_features import TimmFeatures, timm_features
from protoadapt.vision.networks.wrn import wrn_28_10

BACKBONES: dict[str, Callable[..., Staged]] = {
    "conv4": conv4,
    "resnet12": resnet12,
    "resnet12-tiny": partial(resnet12, width=16),
    "resnet18": resnet18,
    "wrn-28-10": wrn_28_10,
}


def build(name: str, width: int | None = None) -> Staged:
    """The backbone `name`; `width` replaces the channels of its first stage, and the later ones in proportion."""
    if name not in BACKBONES:
        raise unknown("backbone", name, BACKBONES)
    if width is None:
        return BACKBONES[name]()
    if not 1 <= width <= 4096:
        raise UserError(f"width is {width}: the first stage has 1 to 4096 channels")
    return BACKBONES[name](width=width)


__all__ = ["BACKBONES", "Staged", "TimmFeatures", "build", "initialise", "timm_features"]
