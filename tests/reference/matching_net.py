"""Matching Networks (Vinyals et al., NeurIPS 2016), without full context embeddings."""

import math

import numpy as np

from .common import cosine, rows


def matching_net(support, support_labels, query, n_way, *, unlabeled=None, base_mean=None, tau=100.0):
    """ŷ = Σ_i a(q, x_i) y_i, a = softmax over the support rows of τ·relu(cos(q, x_i))."""
    similarity = cosine(rows(query), rows(support))
    answer = np.zeros((len(query), n_way))
    for q, row in enumerate(similarity):
        weights = [math.exp(tau * max(c, 0.0) - tau) for c in row]
        for weight, label in zip(weights, support_labels):
            answer[q, label] += weight / sum(weights)
    return answer
