"""TPN. Liu, Lee, Park, Kim, Yang, Hwang, Yang: Learning to Propagate Labels (ICLR 2019)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise, Parts
from protoadapt.core.methods.common import sq_distances

NEIGHBOURS = 20
ALPHA = 0.99
CHANNELS = 64
EPS = 1e-12


class TPN(EpisodeHead):
    """Labels spread over a graph of all rows of an episode, whose scale σ a small network gives to each row:

        W_ij = exp(−½ mean_d (f_id/σ_i − f_jd/σ_j)²), kept where i or j is among the other's 20 nearest
        F = (I − 0.99 S)⁻¹ Y,   S = D^−½ W D^−½

    Rows are the un-pooled features; the cross-entropy is over support and queries. Row i counts among its own nearest,
    and W has loops, as in the authors' code. Transductive.
    """

    places = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.first, self.norm1 = nn.Conv2d(shape.dim, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS)
        self.second, self.norm2 = nn.Conv2d(CHANNELS, 1, 3, padding=1, bias=False), nn.BatchNorm2d(1)
        side = (shape.side // 2 + 1) // 2 + 1
        self.hidden, self.out = nn.Linear(side**2, 8), nn.Linear(8, 1)

    def scale(self, rows: Tensor) -> Tensor:
        """σ (E, N, 1) of rows (E, N, C · side²)."""
        h = self.maps(rows).flatten(0, 1)
        h = F.max_pool2d(torch.relu(self.norm1(self.first(h))), 2, padding=1)
        h = F.max_pool2d(torch.relu(self.norm2(self.second(h))), 2, padding=1)
        return self.out(torch.relu(self.hidden(h.flatten(1)))).unflatten(0, rows.shape[:2])

    def spread(self, support: Tensor, membership: Tensor, query: Tensor) -> Tensor:
        """F (E, S + Q, W)."""
        rows = torch.cat([support, query], 1)
        sigma = self.scale(rows)
        rows = rows / torch.where(sigma.abs() > EPS, sigma, EPS)
        W = (-0.5 * sq_distances(rows, rows) / rows.shape[-1]).exp()
        last = W.detach().topk(min(NEIGHBOURS, W.shape[1])).values[..., -1:]
        near = W.detach() >= last  # rows that tie with the last are all kept
        W = W * (near | near.mT)
        degree = W.sum(-1).clamp_min(EPS).rsqrt()
        S = degree[..., None] * W * degree[:, None]
        itself = torch.eye(S.shape[1], dtype=S.dtype, device=S.device)
        known = F.pad(membership, (0, 0, 0, query.shape[1]))
        return torch.linalg.solve_ex(itself - ALPHA * S, known)[0]

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return self.spread(support, membership, query)[:, support.shape[1] :]

    def train_step(
        self, parts: Parts, targets: Tensor, smoothing: float = 0.0, noise: Noise = None
    ) -> tuple[Tensor, Tensor]:
        support, membership, _ = parts
        spread = self.spread(*parts)
        every = torch.cat([membership.argmax(-1), targets], 1)
        return spread[:, support.shape[1] :], self.loss(spread, every, smoothing)
