"""BAVARDAGE. Hu, Pateux, Gripon: Adaptive Dimension Reduction and Variational Inference for Transductive Few-Shot
Classification (AISTATS 2023).

A Gaussian mixture of equal variance fitted by variational Bayes in the W − 1 directions in which the class means
differ, after a rotation and scaling by what base classes vary within themselves. Rows are centred by the base mean and
of unit length. In the span of an episode's rows, with orthonormal basis U, that variation is (Uᵀ Σ⁻¹ U)⁻¹ with Σ the
base classes' scatter; e are its eigenvalues, and rows are taken along its eigenvectors times min(e^−½, 5). Starting
from five rounds of soft k-means, five times

    x̂ = rows projected on the differences of the means Σ r x/(β + n_c)        n_c = Σ r, support rows counted
    μ_c = Σ r x̂/(β + n_c),   r = softmax_c(ψ(a + n_c − K_c) − λ‖x̂ − μ_c‖² − (W−1)/(2(β + n_c)))

with r fixed at the support rows. The prior a = 2 of the class sizes is the Dirichlet(2) that the usual benchmark of
imbalanced queries draws them from: there the method knows something that others do not.
Axes: E episodes, W classes, S support rows, Q queries, N = S + Q, D.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import cl2n, class_means, of_base, sq_distances, transductive_only
from protoadapt.core.methods.settings import Setting, Steps, checked

ROWS_PER_CLASS = 60
"""Σ is a sum over a base class's rows in the authors' code, so their λ belongs to a number of rows. Their public code
and its λ are for CUB, whose base classes have 59 on average. With 600 rows, as in mini-ImageNet, squared distances are
a tenth as large, and the same λ lets the means collapse."""
_RIDGE = 1e-6
SPAN = 1e-5
"""Directions along which an episode's rows reach less than this share of the longest are rounding."""
Prior = Annotated[float, Setting("a, concentration of the Dirichlet prior of the class sizes", 1e-3, 1e6)]
Shrinkage = Annotated[float, Setting("β: shrinks each mean towards the origin, as β zero rows would", 0, 1e6)]
Sharpness = Annotated[float, Setting("factor of the squared distance, half the inverse variance", 1e-6, 1e6)]
MostScale = Annotated[float, Setting("largest factor of a direction in which base classes vary little", 1e-6, 1e6)]


@checked
def bavardage(
    episodes: Episodes,
    *,
    n_iter: Steps = 5,
    prior: Prior = 2.0,
    beta: Shrinkage = 10.0,
    lam: Sharpness = 2.0,
    most: MostScale = 5.0,
) -> Tensor:
    """Variational Bayes in few adaptive dimensions, with the base classes' covariance. Returns (E, Q, W).

    >>> bavardage(episodes).argmax(-1)    # (E, Q) predicted classes    # doctest: +SKIP
    """
    transductive_only(episodes, "BAVARDAGE")
    scatter = ROWS_PER_CLASS * of_base(episodes, "covariance", "bavardage")
    inverse = torch.linalg.inv(scatter + _RIDGE * torch.eye(len(scatter)).to(scatter))
    episodes = cl2n(episodes, "bavardage")
    x = torch.cat([episodes.support, episodes.query], 1)
    y = episodes.membership
    n_support, shots = y.shape[1], y.sum(1)  # shots (E, W)

    def clamped(r: Tensor) -> Tensor:
        return torch.cat([y, r[:, n_support:]], 1)

    means = class_means(episodes.support, y)
    for _ in range(5):
        r = clamped((-10 * sq_distances(x, means)).softmax(-1))
        means = class_means(x, r)

    basis, length, _ = torch.linalg.svd(x.mT, full_matrices=False)  # (E, D, ·)
    basis = basis * (length > SPAN * length[:, :1])[:, None]  # rows that are equal span fewer directions
    e, v = torch.linalg.eigh(basis.mT @ inverse @ basis)  # of the inverse: its eigenvalues are 1/e
    x = x @ basis @ (v * e.clamp_min(0).sqrt().clamp_max(most)[:, None])
    for _ in range(n_iter):
        n = r.sum(1)  # (E, W)
        means = r.mT @ x / (n + beta)[..., None]
        axes = torch.linalg.qr((means[:, 1:] - means[:, :1]).mT).Q
        # (E, W), without −ψ of the sum of the sizes, which is the same for every class
        sizes = (prior + n - shots).clamp_min(prior).digamma() - (y.shape[2] - 1) / (2 * (beta + n))
        r = clamped((sizes[:, None] - lam * sq_distances(x @ axes, means @ axes)).softmax(-1))
    return r[:, n_support:]
