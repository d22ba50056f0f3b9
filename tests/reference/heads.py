"""Trained heads, slowly: one episode and one query at a time, float64, straight from each paper's equations.

Each function has the form ``head(weights, support (S,D), labels (S,), query (Q,D), n_way) -> (Q,W)`` with rows that sum
to 1; weights are the head's arrays by name. Of this package they import the slow methods only.
"""

import numpy as np

from .common import class_means, one_hot, softmax, squared_distance
from .embedding_propagation import embedding_propagation
from .matching_net import matching_net


def matching(weights, support, labels, query, n_way):
    answer = matching_net(support, labels, query, n_way) + 1e-6
    return answer / answer.sum(1, keepdims=True)


def epnet(weights, support, labels, query, n_way):
    return embedding_propagation(support, labels, query, n_way)


def metaopt_ridge(weights, support, labels, query, n_way):
    """The dual of ridge regression, ½αᵀ(K + 50 I)α − 2 yᵀα per class, minimised; logits s·K_q α."""
    kernel = np.array([[a @ b for b in support] for a in support]) + 50 * np.eye(len(support))
    alpha = np.linalg.inv(kernel) @ (2 * one_hot(labels, n_way))
    scores = [[sum(alpha[i, c] * (q @ x) for i, x in enumerate(support)) for c in range(n_way)] for q in query]
    return softmax(weights["scale"] * np.array(scores))


def feat(weights, support, labels, query, n_way):
    """p′ = LayerNorm(p + W_o Σ_j softmax_j(q·k_j/√D) v_j + b_o), logits −‖q − p′‖²/64."""
    means = class_means(support, labels, n_way)
    adapted = []
    for p in means:
        scores = [(weights["q.weight"] @ p) @ (weights["k.weight"] @ other) / np.sqrt(len(p)) for other in means]
        attention = softmax(np.array([scores]))[0]
        seen = sum(a * (weights["v.weight"] @ other) for a, other in zip(attention, means))
        moved = p + weights["out.weight"] @ seen + weights["out.bias"]
        moved = (moved - moved.mean()) / np.sqrt(moved.var() + 1e-5)
        adapted.append(weights["norm.weight"] * moved + weights["norm.bias"])
    return softmax(-squared_distance(query, adapted) / 64)


SLOW_HEADS = {"matching": matching, "metaopt_ridge": metaopt_ridge, "feat": feat, "epnet": epnet}
