"""Embedding propagation (Rodríguez et al., ECCV 2020), pair by pair; the propagator is the sum of its series."""

import numpy as np

from .common import one_hot, rows


def propagator(x, alpha):
    """Σ_k (αS)^k = (I − αS)⁻¹, S = D^−½ A D^−½, A_ij = exp(−d²_ij / std of the non-zero d²), A_ii = 0."""
    n = len(x)
    distance = np.array([[np.sum((a - b) ** 2) for b in x] for a in x])
    apart = distance[distance > 1e-12]
    sigma = np.std(apart, ddof=1) if len(apart) > 1 else 1.0  # all rows equal: any scale gives the same A
    A = np.array([[np.exp(-distance[i, j] / sigma) if i != j else 0.0 for j in range(n)] for i in range(n)])
    degree = [1e-4 + sum(row) for row in A]
    S = np.array([[A[i, j] / np.sqrt(degree[i] * degree[j]) for j in range(n)] for i in range(n)])
    total, power = np.eye(n), np.eye(n)
    for _ in range(200):
        power = alpha * power @ S
        total = total + power
    return total


def embedding_propagation(support, support_labels, query, n_way, *, alpha=0.5, label_alpha=0.2):
    """Rows through the propagator with α, then labels through that of the new rows, its rows scaled to sum 1."""
    x = np.concatenate([rows(support), rows(query)])
    x = propagator(x, alpha) @ x
    spread = propagator(x, label_alpha)
    spread = spread / spread.sum(1, keepdims=True)
    known = np.concatenate([one_hot(support_labels, n_way), np.zeros((len(query), n_way))])
    scores = (spread @ known)[len(support) :] + 1e-6
    return scores / scores.sum(1, keepdims=True)
