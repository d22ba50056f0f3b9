"""LEO. Rusu, Rao, Sygnowski, Vinyals, Pascanu, Osindero, Hadsell: Meta-Learning with Latent Embedding Optimization
(ICLR 2019).

Axes: E episodes, S support rows, W classes, Z = 64 latent dimensions, D dimensions of a row.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise, Parts, dropout
from protoadapt.core.methods.common import class_means

LATENT = 64
_STEPS = 5
_DROPPED = 0.5
DIVERGENCE = 1e-3
ENCODING = 1e-9
ORTHOGONALITY = 1e-3
DECAY = 1e-8


class LEO(EpisodeHead):
    """The weights of a linear classifier are decoded from one latent code per class, and adapted there:

        z_c ~ N(μ_c, σ_c²), the mean over pairs of rows of relation(encode(x_i), encode(x_j))
        five steps on the support's loss in z, w_c ~ N(decode(z_c)), then five in w;  logits = w · x

    Rows have unit length. Steps have learned rates per dimension. At inference means take the place of samples. Labels
    enter as the mean over a class alone, so the way is free. Samples are drawn once per class, as in the paper; the
    authors' code draws one per support row.
    """

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.encode = nn.Linear(shape.dim, LATENT, bias=False)
        self.decode = nn.Linear(LATENT, 2 * shape.dim, bias=False)
        self.relate = nn.ModuleList(nn.Linear(2 * LATENT, 2 * LATENT, bias=False) for _ in range(3))
        self.latent_rate = nn.Parameter(torch.ones(LATENT))
        self.weight_rate = nn.Parameter(torch.full((shape.dim,), 1e-3))

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return self.adapt(support, membership, query, noise)[0]

    def adapt(
        self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None
    ) -> tuple[Tensor, list[Any]]:
        """The logits (E, Q, W) of the adapted classifier, and the penalties () of the training loss."""
        learning = torch.is_grad_enabled()
        rows = F.normalize(support, dim=-1)
        per_class = membership.sum(1).clamp_min(1)[..., None]  # (E, W, 1)

        def logits(weights: Tensor, x: Tensor) -> Tensor:
            return dropout(x, _DROPPED, noise) @ weights.mT

        def slope(weights: Tensor, of: Tensor) -> Tensor:
            """Gradient of the support's summed loss, divided by the rows of each class."""
            loss = -(membership * logits(weights, rows).log_softmax(-1)).sum()
            return torch.autograd.grad(loss, of, create_graph=learning)[0] / per_class

        with torch.enable_grad():
            start, divergence = sample(self._codes(rows, membership, noise), 0.0, noise)
            z = start if start.requires_grad else start.requires_grad_()
            fan = (2 / (support.shape[-1] + membership.shape[-1])) ** 0.5
            weights = sample(self.decode(z), fan, noise)[0]
            for _ in range(_STEPS):
                z = z - self.latent_rate * slope(weights, z)
                weights = sample(self.decode(z), fan, noise)[0]
            for _ in range(_STEPS):
                weights = weights - self.weight_rate * slope(weights, weights)
        decoder = F.normalize(self.decode.weight.T, dim=-1)  # (Z, 2D)
        crossing = (decoder @ decoder.T - torch.eye(LATENT, dtype=decoder.dtype, device=decoder.device)).square().mean()
        size = sum(p.square().sum() for p in (self.encode.weight, self.decode.weight, *self.relate.parameters())) / 2
        moved = (z.detach() - start).square().mean()
        penalties = [DIVERGENCE * divergence, ENCODING * moved, ORTHOGONALITY * crossing, DECAY * size]
        return logits(weights, F.normalize(query, dim=-1)), penalties

    def _codes(self, rows: Tensor, membership: Tensor, noise: Noise) -> Tensor:
        """Parameters (E, W, 2Z) of the codes' distributions."""
        codes = self.encode(dropout(rows, _DROPPED, noise))
        n = codes.shape[1]
        left, right = codes[:, :, None].expand(-1, -1, n, -1), codes[:, None].expand(-1, n, -1, -1)
        h = torch.cat([left, right], -1)
        for number, layer in enumerate(self.relate):
            h = layer(torch.relu(h) if number else h)
        return class_means(h.mean(2), membership)

    def train_step(
        self, parts: Parts, targets: Tensor, smoothing: float = 0.0, noise: Noise = None
    ) -> tuple[Tensor, Tensor]:
        logits, penalties = self.adapt(*parts, noise)
        return logits, sum(penalties, self.loss(logits, targets, smoothing))


def sample(parameters: Tensor, offset: float, noise: Noise) -> tuple[Tensor, Tensor]:
    """A sample of N(mean, σ²), σ = exp(spread) − 1 + offset, and its log-density less that of N(0, 1), averaged.

    Without noise: the mean, and 0."""
    mean, spread = parameters.chunk(2, -1)
    if noise is None:
        return mean, mean.new_zeros(())
    sigma = (spread.exp() - 1 + offset).clamp_min(1e-10)
    drawn = torch.randn(mean.shape, generator=noise, device=mean.device)
    value = mean + sigma * drawn
    return value, (0.5 * value.square() - 0.5 * drawn.square() - sigma.log()).mean()
