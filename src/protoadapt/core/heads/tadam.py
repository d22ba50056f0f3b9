"""TADAM. Oreshkin, Rodríguez López, Lacoste: Task Dependent Adaptive Metric for Improved Few-Shot Learning (NeurIPS
2018)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, Film, HeadShape, Noise
from protoadapt.core.methods.common import class_means, sq_distances

LAYERS = 3
PENALTY = 0.01
SCALE = 1 / 64


class TADAM(EpisodeHead):
    """Prototypes with a learned scale, in a network that is conditioned on the episode:

        t = mean over classes of the prototypes, embedded without conditions
        h ← (1 + γ) h + β after every BatchNorm but the shortcuts',  γ = γ₀ g(t),  β = β₀ b(t)
        logits = −s ‖q − p‖²

    g and b have three linear layers each, with ReLU between and a shortcut around each but the first; γ₀ and β₀ are
    learned from 0 with a weight decay of 0.01. So rows depend on the episode: the network is run again for each one,
    from pictures (`as_method`). The co-task of the authors, classification of the base classes, is the
    objective ce of the same phase, on rows without conditions.
    """

    conditions = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.scale = nn.Parameter(torch.tensor(SCALE))
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
        return super().loss(logits, targets, smoothing) + PENALTY / 2 * sizes


def _layers(dim: int, channels: int) -> list[nn.Linear]:
    return [nn.Linear(a, b) for a, b in pairwise([dim] + [channels] * LAYERS)]


def _answer(layers: Sequence[nn.Linear], task: Tensor) -> Tensor:
    h = layers[0](task)
    for layer in layers[1:]:
        h = torch.relu(h)
        h = h + layer(h)
    return h
