"""The networks that protoadapt trains: images (B, 3, H, W) → non-negative features (B, D). BACKBONES lists them."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, no_such
from protoadapt.vision.networks.staged import Stage, Staged, conv, initialise

__all__ = ["BACKBONES", "Staged", "build", "initialise"]


def conv4(width: int = 64) -> Staged:
    """Conv-4 (Vinyals et al. 2016; Snell et al. 2017), for small pictures and quick tests.

    4 stages of 3×3 conv, BN, ReLU and 2×2 max-pool with `width` channels each; D = width.

    The feature is the mean over positions (the papers flatten them), so it does not grow with the picture.
    Needs at least 16 pixels per side.
    """
    widths = [3, width, width, width, width]
    stages = [
        Stage(conv(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))
        for inputs, outputs in pairwise(widths)
    ]
    return Staged(stages, dim=width)


class ResNet12Block(nn.Module):
    """Three 3×3 conv-BN with ReLU between, a 1×1 conv-BN shortcut, ReLU after the sum, 2×2 max-pool."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv3, self.bn3 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.shortcut, self.shortcut_bn = conv(inputs, outputs, 1), nn.BatchNorm2d(outputs)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.bn1(self.conv1(x)))
        h = torch.relu(self.bn2(self.conv2(h)))
        h = self.bn3(self.conv3(h)) + self.shortcut_bn(self.shortcut(x))
        return self.pool(torch.relu(h))


def resnet12(width: int = 64, growth: Sequence[float] = (1, 2, 4, 8)) -> Staged:
    """ResNet-12, the network of the few-shot literature (Oreshkin et al. 2018, TADAM; Lee et al. 2019, MetaOptNet).

    4 blocks of width, 2·width, 4·width and 8·width channels (`growth`); 512-d and 7.99 M parameters at width 64. The
    wide one of most results since MetaOptNet grows by 1, 5/2, 5 and 10: 640-d and 12.4 M parameters.

    Plain ReLU, no dropblock. Needs at least 16 pixels per side.
    """
    widths = [3, *(int(factor * width) for factor in growth)]
    return Staged([ResNet12Block(*pair) for pair in pairwise(widths)], dim=widths[-1])


BACKBONES: dict[str, Callable[..., Staged]] = {
    "conv4": conv4,
    "resnet12": resnet12,
    "resnet12-wide": partial(resnet12, growth=(1, 2.5, 5, 10)),
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
