"""ResNet-18 (He et al. 2016) in its form for 84-pixel pictures (as in SimpleShot, Wang et al. 2019)."""

import torch
from torch import Tensor, nn

from protoadapt.vision.networks.staged import Stage, Staged, conv


class Block(nn.Module):
    """Two 3×3 conv-BN and a shortcut, which is a 1×1 conv-BN where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


def resnet18(width: int = 64) -> Staged:
    """Build 4 stages of two blocks, width to 8·width channels; 512-d and 11.2 M parameters at width 64.

    The stem is one 3×3 convolution of stride 1 without max-pool, since 84 pixels are too few to downsample early;
    it belongs to the first stage.
    """
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    stages = [
        Stage(Block(inputs, outputs, stride), Block(outputs, outputs, 1))
        for inputs, outputs, stride in zip(widths, widths[1:], (1, 2, 2, 2))
    ]
    stem = nn.Sequential(conv(3, width, 3), nn.BatchNorm2d(width), nn.ReLU())
    return Staged([Stage(stem, stages[0]), *stages[1:]], dim=widths[-1])
