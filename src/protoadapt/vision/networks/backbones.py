"""Networks that can be trained: they stop and resume at every mixing layer. BACKBONES lists those with a name.

Mixing layer 0 is the input; mixing layer l is the output of stage l, for l = 1 … L. For every l,

    forward(x) = generalised_mean(maps_from(forward_to(x, l), l), 1)

so that hidden features can be mixed anywhere, as Manifold Mixup and HCT do.
Axes: B images, C channels, H and W pixels, D feature dimensions.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from protoadapt.core.errors import no_such, whole_number

Drop = Callable[[Tensor], Tensor]
"""What training does to the hidden features of the last two stages: `drop_blocks`."""


class Staged(nn.Module):
    """A sequence of stages, then a mean over all positions. Features are non-negative: the last stage ends in ReLU."""

    def __init__(self, stages: Iterable[nn.Module], dim: int):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.dim = dim

    def forward_to(self, h: Tensor, layer: int, drop: Drop | None = None, start: int = 0) -> Tensor:
        """Images (B, 3, H, W), or hidden features at mixing layer `start`, to those (B, C, H', W') at `layer`."""
        for number in range(start, layer):
            h = self.stages[number](h)
            if drop and number >= len(self.stages) - 2:
                h = drop(h)
        return h

    def maps_from(self, h: Tensor, layer: int, drop: Drop | None = None) -> Tensor:
        """Hidden features at mixing layer `layer` to those of the last stage (B, D, H', W')."""
        return self.forward_to(h, len(self.stages), drop, layer)

    def forward(self, x: Tensor, pooling: float = 1.0) -> Tensor:
        """Images to features (B, D), float32 whatever the stages compute in."""
        return generalised_mean(self.maps_from(x, 0), pooling)


def generalised_mean(h: Tensor, exponent: float) -> Tensor:
    """(mean of h^p)^(1/p) over all positions of h ≥ 0, (B, C, H, W) → (B, C): the larger p, the more strong positions
    count (Radenović et al. 2018)."""
    if exponent == 1:
        return h.mean((2, 3), dtype=torch.float32)
    return h.float().pow(exponent).mean((2, 3)).pow(1 / exponent)


class Stage(nn.Sequential):
    """A sequence of modules. `torch.compile` skips the `forward` of nn.Sequential, so a stage has its own."""

    def forward(self, x: Tensor) -> Tensor:
        for module in self:
            x = module(x)
        return x


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size (at stride 1) and has no bias, since a BatchNorm follows."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


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
    whole_number("width", width, 1, 4096)
    return BACKBONES[name](width=width)


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every weight of `module` from `generator`: He et al. (2015) for convolutions, uniform ±1/√D for linear
    layers and LSTMs."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(part, nn.Linear):
            bound = part.in_features**-0.5
            nn.init.uniform_(part.weight, -bound, bound, generator=generator)
            if part.bias is not None:
                nn.init.uniform_(part.bias, -bound, bound, generator=generator)
        elif isinstance(part, nn.LSTM | nn.LSTMCell):
            for weight in part.parameters():
                nn.init.uniform_(weight, -(part.hidden_size**-0.5), part.hidden_size**-0.5, generator=generator)


def drop_blocks(h: Tensor, share: float, generator: torch.Generator, side: int = 5) -> Tensor:
    """DropBlock (Ghiasi et al. 2018): dropout of squares, as the neighbours of a single zero would reveal it.

    Sets squares of `side` positions of h (B, C, H, W) to 0, others in every channel, and scale the rest to keep the
    mean. A corner is drawn with probability γ, such that about `share` of all positions is hit:

        γ · side² · (H − side + 1)(W − side + 1) = share · H · W

    On maps no larger than a square (ResNet-12's last at 84 pixels) whole channels are dropped. `generator` must be on
    the device of h.
    """
    side = min(side, *h.shape[2:])
    free = [n - side + 1 for n in h.shape[2:]]
    gamma = share * h.shape[2] * h.shape[3] / (side * side * free[0] * free[1])
    corners = torch.rand((*h.shape[:2], *free), generator=generator, device=h.device) < gamma
    hit = nn.functional.max_pool2d(nn.functional.pad(corners.to(h.dtype), [side - 1] * 4), side, stride=1)
    kept = 1 - hit
    return h * kept * (kept.numel() / kept.sum(dtype=torch.float32).clamp_min(1)).to(h.dtype)
