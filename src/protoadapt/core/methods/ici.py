"""LR+ICI. Wang, Xu, Liu, Zhang, Fu: Instance Credibility Inference for Few-Shot Learning (CVPR 2020).

Logistic regression labels the queries, and the most credible labels join the training rows, round after round.
Axes: E episodes, W classes, S support rows, Q queries, N = S + Q, d principal components.
"""

from collections.abc import Iterator
from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, lowest_of_each_class, tied_argmax, transductive_only, unit
from protoadapt.core.methods.settings import PerClass, Setting, checked

Inverse = Annotated[float, Setting("inverse strength of the logistic regression's penalty", 1e-6, 1e6)]
Components = Annotated[int, Setting("number of principal components", 1, 1000)]
Penalties = Annotated[int, Setting("number of penalties on the Lasso's path", 2, 10_000)]
Ratio = Annotated[float, Setting("smallest penalty as a share of the largest", 1e-9, 0.999)]


@checked
def lr_ici(
    episodes: Episodes,
    *,
    C: Inverse = 10.0,
    n_components: Components = 5,
    per_class: PerClass = 5,
    n_lambdas: Penalties = 100,
    ratio: Ratio = 1e-3,
) -> Tensor:
    """Logistic regression that takes in its most credible pseudo-labels, round after round. Returns (E, Q, W), hard.

    Each round labels all queries again and asks which labels a linear model of the principal components explains
    without an offset of their own (the offsets are a group Lasso's coefficients; the smaller the penalty at which a
    row's offset is zero, the more credible the label). It adds the `per_class` most credible new queries of each
    pseudo-class to the training rows and fits again, until all queries are in. Rounds choose among rows, so everything
    is computed in float64. Assumes no class sizes, though every class gains equally many rows per round.
    """
    transductive_only(episodes, "LR+ICI")
    rows = unit(torch.cat([episodes.support, episodes.query], 1).double())
    gram, basis = rows @ rows.mT, principal_basis(rows, n_components)
    support_labels = episodes.membership.to(gram)
    n_support = support_labels.shape[1]
    chosen = torch.zeros(gram.shape[:2], dtype=torch.bool, device=gram.device)  # (E, N): the training rows
    chosen[:, :n_support] = True
    labels = torch.nn.functional.pad(support_labels, (0, 0, 0, gram.shape[1] - n_support))
    logits = logistic_regression(gram, labels, chosen, C)

    which = torch.arange(len(gram), device=gram.device)  # the episodes that still have queries to choose
    while len(which):
        pseudo = tied_argmax(logits[which, n_support:])
        labels = torch.cat([support_labels[which], pseudo], 1)
        doubt = incredibility(basis[which], labels, n_lambdas, ratio)
        chosen[which] |= lowest_of_each_class(doubt, labels * ~chosen[which, :, None], per_class)
        logits[which] = logistic_regression(gram[which], labels, chosen[which], C)
        which = which[~chosen[which].all(1)]
    return tied_argmax(logits[:, n_support:]).to(episodes.rows.dtype)


def principal_basis(rows: Tensor, n_components: int) -> Tensor:
    """(E, N, d) orthonormal U, the normed PCA scores of rows (E, N, D); columns beyond the rank are zero.

    The paper's H = X(XᵀX)⁻¹Xᵀ for scores X is then UUᵀ.
    """
    centred = rows - rows.mean(1, keepdim=True)
    variance, vectors = torch.linalg.eigh(centred @ centred.mT)
    variance, vectors = variance[:, -n_components:], vectors[..., -n_components:]
    return vectors * (variance > 1e-12)[:, None] if n_components else vectors[..., :0]


def logistic_regression(
    gram: Tensor, labels: Tensor, chosen: Tensor, C: float, tol: float = 1e-9, max_iter: int = 5000
) -> Tensor:
    """(E, N, W): logits of all rows under the minimiser of C·Σ_chosen cross-entropy + ½‖w‖², bias not penalised.

    gram (E, N, N) of all rows, labels (E, N, W) rows that sum to 1, chosen (E, N) the training rows.

    The Hessian of the cross-entropy in the logits is at most ½ (Böhning, 1992), so each step that fits the working
    response f + 2(y − p) by least squares, with penalty 2/C, lowers the loss: no line search. That ridge regression is
    one fixed smoother matrix F (N, N), and f ← F(f + 2(y − p)) is all there is to it. In few dimensions such steps are
    short, so each starts from a point beyond f, in the direction of the last one (Nesterov, 1983), and without that
    momentum whenever the step turns back (O'Donoghue and Candès, 2015). Each episode stops by itself.
    """
    m = chosen.to(gram)
    ridge = m[..., None] * gram * m[:, None] + 2 / C * torch.eye(gram.shape[1]).to(gram)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(ridge)) * m[..., None] * m[:, None]
    ones = inverse.sum(1)  # (E, N)
    bias = (ones / ones.sum(1, keepdim=True))[:, None]  # (E, 1, N): b = bias·response makes the residuals' sum zero
    smoother = bias + gram @ (inverse - ones[..., None] * bias)
    y = labels.mT
    f = start = torch.zeros_like(y)  # (E, W, N): a softmax over the middle axis is the faster one
    age = f.new_ones(len(f), 1, 1)  # steps since the momentum was zero
    running = torch.ones_like(age, dtype=torch.bool)
    for _ in range(max_iter):
        new = (start + 2 * (y - start.softmax(1))) @ smoother.mT
        back = ((start - new) * (new - f)).sum((1, 2), keepdim=True) > 0
        age = torch.where(back, 1, age + 1)
        change = (new - start).abs().amax((1, 2), keepdim=True)
        start = new + torch.where(back, 0, (age - 1) / (age + 2)) * (new - f)
        f = torch.where(running, new, f)
        running = running & (change > tol)
        if not running.any():
            break
    return f.mT


def incredibility(basis: Tensor, labels: Tensor, n_lambdas: int, ratio: float) -> Tensor:
    """(E, N): the place, from below, of the smallest penalty at which a row needs no offset of its own.

    Within one place of the grid the row with the smaller residual comes first (its fraction of the penalty is added).
    """
    place = torch.empty_like(labels[..., 0])
    for i, (penalty, residual) in enumerate(offset_path(basis, labels, n_lambdas, ratio)):
        size = residual.norm(dim=-1) / penalty.clamp_min(TINY)[:, None]
        # At the largest penalty every row is zero: by definition, not by rounding.
        place = torch.where(size <= (1 if i else torch.inf), n_lambdas - 1 - i + size.clamp_max(1), place)
    return place


def offset_path(basis: Tensor, labels: Tensor, n_lambdas: int, ratio: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Penalties t (E) from the largest down, and residuals Y − UB (E, N, W) of the group Lasso at each.

    With P = I − UUᵀ the paper solves min_γ ½‖P(Y − γ)‖² + t Σ_i ‖γ_i‖. Since ‖P(Y − γ)‖ = min_B ‖Y − γ − UB‖, and for
    given B the best γ_i shrinks the row r_i = y_i − u_i B by t, this is min_B Σ_i huber_t(‖r_i‖): d·W unknowns instead
    of N·W, and γ_i = r_i (1 − t/‖r_i‖)₊.
    """
    B = basis.mT @ labels  # the minimiser while no row is beyond t
    largest = (labels - basis @ B).norm(dim=-1).amax(1)
    for i in range(n_lambdas):
        t = largest * ratio ** (i / (n_lambdas - 1))
        B = _huber_fit(basis, labels, t, B)
        yield t, labels - basis @ B


def _huber_fit(U: Tensor, Y: Tensor, t: Tensor, B: Tensor, tol: float = 1e-9, max_iter: int = 200) -> Tensor:
    """(E, d, W): argmin_B Σ_i huber_t(‖y_i − u_i B‖) from a start B; each episode stops when its gradient is tol·t.

    A row within t curves in all directions, one beyond t only across its residual r: ω(I − r̂r̂ᵀ), ω = t/‖r‖. Steps use
    ω(I − (1−μ) r̂r̂ᵀ): with μ = 0 Newton's, which may fail, with μ = 1 reweighted least squares, which never does. As in
    Levenberg's method μ falls while the loss does and rises when it does not.
    """
    E, N, d = U.shape
    W, t = Y.shape[-1], t[:, None, None]
    uu = (U[..., :, None] * U[..., None, :]).reshape(E, N, d * d).mT
    identity = torch.eye(W, dtype=Y.dtype, device=Y.device)
    ridge = 1e-12 * torch.eye(d * W, dtype=Y.dtype, device=Y.device)
    mu = torch.full_like(t, 1e-3)

    def lengths_and_loss(r: Tensor) -> tuple[Tensor, Tensor]:
        length = r.norm(dim=-1, keepdim=True)
        return length, torch.where(length > t, t * (length - t / 2), length.square() / 2).sum(1, keepdim=True)

    r = Y - U @ B
    length, loss = lengths_and_loss(r)
    for _ in range(max_iter):
        weight = t / length.maximum(t)
        gradient = U.mT @ (weight * r)  # of minus the loss
        running = gradient.abs().amax((1, 2), keepdim=True) > tol * t
        if not running.any():
            break
        along = torch.where(length > t, r / length, 0)
        curve = weight[..., None] * (identity - (1 - mu[..., None]) * along[..., :, None] * along[..., None, :])
        H = (uu @ curve.view(E, N, W * W)).view(E, d, d, W, W).transpose(2, 3).reshape(E, d * W, d * W) + ridge
        # Unchecked, as a check would wait for the GPU: of a singular H the loss is NaN, so that μ rises.
        step, _ = torch.linalg.solve_ex(H, gradient.reshape(E, d * W, 1))
        tried = B + step.view(E, d, W)
        new_r = Y - U @ tried
        new_length, new_loss = lengths_and_loss(new_r)
        better = running & (new_loss <= loss * (1 + 1e-14))  # the last digits must not stop the search
        B, r = torch.where(better, tried, B), torch.where(better, new_r, r)
        length, loss = torch.where(better, new_length, length), torch.where(better, new_loss, loss)
        mu = torch.where(better, mu / 2, mu * 4).clamp(1e-9, 1)
    return B
