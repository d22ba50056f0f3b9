"""Wide residual network WRN-28-10 (Zagoruyko and Komodakis 2016), the large network of the few-shot literature."""

import torch
from torch import Tensor, nn

from protoadapt.vision.networks.staged import Stage, Staged, conv


class Block(nn.Module):
    """BN and ReLU before each of two 3×3 convolutions; a 1×1 convolution as shortcut where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv(inputs, outputs, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv(outputs, outputs, 3)
        self.shortcut = None if inputs == outputs and stride == 1 else conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.bn1(x))
        # A shortcut that changes the shape starts after the activation, as in the authors' code.
        rest = x if self.shortcut is None else self.shortcut(h)
        return rest + self.conv2(torch.relu(self.bn2(self.conv1(h))))


def wrn_28_10(width: int = 160) -> Staged:
    """Build 3 stages of four blocks, width to 4·width channels; 640-d and 36.5 M parameters at width 160.

    The stem (3×3, 16 channels) belongs to the first stage, the last BN and ReLU to the third, so that features are
    non-negative.
    """
    widths = [16, width, 2 * width, 4 * width]
    groups = [
        Stage(Block(inputs, outputs, stride), *(Block(outputs, outputs, 1) for _ in range(3)))
        for inputs, outputs, stride in zip(widths, widths[1:], (1, 2, 2))
    ]
    last = Stage(groups[2], nn.BatchNorm2d(widths[-1]), nn.ReLU())
    return Staged([Stage(conv(3, 16, 3), groups[0]), groups[1], last], dim=widths[-1])
