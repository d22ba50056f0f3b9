"""ResNet-12, the network of the few-shot literature (Oreshkin et al. 2018, TADAM; Lee et al. 2019, MetaOptNet)."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from protoadapt.vision.networks.staged import Staged, conv


class Block(nn.Module):
    """Three 3×3 conv-BN with ReLU between, a 1×1 conv-BN shortcut, ReLU after the sum, 2×2 max-pool."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv3, self.bn3 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.shortcut, self.shortcut_bn = conv(inputs, outputs, 1), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.bn1(self.conv1(x)))
        h = torch.relu(self.bn2(self.conv2(h)))
        h = self.bn3(self.conv3(h)) + self.shortcut_bn(self.shortcut(x))
        return nn.functional.max_pool2d(torch.relu(h), 2)


def resnet12(width: int = 64) -> Staged:
    """Build 4 blocks of width, 2·width, 4·width and 8·width channels; 512-d and 7.99 M parameters at width 64.

    Plain ReLU, no dropblock. Needs at least 16 pixels per side.
    """
    widths = [3, width, 2 * width, 4 * width, 8 * width]
    return Staged([Block(*pair) for pair in pairwise(widths)], dim=widths[-1])
