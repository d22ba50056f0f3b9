"""TIM. Boudiaf, Masud, Rony, Dolz, Piantanida, Ben Ayed: Transductive Information Maximization (NeurIPS 2020).

Class weights w, started at the support means, give p = softmax(−τ/2 ‖z − w‖²) on unit rows z. They minimise

    λ₀ · cross-entropy(support) − λ₁ · H(Y) + λ₂ · H(Y|X),

H(Y) the entropy of the queries' mean p, H(Y|X) the mean entropy of their p. The first of these two is largest when all
classes are equally frequent among the queries: TIM assumes balance, and loses when it is absent (α-TIM less so).
Axes: E episodes, W classes, S support rows, Q queries, N = S + Q, D.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import pad

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, class_means, transductive_only, unit
from protoadapt.core.methods.settings import LearningRate, LogitScale, LossWeights, Setting, Steps, checked

Order = Annotated[
    float | None,
    Setting("order α of the entropies, above 1; none: 2 with one shot, 5 with two to four, 7 with more", 1.001, 1e3),
]


@checked
def tim_gd(
    episodes: Episodes,
    *,
    n_iter: Steps = 1000,
    lr: LearningRate = 1e-4,
    temp: LogitScale = 15.0,
    weights: LossWeights = (0.1, 1.0, 0.1),
) -> Tensor:
    """The loss by n_iter steps of Adam; weights = (λ₀, λ₁, λ₂). Returns (E, Q, W)."""
    transductive_only(episodes, "TIM")
    return descend(episodes, None, n_iter, lr, temp, weights)


@checked
def tim_adm(
    episodes: Episodes,
    *,
    n_iter: Steps = 150,
    temp: LogitScale = 15.0,
    weights: LossWeights = (0.1, 1.0, 0.1),
) -> Tensor:
    """The loss by the alternating-direction method: auxiliary posteriors R, then w in closed form. Returns (E, Q, W).

    R ∝ P^(1+λ₂) / (Σ_Q P^(1+λ₂))^(λ₁/(1+λ₁)), and with targets T = (c₁ y, c₂ R) and masses M = (c₁ P, c₂ P) of the
    support rows and the queries

        w ← Σ_i (T_i z_i + M_i (w − z_i)) / Σ_i T_i,   c₁ = λ₀/(1+λ₂), c₂ = S/Q .

    w never leaves the span of the rows: w = A z with A (W, N), so z·zᵀ is all that is needed of them, and the update
    reads A ← (T − M + Σ_i M_i A) / Σ_i T_i.
    """
    transductive_only(episodes, "TIM")
    z, y = unit_rows(episodes)
    n_support, n_query = y.shape[-1], z.shape[1] - y.shape[-1]
    gram, A = z @ z.mT, pad(y / y.sum(-1, keepdim=True).clamp_min(TINY), (0, n_query))
    c1, c2 = weights[0] / (1 + weights[2]), n_support / n_query
    balance = weights[1] / (1 + weights[1])

    def log_p(A: Tensor) -> Tensor:
        """(E, W, N); ‖z‖² is the same for every class and drops out."""
        inner = A @ gram
        return (temp * (inner - (A * inner).sum(-1, keepdim=True) / 2)).log_softmax(1)

    scale = torch.cat([gram.new_full((n_support,), c1), gram.new_full((n_query,), c2)])
    T = pad(c1 * y, (0, n_query))
    for _ in range(n_iter):
        P = log_p(A)
        R = (1 + weights[2]) * P[..., n_support:]
        T[..., n_support:] = c2 * (R - balance * R.logsumexp(-1, keepdim=True)).softmax(1)
        M = scale * P.exp()
        A = (T - M + M.sum(-1, keepdim=True) * A) / T.sum(-1, keepdim=True)
    return log_p(A)[..., n_support:].exp().mT


@checked
def alpha_tim(
    episodes: Episodes,
    *,
    alpha: Order = None,
    n_iter: Steps = 1000,
    lr: LearningRate = 1e-4,
    temp: LogitScale = 15.0,
    weights: LossWeights = (1.0, 1.0, 1.0),
) -> Tensor:
    """α-TIM. Veilleux, Boudiaf, Piantanida, Ben Ayed: Realistic Evaluation of Transductive Few-Shot Learning (NeurIPS
    2021).

    TIM-GD whose two query entropies are H_α(p) = (1 − Σ p^α)/(α − 1). H_α(Y) is flatter around equal class sizes than
    Shannon's entropy, so they may differ; the cross-entropy stays Shannon's. Returns (E, Q, W).
    """
    transductive_only(episodes, "α-TIM")
    if alpha is None:
        shots = episodes.shots.mean(1)
        orders = torch.where(shots < 2, 2.0, torch.where(shots < 5, 5.0, 7.0)).to(episodes.rows)
    else:
        orders = episodes.rows.new_full((len(episodes),), alpha)
    return descend(episodes, orders, n_iter, lr, temp, weights)


def unit_rows(episodes: Episodes) -> tuple[Tensor, Tensor]:
    """z (E, N, D), the support's rows before the queries, and the classes y (E, W, S) of the support, one-hot."""
    episodes = episodes.each_row(unit)
    return torch.cat([episodes.support, episodes.query], 1), episodes.membership.mT


def descend(
    episodes: Episodes, orders: Tensor | None, n_iter: int, lr: float, temp: float, weights: Sequence[float]
) -> Tensor:
    """(E, Q, W): posteriors after n_iter steps of Adam on the loss, with entropies of `orders` (E); None: Shannon's.

    The gradient by hand: u = ∂loss/∂p passes through the softmax as g = p(u − Σ_c p_c u_c), and the logits
    τ(z·w − ‖w‖²/2) turn that into ∂loss/∂w_c = τ Σ_i g_ic (z_i − w_c). Episodes share no weight and Adam works element
    by element, so a batch is as many separate runs.
    """
    z, y = unit_rows(episodes)
    n_support, n_query = y.shape[-1], z.shape[1] - y.shape[-1]
    w = class_means(z[:, :n_support], y.mT)
    adam = torch.optim.Adam([w], lr=lr, fused=True)

    def posteriors() -> Tensor:
        """(E, W, N)"""
        return (temp * (w @ z.mT - w.square().sum(-1, keepdim=True) / 2)).softmax(1)

    for _ in range(n_iter):
        p_support, p = posteriors().split([n_support, n_query], -1)
        u = weights[2] * slope(p, orders) - weights[1] * slope(p.mean(-1, keepdim=True), orders)
        g = torch.cat([weights[0] / n_support * (p_support - y), through_softmax(p, u) / n_query], -1)
        w.grad = temp * (g @ z - g.sum(-1, keepdim=True) * w)
        adam.step()
    return posteriors()[..., n_support:].mT


def through_softmax(p: Tensor, u: Tensor) -> Tensor:
    """∂loss/∂logits from u = ∂loss/∂p, p = softmax(logits); all (E, W, rows)."""
    return p * (u - (p * u).sum(1, keepdim=True))


def slope(p: Tensor, orders: Tensor | None = None) -> Tensor:
    """Derivative of the entropy −Σ p log p, or of (1 − Σ p^α)/(α − 1) for orders α (E), without the constant of the
    first, which the softmax takes off again."""
    if orders is None:
        return -(p + 1e-12).log()
    power = orders[:, None, None]
    return p ** (power - 1) * (power / (1 - power))
