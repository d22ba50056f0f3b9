"""PADDLE (Martin et al., NeurIPS 2022) and its unrolled form UNEM-Gaussian (Zhou et al., CVPR 2025)."""

import numpy as np

from .common import adapted_means, class_means, rows, softmax, squared_distance, unit


def rounds(support, support_labels, query, n_way, gammas, temps):
    """The assignments of each round, starting from the support means; v starts at zero."""
    w, v = class_means(support, support_labels, n_way), np.zeros(n_way)
    for gamma, temp in zip(gammas, temps):
        u = softmax((-0.5 * squared_distance(query, w) + gamma * v) / temp)
        v = np.log(u.mean(axis=0) + 1e-6) + 1
        w = adapted_means(support, support_labels, query, u, n_way)
        yield u


def paddle(support, support_labels, query, n_way, *, n_iter=100, gamma=1.0, scale=None):
    """Settled from the authors' code: the range is that of the queries, and support rows are scaled by it too."""
    support, query = rows(support), rows(query)
    if scale is None:
        length = query.max(axis=0) - query.min(axis=0)
        length[length == 0] = 1.0
        support, query = support / length, query / length
    else:
        support, query = scale * unit(support), scale * unit(query)
    *_, u = rounds(support, support_labels, query, n_way, [gamma] * (n_iter + 1), [1.0] * (n_iter + 1))
    return u


def unem(support, support_labels, query, n_way, *, scale=10.0, gammas=(2.0,) * 10, temps=(2.0,) * 10):
    *_, u = rounds(scale * unit(rows(support)), support_labels, scale * unit(rows(query)), n_way, gammas, temps)
    return u
