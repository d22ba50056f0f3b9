"""MetaOptNet, with a ridge regression and with a support vector machine. Lee, Maji, Ravichandran, Soatto: Meta-Learning
with Differentiable Convex Optimization (CVPR 2019)."""

import torch
from torch import Tensor, nn

from protoadapt.core.heads.head import EpisodeHead, HeadShape, Noise
from protoadapt.core.methods.inductive import ridge_scores

_PENALTY = 50.0
COST = 0.1
_STEPS = 15
_RIDGE = 1.0  # on the diagonal of the problem's matrix, as in the authors' code


class MetaOptNetRidge(EpisodeHead):
    """A ridge regression to the support labels, solved in closed form for each episode; s is learned:

        logits = s · X_q X_sᵀ · 2 (X_s X_sᵀ + 50 I)⁻¹ Y

    Rows are the un-pooled features, as in the authors' code.
    """

    places = True

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        return 2 * self.scale * ridge_scores(support, membership, query, _PENALTY)


class MetaOptNetSVM(MetaOptNetRidge):
    """A multi-class SVM is fitted to the support of each episode, and its solution has a gradient:

        min_α ½ Σ_m ‖Σ_i α_im x_i‖² + ½ ‖α‖² − Σ_i α_{i,y_i}   subject to  α_im ≤ C·[m = y_i],  Σ_m α_im = 0
        logits = s · X_q X_sᵀ α

    C = 0.1, s is learned. The machine is that of Crammer and Singer (JMLR 2001).
    """

    def forward(self, support: Tensor, membership: Tensor, query: Tensor, noise: Noise = None) -> Tensor:
        alpha = svm_dual(support @ support.mT, membership)
        return self.scale * (query @ (support.mT @ alpha))

    def episode_numbers(self, n_rows: int, n_way: int) -> int:
        variables = n_way * n_way * max(self.shape.shot, 5)
        return 8 * variables**2  # in float64


def svm_dual(kernel: Tensor, membership: Tensor) -> Tensor:
    """The dual variables α (E, S, W) of a kernel (E, S, S) and one-hot classes (E, S, W), by an interior-point method.

    With z = α (N = S·W entries, row by row), G = K ⊗ I + I, h = C·y and A = I ⊗ 1ᵀ, the optimum satisfies

        G z − y + λ + Aᵀ ν = 0,    A z = 0,    λ ∘ (h − z) = μ → 0,    λ, h − z ≥ 0

    15 of Newton's steps solve these conditions. The gradient is that of the implicit function: one more step, with its
    matrix held fixed and the kernel not, has the derivative −J⁻¹ ∂(conditions)/∂K.
    """
    n_way = membership.shape[-1]
    fixed = kernel.detach().double()
    y = membership.double().flatten(1)  # (E, N)
    one = torch.eye(n_way, dtype=y.dtype, device=y.device)
    G = torch.einsum("eij,mn->eimjn", fixed, one).flatten(3, 4).flatten(1, 2)
    G = G + _RIDGE * torch.eye(y.shape[1], dtype=y.dtype, device=y.device)
    h = COST * y
    z, nu = -torch.ones_like(y), torch.zeros_like(y[:, ::n_way])
    lam = torch.ones_like(y)
    for _ in range(_STEPS):
        mu = (lam * (h - z)).mean(1, keepdim=True) / 10
        step = _newton(G, z, lam, nu, h, mu, (G @ z[..., None])[..., 0] - y, n_way)
        length = 0.99 * _longest(z - h, step[0]).minimum(_longest(-lam, -step[1]))
        z, lam, nu = (x + length.minimum(torch.ones_like(length)) * dx for x, dx in zip((z, lam, nu), step))
    # One step more, its matrix held fixed: K z carries the gradient.
    pull = (kernel.double() @ z.unflatten(1, (-1, n_way))).flatten(1) + _RIDGE * z - y
    mu = (lam * (h - z)).mean(1, keepdim=True)
    change = _newton(G, z, lam, nu, h, mu, pull, n_way)[0]
    return (z + change - change.detach()).unflatten(1, (-1, n_way)).to(kernel.dtype)


def _newton(
    G: Tensor, z: Tensor, lam: Tensor, nu: Tensor, h: Tensor, mu: Tensor, gradient: Tensor, n_way: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The step (dz, dλ, dν) that solves the linearised conditions; A sums the n_way entries of each row.

    λ is eliminated: (G + diag(λ/s)) dz + Aᵀ dν = −(gradient + λ + Aᵀν) − (μ/s − λ),  A dz = −A z,  s = h − z.
    """
    s = (h - z).clamp_min(1e-12)
    H = G + torch.diag_embed(lam / s)
    right = -(gradient + mu / s + nu.repeat_interleave(n_way, 1))
    A = torch.eye(nu.shape[1], dtype=z.dtype, device=z.device).repeat_interleave(n_way, 1)  # (S, N)
    solved = torch.linalg.solve_ex(H, torch.cat([right[..., None], A.mT.expand(len(z), -1, -1)], -1))[0]
    toward, of_nu = solved[..., :1], solved[..., 1:]
    dnu = torch.linalg.solve_ex(A @ of_nu, A @ (toward + z[..., None]))[0]
    dz = (toward - of_nu @ dnu)[..., 0]
    return dz, mu / s - lam + lam / s * dz, dnu[..., 0]


def _longest(x: Tensor, step: Tensor) -> Tensor:
    """(E, 1): the largest t for which x + t·step ≤ 0, where x < 0."""
    return torch.where(step > 0, -x / step.clamp_min(1e-300), torch.inf).amin(1, keepdim=True)
