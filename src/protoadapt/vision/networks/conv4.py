"""Conv-4, the small network of Vinyals et al. (2016) and Snell et al. (2017), for small pictures and quick tests."""

from itertools import pairwise

from torch import nn

from protoadapt.vision.networks.staged import Stage, Staged, conv


def conv4(width: int = 64) -> Staged:
    """Build 4 stages of 3×3 conv, BN, ReLU and 2×2 max-pool with `width` channels each; D = width.

    The feature is the mean over positions (the papers flatten them), so it does not grow with the picture.
    Needs at least 16 pixels per side.
    """
    widths = [3, width, width, width, width]
    stages = [
        Stage(conv(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))
        for inputs, outputs in pairwise(widths)
    ]
    return Staged(stages, dim=width)
