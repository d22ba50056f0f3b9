"""Heads that pass labels along a graph of the rows of an episode.

Axes of `GNN`: G = E · Q graphs, one per query, of N = S + 1 nodes: the query first, then the support.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise, Parts
from protoadapt.core.methods.common import sq_distances
from protoadapt.core.methods.embedding_propagation import propagated_scores

EMBEDDED = 128
_HIDDEN = 96


class Adjacency(nn.Module):
    """A (G, N, N) of nodes (G, N, n): softmax over the other nodes of a four-layer network of |x_i − x_j|."""

    def __init__(self, inputs: int):
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in pairwise([inputs, 2 * _HIDDEN, 2 * _HIDDEN, _HIDDEN, _HIDDEN]):
            layers += [nn.Linear(a, b, bias=False), nn.BatchNorm1d(b), nn.LeakyReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(_HIDDEN, 1))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        apart = (x[:, :, None] - x[:, None]).abs().flatten(0, 2)
        itself = torch.eye(n, dtype=torch.bool, device=x.device)
        return self.layers(apart).view(-1, n, n).masked_fill(itself, -torch.inf).softmax(-1)


class GNN(EpisodeHead):
    """A graph network reads the support rows with their labels, and the query without:

        x = [features; label], 0 for the query's label        x ← [x; lrelu(BN(W [x; A x] + b))], twice
        logits = W′ [x; A x] + b′ at the query                A learned from the nodes before each layer

    Labels are inputs of a learned layer: it answers the number of classes it was trained with, and its answer may
    change where classes are renamed. Rows are first mapped to 128 dimensions, as many as the authors' embedding has.

    Garcia, Bruna: Few-Shot Learning with Graph Neural Networks (ICLR 2018).
    """

    fixed_way = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.embed, self.norm = nn.Linear(shape.dim, EMBEDDED, bias=False), nn.BatchNorm1d(EMBEDDED)
        sizes = [EMBEDDED + shape.way + _HIDDEN // 2 * layer for layer in range(3)]
        self.adjacency = nn.ModuleList(Adjacency(size) for size in sizes)
        self.layers = nn.ModuleList(nn.Linear(2 * size, _HIDDEN // 2, bias=False) for size in sizes[:2])
        self.norms = nn.ModuleList(nn.BatchNorm1d(_HIDDEN // 2) for _ in sizes[:2])
        self.out = nn.Linear(2 * sizes[2], shape.way)

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        rows = torch.cat([query, support], 1)
        rows = self.norm(self.embed(rows).flatten(0, 1)).unflatten(0, rows.shape[:2])
        queries, known = rows.split([query.shape[1], support.shape[1]], 1)
        known = torch.cat([known, membership], -1)[:, None].expand(-1, query.shape[1], -1, -1)
        nodes = torch.cat([F.pad(queries, (0, membership.shape[-1]))[:, :, None], known], 2)
        x = nodes.flatten(0, 1)  # (G, N, n)
        for adjacency, layer, norm in zip(self.adjacency, self.layers, self.norms):
            h = layer(torch.cat([x, adjacency(x) @ x], -1))
            x = torch.cat([x, F.leaky_relu(norm(h.flatten(0, 1)).view_as(h))], -1)
        answer = self.out(torch.cat([x, self.adjacency[2](x) @ x], -1)[:, 0])
        return answer.unflatten(0, query.shape[:2])

    def episode_numbers(self, n_rows: int, n_way: int) -> int:
        nodes = 1 + n_way * max(self.shape.shot, 5)
        return 4 * n_rows * nodes**2 * 2 * _HIDDEN


_NEIGHBOURS = 20
ALPHA = 0.99
CHANNELS = 64
EPS = 1e-12


class TPN(EpisodeHead):
    """Labels spread over a graph of all rows of an episode, whose scale σ a small network gives to each row:

        W_ij = exp(−½ mean_d (f_id/σ_i − f_jd/σ_j)²), kept where i or j is among the other's 20 nearest
        F = (I − 0.99 S)⁻¹ Y,   S = D^−½ W D^−½

    Rows are the un-pooled features; the cross-entropy is over support and queries. Row i counts among its own nearest,
    and W has loops, as in the authors' code. Transductive.

    Liu, Lee, Park, Kim, Yang, Hwang, Yang: Learning to Propagate Labels (ICLR 2019).
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
        last = W.detach().topk(min(_NEIGHBOURS, W.shape[1])).values[..., -1:]
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


class EPNet(EpisodeHead):
    """Label propagation over propagated embeddings; `methods.embedding_propagation` with its gradient.

    It has no parameters: training shapes the backbone.

    Rodríguez, Laradji, Drouin, Lacoste: Embedding Propagation (ECCV 2020).
    """

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return (propagated_scores(support, membership, query) + 1e-6).log()
