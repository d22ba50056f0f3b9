"""Soft k-means as in EASY (Bendou et al., 2022)."""

import numpy as np

from .common import adapted_means, class_means, rows, softmax, squared_distance, unit


def soft_kmeans(support, support_labels, query, n_way, *, unlabeled=None, base_mean=None, n_iter=29, tau=5.0):
    """Joint centre, unit, then n_iter updates with σ = 1; with ``unlabeled`` those rows take the queries' place.

    The authors run 30 rounds of distance-then-update and answer with the distances of round 30: 29 updates count.
    """
    support, query = rows(support), rows(query)
    learned_from = query if unlabeled is None else rows(unlabeled)
    mean = np.concatenate([support, learned_from]).mean(axis=0)
    support, query, learned_from = (unit(part - mean) for part in (support, query, learned_from))
    prototypes = class_means(support, support_labels, n_way)
    for _ in range(n_iter):
        z = softmax(-tau * squared_distance(learned_from, prototypes))
        prototypes = adapted_means(support, support_labels, learned_from, z, n_way)
    return softmax(-tau * squared_distance(query, prototypes))
