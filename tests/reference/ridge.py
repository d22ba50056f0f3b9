"""Ridge regression of one-hot labels on support rows (R2D2, Bertinetto et al. 2019; MetaOptNet, Lee et al. 2019)."""

import numpy as np

from .common import one_hot, rows, softmax, unit


def ridge(support, support_labels, query, n_way, *, unlabeled=None, base_mean=None, lam=1.0, tau=10.0, l2=True):
    """The primal form, W = (XᵀX + λI)⁻¹ XᵀY, one class after the other."""
    support, query = (unit(rows(x)) if l2 else rows(x) for x in (support, query))
    targets = one_hot(support_labels, n_way)
    normal = support.T @ support + lam * np.eye(support.shape[1])
    scores = [query @ np.linalg.solve(normal, support.T @ targets[:, c]) for c in range(n_way)]
    return softmax(tau * np.stack(scores, 1))
