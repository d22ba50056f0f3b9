"""Heads that compare a query with what a class looks like, in a space that is learned for it."""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, Film, HeadShape, Noise, dropout
from protoadapt.core.methods.common import class_means, sq_distances
from protoadapt.core.methods.inductive import label_attention


class MatchingNet(EpisodeHead):
    """Each query takes the labels of the support rows it resembles; `methods.inductive.matching_net` with its gradient.

    Without full context embeddings there is nothing to learn but the backbone.

    Vinyals, Blundell, Lillicrap, Kavukcuoglu, Wierstra: Matching Networks (NeurIPS 2016).
    """

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        support, query = F.normalize(support, dim=-1), F.normalize(query, dim=-1)
        return (label_attention(support, membership, query) + 1e-6).log()


class MatchingNetFCE(MatchingNet):
    """With full context embeddings: support rows see each other, and a query looks at them, before they are compared.

    A support row s is g(s) = s + the outputs of an LSTM that reads the support forwards and of one that reads it
    backwards. A query f is read S times by an LSTM whose input is [f; what it attends to among the g], from h = f:

        a = softmax(h · g)        h, c ← LSTM([f; Σ a g], (h, c))        h ← h + f

    The support is read in its order, so another order gives another answer.
    """

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.reader = nn.LSTM(shape.dim, shape.dim, batch_first=True, bidirectional=True)
        self.looker = nn.LSTMCell(2 * shape.dim, shape.dim)

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        forwards, backwards = self.reader(support)[0].chunk(2, -1)
        support = support + forwards + backwards
        f, h, c = query, query, torch.zeros_like(query)
        for _ in range(support.shape[1]):
            seen = (h @ support.mT).softmax(-1) @ support
            state = self.looker(torch.cat([f, seen], -1).flatten(0, 1), (h.flatten(0, 1), c.flatten(0, 1)))
            h, c = (part.unflatten(0, f.shape[:2]) for part in state)
            h = h + f
        return super().forward(support, membership, h)


_HIDDEN = 8


class RelationNet(EpisodeHead):
    """A small network learns to compare the maps of a query with those of a class, the mean of its support:

        [prototype; query] → 2 × (3×3 conv, BatchNorm, ReLU, 2×2 max-pool) → 8 units, ReLU → sigmoid

    Its relations r in (0, 1) take the place of logits, and are regressed on 1 for the own class and 0 for others.

    Sung, Yang, Zhang, Xiang, Torr, Hospedales: Learning to Compare (CVPR 2018).
    """

    places = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        dim = shape.dim
        self.first = nn.Conv2d(2 * dim, dim, 3, padding=1, bias=False)
        self.second = nn.Conv2d(dim, dim, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(dim), nn.BatchNorm2d(dim)
        side = _pooled(_pooled(shape.side))
        self.hidden, self.out = nn.Linear(dim * side**2, _HIDDEN), nn.Linear(_HIDDEN, 1)

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


_TEMPERATURE = 64.0
_DROPPED = 0.5
ATTENTION_DROPPED = 0.1


class FEAT(EpisodeHead):
    """Prototypes look at each other before queries are compared with them:

        p′ = LayerNorm(p + drop(W_o softmax(Q Kᵀ/√D) V)),   Q, K, V = W_q p, W_k p, W_v p
        logits = −‖q − p′‖² / 64

    One attention head; dropout of 0.1 on the attention and 0.5 on its output while training.

    Ye, Hu, Zhan, Sha: Few-Shot Learning via Embedding Adaptation with Set-to-Set Functions (CVPR 2020).
    """

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.q, self.k, self.v = (nn.Linear(shape.dim, shape.dim, bias=False) for _ in range(3))
        self.out, self.norm = nn.Linear(shape.dim, shape.dim), nn.LayerNorm(shape.dim)

    def adapt(self, rows: Tensor, noise: Noise = None) -> Tensor:
        """Rows (…, n, D) after attention among the n of a set."""
        weights = (self.q(rows) @ self.k(rows).mT / rows.shape[-1] ** 0.5).softmax(-1)
        seen = dropout(weights, ATTENTION_DROPPED, noise) @ self.v(rows)
        return self.norm(rows + dropout(self.out(seen), _DROPPED, noise))

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return -sq_distances(query, self.adapt(class_means(support, membership), noise)) / _TEMPERATURE


LAYERS = 3
_PENALTY = 0.01
_SCALE = 1 / 64


class TADAM(EpisodeHead):
    """Prototypes with a learned scale, in a network that is conditioned on the episode:

        t = mean over classes of the prototypes, embedded without conditions
        h ← (1 + γ) h + β after every BatchNorm but the shortcuts',  γ = γ₀ g(t),  β = β₀ b(t)
        logits = −s ‖q − p‖²

    g and b have three linear layers each, with ReLU between and a shortcut around each but the first; γ₀ and β₀ are
    learned from 0 with a weight decay of 0.01. So rows depend on the episode: the network is run again for each one,
    from pictures (`as_method`). The co-task of the authors, classification of the base classes, is the
    objective ce of the same phase, on rows without conditions.

    Oreshkin, Rodríguez López, Lacoste: Task Dependent Adaptive Metric for Improved Few-Shot Learning (NeurIPS
    2018).
    """

    conditions = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.scale = nn.Parameter(torch.tensor(_SCALE))
        self.gamma, self.beta = (
            nn.ModuleList(nn.ModuleList(_layers(shape.dim, channels)) for channels in shape.channels) for _ in range(2)
        )
        self.gamma_size, self.beta_size = (nn.Parameter(torch.zeros(len(shape.channels))) for _ in range(2))

    def film(self, support: Tensor, membership: Tensor) -> list[Film]:
        task = class_means(support, membership).mean(1)  # (E, D)
        sizes = zip(self.gamma, self.gamma_size, self.beta, self.beta_size)
        return [(a * _answer(gamma, task), b * _answer(beta, task)) for gamma, a, beta, b in sizes]  # type: ignore[arg-type]

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return -self.scale * sq_distances(query, class_means(support, membership))

    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        sizes = self.gamma_size.square().sum() + self.beta_size.square().sum()
        return super().loss(logits, targets, smoothing) + _PENALTY / 2 * sizes


def _layers(dim: int, channels: int) -> list[nn.Linear]:
    return [nn.Linear(a, b) for a, b in pairwise([dim] + [channels] * LAYERS)]


def _answer(layers: Sequence[nn.Linear], task: Tensor) -> Tensor:
    h = layers[0](task)
    for layer in layers[1:]:
        h = torch.relu(h)
        h = h + layer(h)
    return h
