"""BAVARDAGE: variational Bayes with adaptive dimension reduction (Hu, Pateux & Gripon, AISTATS 2023)."""

import numpy as np
from scipy.special import digamma

from .common import adapted_means, cl2n, class_means, one_hot, rows, softmax, squared_distance


def bavardage(
    support,
    support_labels,
    query,
    n_way,
    *,
    base_mean=None,
    base_covariance=None,
    n_iter=5,
    prior=2.0,
    beta=10.0,
    lam=2.0,
    most=5.0,
):
    """Settled from the authors' code: Σ is the scatter of 60 rows; support rows count in n_c and are taken off again
    in the prior; the means that span the projection are shrunk like those that rows are compared with."""
    s, q = cl2n(rows(support), base_mean), cl2n(rows(query), base_mean)
    y = one_hot(support_labels, n_way)
    x = np.concatenate([s, q])
    means = class_means(s, support_labels, n_way)
    for _ in range(5):
        z = softmax(-10 * squared_distance(q, means))
        means = adapted_means(s, support_labels, q, z, n_way)

    # the authors' order: an orthonormal basis by the singular value decomposition, then the eigenvectors of the inverse
    basis, length, _ = np.linalg.svd(x.T, full_matrices=False)
    basis = basis[:, length > 1e-5 * length[0]]  # without the arbitrary directions of rows that are equal
    scatter = 60 * rows(base_covariance) + 1e-6 * np.eye(x.shape[1])
    within = np.linalg.inv(basis.T @ np.linalg.inv(scatter) @ basis)
    e, v = np.linalg.eigh((within + within.T) / 2)
    x = (x @ basis @ v) * np.minimum(e**-0.5, most)
    for _ in range(n_iter):
        r = np.concatenate([y, z])
        n = r.sum(axis=0)
        means = np.stack([r[:, c] @ x / (n[c] + beta) for c in range(n_way)])
        axes = np.linalg.qr((means[1:] - means[0]).T)[0]
        logits = -lam * squared_distance(x @ axes, means @ axes)
        for c in range(n_way):
            alpha = n[c] + prior - y[:, c].sum()
            logits[:, c] += digamma(alpha) - digamma(len(q) + n_way * prior) - (n_way - 1) / (2 * (beta + n[c]))
        z = softmax(logits)[len(s) :]
    return z
