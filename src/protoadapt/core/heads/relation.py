"""RelationNet. Sung, Yang, Zhang, Xiang, Torr, Hospedales: Learning to Compare (CVPR 2018)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise
from protoadapt.core.methods.common import class_means

HIDDEN = 8


class RelationNet(EpisodeHead):
    """A small network learns to compare the maps of a query with those of a class, the mean of its support:

        [prototype; query] → 2 × (3×3 conv, BatchNorm, ReLU, 2×2 max-pool) → 8 units, ReLU → sigmoid

    Its relations r in (0, 1) take the place of logits, and are regressed on 1 for the own class and 0 for others.
    """

    places = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        dim = shape.dim
        self.first = nn.Conv2d(2 * dim, dim, 3, padding=1, bias=False)
        self.second = nn.Conv2d(dim, dim, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(dim), nn.BatchNorm2d(dim)
        side = _pooled(_pooled(shape.side))
        self.hidden, self.out = nn.Linear(dim * side**2, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        # The convolution of [prototype; query] is the sum of one of each, so that none is done twice.
        of_class, of_query = self.first.weight.chunk(2, 1)
        classes = _conv(self.maps(class_means(support, membership)), of_class)[:, None]  # (E, 1, W, C, H, H)
        queries = _conv(self.maps(query), of_query)[:, :, None]  # (E, Q, 1, C, H, H)
        h = _pool(torch.relu(self.norm1((classes + queries).flatten(0, 2))))
        h = _pool(torch.relu(self.norm2(self.second(h))))
        scores = self.out(torch.relu(self.hidden(h.flatten(1))))
        return scores.sigmoid().view(len(query), query.shape[1], -1)

    def episode_numbers(self, n_rows: int, n_way: int) -> int:
        return 4 * n_rows * n_way * self.shape.dim * self.shape.side**2

    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        return F.mse_loss(logits, F.one_hot(targets, logits.shape[-1]).to(logits))


def _conv(maps: Tensor, weight: Tensor) -> Tensor:
    """A 3×3 convolution of maps (E, n, C, H, H)."""
    return F.conv2d(maps.flatten(0, 1), weight, padding=1).unflatten(0, maps.shape[:2])


def _pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2) if x.shape[-1] > 1 else x


def _pooled(side: int) -> int:
    return max(side // 2, 1)
