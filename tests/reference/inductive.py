"""Methods that answer each query alone."""

import math

import numpy as np

from .common import cl2n, class_means, cosine, hard, one_hot, rows, softmax, squared_distance, unit

# SimpleShot, CL2N (Wang et al., 2019).


def simpleshot(support, support_labels, query, n_way, *, base_mean=None):
    """unit(x − base mean); the class centroid is not renormalised; nearest by Euclid, one-hot."""
    support, query = cl2n(rows(support), base_mean), cl2n(rows(query), base_mean)
    return hard(-squared_distance(query, class_means(support, support_labels, n_way)))


# Matching Networks (Vinyals et al., NeurIPS 2016), without full context embeddings.


def matching_net(support, support_labels, query, n_way, *, tau=100.0):
    """ŷ = Σ_i a(q, x_i) y_i, a = softmax over the support rows of τ·relu(cos(q, x_i))."""
    similarity = cosine(rows(query), rows(support))
    answer = np.zeros((len(query), n_way))
    for q, row in enumerate(similarity):
        weights = [math.exp(tau * max(c, 0.0) - tau) for c in row]
        for weight, label in zip(weights, support_labels):
            answer[q, label] += weight / sum(weights)
    return answer


# Ridge regression of one-hot labels on support rows (R2D2, Bertinetto et al. 2019; MetaOptNet, Lee et al. 2019).


def ridge(support, support_labels, query, n_way, *, lam=1.0, tau=10.0, l2=True):
    """The primal form, W = (XᵀX + λI)⁻¹ XᵀY, one class after the other."""
    support, query = (unit(rows(x)) if l2 else rows(x) for x in (support, query))
    targets = one_hot(support_labels, n_way)
    normal = support.T @ support + lam * np.eye(support.shape[1])
    scores = [query @ np.linalg.solve(normal, support.T @ targets[:, c]) for c in range(n_way)]
    return softmax(tau * np.stack(scores, 1))
