"""BAPA: Balance-Agnostic Prototype Adaptation. Our own, beside the paper's CIPA.

CIPA centres the queries by their own mean and lets every row pull as much as any other: both quietly assume that all
classes are among the queries, and about equally often. BAPA estimates the class sizes on the way, and believes them
only as far as their spread is more than noise. With N unlabelled rows, C classes, n̄ = N/C, rows of unit length after
the power transform, m_S the support mean, S_c the sum and K_c the number of class c's support rows, a step is

    1  μ = (Σ_q w_q q + k_s m_S) / (Σ_q w_q + k_s);   x ← unit(x − μ) for all rows          (start: w = 1)
    2  z = softmax_c(λ (2 q·p_c − ‖p_c‖²) + ℓ_c);   n_c = Σ_q z_qc                            (start: ℓ = 0)
    3  p_c ← (1−σ) p_c + σ (S_c + Σ_q z² q) / (K_c + κ + Σ_q z²)                        (start: S_c/(K_c + κ))
    4  g = clip(1 − θ² / mean_c (n_c/n̄ − 1)², −1, 1), θ² = 2.43/N;   f_c = (n_c + κ)/(n̄ + κ)
    5  ℓ_c = g log f_c;   w_q = Σ_c z_qc / (1 + max(g, 0)(f_c − 1))

and the answer is 1 and 2 once more. The centre (1) counts a row less if its class is large, so it does not follow the
balance, and the support mean keeps it in place when rows are few. z² (3): confident rows count; κ pseudo-rows at the
origin hold back classes that few rows support. g (4) is a James–Stein factor: near 1 when sizes differ by more than
chance, negative when they differ less, and then ℓ (5) pulls towards balance.
"""

import torch
from torch import Tensor

from protoadapt.episodes import Episodes
from protoadapt.errors import UserError
from protoadapt.methods._checks import whole
from protoadapt.methods.cipa import powered
from protoadapt.methods.common import TINY

NOISE = 2.43
"""θ²·N. The spread of soft class sizes that balanced queries show by chance; chosen on validation classes."""


def bapa(
    episodes: Episodes,
    *,
    n_iter: int = 20,
    sigma: float = 0.2,
    lam: float = 10.0,
    kappa: float = 3.0,
    k_s: float = 15.0,
    beta: float = 0.5,
    power: str = "auto",
) -> Tensor:
    """Needs no knowledge of the class sizes: many queries or one, mixed or of one class. Returns (E, Q, W).

    kappa pseudo-rows hold back each prototype; k_s rows' weight has the support mean in the centre. Where unlabelled
    rows are given they take the queries' place, and the queries are answered one by one.

    All vectors are mixtures of the N' = S + U rows, so one Gram matrix G is the only D-dimensional work: with μ = m·X
    and d_i = 1/‖x_i − μ‖ the row unit(x_i − μ) is the mixture d_i (e_i − m), and (x_i − μ)·(x_j − μ) =
    G_ij − (Gm)_i − (Gm)_j + m·Gm. Prototypes are kept as mixtures A (E, W, N').
    """
    whole("n_iter", n_iter)
    if not (0 <= sigma <= 1 and lam > 0 and kappa >= 0 and k_s > 0):
        raise UserError(
            f"sigma={sigma}, lam={lam}, kappa={kappa}, k_s={k_s} do not fit: sigma lies between 0 and 1, lam and k_s "
            f"are positive, kappa is 0 or more"
        )
    episodes = powered(episodes, beta, power)
    helping = episodes.query_index if episodes.unlabeled_index is None else episodes.unlabeled_index
    X = episodes.rows[torch.cat([episodes.support_index, helping], 1)]
    G = X @ X.mT
    square = G.diagonal(dim1=1, dim2=2)
    y = episodes.membership.mT  # (E, W, S)
    n_support, n_rows, n_mean = y.shape[-1], helping.shape[1], helping.shape[1] / episodes.n_way
    shots = y.sum(-1, keepdim=True)
    from_support = torch.cat([X.new_full((n_support,), k_s / n_support), X.new_zeros(n_rows)])

    def center(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """m (E, 1, N'), Gm (E, 1, N') and 1/‖x − μ‖ (E, 1, N') for weights w (E, 1, U) of the unlabelled rows."""
        m = from_support + torch.nn.functional.pad(w, (n_support, 0))
        m = m / m.sum(-1, keepdim=True)
        Gm = m @ G
        return m, Gm, _inverse_length(square[:, None], Gm, (m * Gm).sum(-1, keepdim=True))

    def mixture(T: Tensor, m: Tensor, d: Tensor) -> Tensor:
        """Σ_i T_i unit(x_i − μ), T (E, W, N'), as a mixture of the rows."""
        return T * d - (T * d).sum(-1, keepdim=True) * m

    def gaussian(A: Tensor, AG: Tensor, m: Tensor, inner: Tensor, d: Tensor) -> Tensor:
        """λ(2 x·p − ‖p‖²) for rows x = unit(x − μ) with inner = p·x before that."""
        along = d * (inner - (AG * m).sum(-1, keepdim=True))
        return lam * (2 * along - (A * AG).sum(-1, keepdim=True))

    support_only = torch.nn.functional.pad(y, (0, n_rows))
    w, size_term = X.new_ones(len(X), 1, n_rows), X.new_zeros(len(X), episodes.n_way, 1)
    m, Gm, d = center(w)
    A = mixture(support_only, m, d) / (shots + kappa)
    for _ in range(n_iter):
        AG = A @ G
        z = (gaussian(A, AG, m, AG, d)[..., n_support:] + size_term).softmax(1)
        T = torch.cat([y, z.square()], -1)
        A = (1 - sigma) * A + sigma * mixture(T, m, d) / (kappa + T.sum(-1, keepdim=True))
        n = z.sum(-1, keepdim=True)
        spread = (n / n_mean - 1).square().mean(1, keepdim=True)
        g = (1 - NOISE / n_rows / spread.clamp_min(TINY)).clamp(-1, 1)
        f = (n + kappa) / (n_mean + kappa)
        size_term = g * f.clamp_min(TINY).log()
        w = (z / (1 + g.clamp_min(0) * (f - 1)).clamp_min(TINY)).sum(1, keepdim=True)
        m, Gm, d = center(w)
    AG = A @ G
    if episodes.unlabeled_index is None:
        return (gaussian(A, AG, m, AG, d)[..., n_support:] + size_term).softmax(1).mT
    query = episodes.query
    XQ = X @ query.mT  # (E, N', Q)
    length = _inverse_length(query.square().sum(-1)[:, None], m @ XQ, (m * Gm).sum(-1, keepdim=True))
    return (gaussian(A, AG, m, A @ XQ, length) + size_term).softmax(1).mT


def _inverse_length(square: Tensor, inner: Tensor, mean_square: Tensor) -> Tensor:
    """1/‖x − μ‖ from ‖x‖², x·μ and ‖μ‖²; 0 for a row at the centre itself, where only rounding is left."""
    left = square - 2 * inner + mean_square
    rounding = 32 * torch.finfo(left.dtype).eps * (square + mean_square)
    return torch.where(left > rounding, left.clamp_min(TINY).rsqrt(), 0)
