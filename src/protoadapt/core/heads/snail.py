"""SNAIL. Mishra, Rohaninejad, Chen, Abbeel: A Simple Neural Attentive Meta-Learner (ICLR 2018).

Axes: G = E · Q sequences, one per query, of T = S + 1 steps: the support, then the query.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise

FILTERS = 128
ATTENTION = ((64, 32), (256, 128), (512, 256))
"""Size of keys and of values of the three attention blocks."""


class Attention(nn.Module):
    """[x; softmax(q kᵀ/√d) v] of a sequence (G, T, n): each step looks at itself and those before it."""

    def __init__(self, inputs: int, keys: int, values: int):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(inputs, keys), nn.Linear(inputs, keys), nn.Linear(inputs, values)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).mT / self.k.out_features**0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return torch.cat([x, scores.masked_fill(later, -torch.inf).softmax(-1) @ self.v(x)], -1)


class TemporalConvolution(nn.Module):
    """Layers x ← [x; tanh(f) · sigmoid(g)], f and g convolutions of steps t and t − 1, t − 2, t − 4, … of x."""

    def __init__(self, inputs: int, depth: int):
        super().__init__()
        sizes = [2 * (inputs + FILTERS * layer) for layer in range(depth)]
        self.f, self.g = (nn.ModuleList(nn.Linear(size, FILTERS) for size in sizes) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer, (f, g) in enumerate(zip(self.f, self.g)):
            before = F.pad(x, (0, 0, 2**layer, 0))[:, : x.shape[1]]
            both = torch.cat([before, x], -1)
            x = torch.cat([x, f(both).tanh() * g(both).sigmoid()], -1)
        return x


class SNAIL(EpisodeHead):
    """Attention and dilated convolutions over the sequence of (features, label), the query last and unlabelled.

    Three attention blocks with two stacks of ⌈log₂ T⌉ gated convolutions between them, then a linear layer at the
    query. The support is read class by class. Labels are inputs of learned layers and the depth follows from T, so it
    answers the way and shot it was trained with, and another order of classes may change its answer.
    """

    fixed_way = fixed_shot = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        depth = math.ceil(math.log2(shape.way * shape.shot + 1))
        size, blocks = shape.dim + shape.way, []
        for number, (keys, values) in enumerate(ATTENTION):
            blocks.append(Attention(size, keys, values))
            size += values
            if number < len(ATTENTION) - 1:
                blocks.append(TemporalConvolution(size, depth))  # type: ignore[arg-type]
                size += depth * FILTERS
        self.blocks, self.out = nn.Sequential(*blocks), nn.Linear(size, shape.way)

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        by_class = membership.argmax(-1).argsort(dim=1, stable=True)[..., None]
        known = torch.cat([support, membership], -1).take_along_dim(by_class, 1)
        known = known[:, None].expand(-1, query.shape[1], -1, -1)
        last = F.pad(query, (0, membership.shape[-1]))[:, :, None]
        x = self.blocks(torch.cat([known, last], 2).flatten(0, 1))
        return self.out(x[:, -1]).unflatten(0, query.shape[:2])

    def episode_numbers(self, n_rows: int, n_way: int) -> int:
        return 4 * n_rows * (1 + n_way * self.shape.shot) * self.out.in_features
