"""LR+ICI: logistic regression with instance credibility inference (Wang et al., CVPR 2020).

The group Lasso of (I−H)Y on I−H is the profile, over B, of ½‖Y − XB − G‖² + nλ Σ‖g_i‖ with X a basis of H's range.
Taken over G first it is Huber regression with as few unknowns as X has columns: min_B Σ_i huber_t(‖y_i − x_i B‖) with
t = nλ, and g_i = 0 exactly when ‖y_i − x_i B‖ ≤ t. That form is solved here, by Newton's method, to rounding.
"""

import numpy as np
from scipy.optimize import minimize

from .common import ZERO, hard, one_hot, rows, softmax, unit


def logistic_regression(x, y, C):
    """min C Σ CE(y, softmax(xWᵀ + b)) + ½‖W‖², b free; y (N,W) are rows that sum to 1. Returns x ↦ logits."""
    n_way, dim = y.shape[1], x.shape[1]

    def objective(flat):
        w, b = flat[: n_way * dim].reshape(n_way, dim), flat[n_way * dim :]
        logits = x @ w.T + b
        top = logits.max(axis=1, keepdims=True)
        log_p = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
        g = C * (softmax(logits) - y)
        return -C * np.sum(y * log_p) + 0.5 * np.sum(w**2), np.concatenate([(g.T @ x + w).ravel(), g.sum(axis=0)])

    options = {"maxiter": 20000, "maxfun": 40000, "gtol": 1e-8, "ftol": 1e-16}
    flat = minimize(objective, np.zeros(n_way * (dim + 1)), jac=True, method="L-BFGS-B", options=options).x
    return lambda rows_: rows_ @ flat[: n_way * dim].reshape(n_way, dim).T + flat[n_way * dim :]


def principal_basis(x, n_components):
    """Orthonormal columns (N,d) that span the leading principal scores; H is the projection on them."""
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return u[:, : min(n_components, int((s > ZERO).sum()))]


def huber_regression(x, y, t, b):
    """argmin_B Σ_i huber_t(‖y_i − x_i B‖) from a start b (d,W)."""
    dim, n_way = b.shape

    def value(b):
        r = np.linalg.norm(y - x @ b, axis=1)
        return np.where(r <= t, 0.5 * r**2, t * r - 0.5 * t**2).sum()

    for _ in range(200):
        residual = y - x @ b
        norm = np.linalg.norm(residual, axis=1)
        gradient = -x.T @ (residual * np.minimum(1.0, t / np.maximum(norm, t))[:, None])
        if np.abs(gradient).max(initial=0.0) <= 1e-12:
            return b
        hessian = 1e-12 * np.eye(dim * n_way)
        for x_i, r_i, norm_i in zip(x, residual, norm):
            curvature = np.eye(n_way)
            if norm_i > t:  # only across the residual does its norm bend
                curvature = t / norm_i * (np.eye(n_way) - np.outer(r_i, r_i) / norm_i**2)
            hessian += np.kron(np.outer(x_i, x_i), curvature)
        step = -np.linalg.solve(hessian, gradient.ravel()).reshape(dim, n_way)
        size, before, slope = 1.0, value(b), np.sum(gradient * step)
        if -slope <= 1e-14:  # the gain left is below what the value can show: one last full step
            return b + step
        while value(b + size * step) > before + 1e-4 * size * slope:
            size *= 0.5
        b = b + size * step
    return b


def credibility(basis, y, n_lambdas, ratio):
    """For each row (index of the smallest λ at which its g is zero, its residual there), (N,2); small is credible.

    Grid and scaling are those of scikit-learn's enet_path: ‖·‖²/(2n) + λ‖·‖₂₁, no intercept, λ_max the first λ at which
    all rows are zero, then n_lambdas on a log scale down to ratio·λ_max. The second entry is ours: within one λ the
    authors go by position.
    """
    n = len(y)
    b = basis.T @ y  # least squares: everything zero
    t_max = np.linalg.norm(y - basis @ b, axis=1).max()
    thresholds = t_max * np.logspace(0, np.log10(ratio), n_lambdas)  # t = nλ, falling
    key = np.empty((n, 2))
    key[:, 0], key[:, 1] = n_lambdas - 1, np.linalg.norm(y - basis @ b, axis=1)
    for step, t in enumerate(thresholds[1:], start=1):
        b = huber_regression(basis, y, t, b)
        residual = np.linalg.norm(y - basis @ b, axis=1)
        zero = residual <= t
        key[zero, 0], key[zero, 1] = n_lambdas - 1 - step, residual[zero]  # later λs are smaller and overwrite
    return key


def lr_ici(support, support_labels, query, n_way, *, C=10.0, n_components=5, per_class=5, n_lambdas=100, ratio=1e-3):
    """Each round: label all queries anew, rank them by credibility, take up to per_class more a pseudo-class, refit on
    support and all taken so far (with the new labels). It ends when every query is in; the last fit answers."""
    s, q = unit(rows(support)), unit(rows(query))
    y_s = one_hot(support_labels, n_way)
    basis = principal_basis(np.concatenate([s, q]), n_components)

    chosen = np.zeros(len(q), dtype=bool)
    classify = logistic_regression(s, y_s, C)
    while not chosen.all():
        y_q = hard(classify(q))
        key = credibility(basis, np.concatenate([y_s, y_q]), n_lambdas, ratio)[len(s) :]
        taken = np.zeros(n_way)
        for i in sorted(range(len(q)), key=lambda i: tuple(key[i])):
            if not chosen[i] and (taken[y_q[i] > 0] < per_class).all():
                chosen[i] = True
                taken += y_q[i]
        classify = logistic_regression(np.concatenate([s, q[chosen]]), np.concatenate([y_s, y_q[chosen]]), C)
    return hard(classify(q))
