"""Class means, and soft k-means from them."""

import numpy as np

from .common import adapted_means, class_means, cosine, rows, softmax, squared_distance, unit

# Prototypical Networks (Snell et al., NeurIPS 2017).


def logits(x, prototypes, metric, tau):
    if metric == "cosine":
        return tau * cosine(x, prototypes)
    return -squared_distance(x, prototypes)


def protonet(support, support_labels, query, n_way, *, metric="cosine", tau=10.0):
    """Raw features; p_c = mean of class c's support rows; softmax of τ·cos(q, p_c), or of −‖q − p_c‖² without τ."""
    support, query = rows(support), rows(query)
    return softmax(logits(query, class_means(support, support_labels, n_way), metric, tau))


# Semi-supervised prototypical networks with soft k-means (Ren et al., ICLR 2018).


def semi_protonet(support, support_labels, query, n_way, *, unlabeled=None, n_iter=1, metric="euclid", tau=10.0):
    """Raw features; each step replaces the prototypes by the soft means of support and unlabelled rows (σ = 1).

    The unlabelled rows are the queries themselves unless ``unlabeled`` is given.
    """
    support, query = rows(support), rows(query)
    extra = query if unlabeled is None else rows(unlabeled)
    prototypes = class_means(support, support_labels, n_way)
    for _ in range(n_iter):
        z = softmax(logits(extra, prototypes, metric, tau))
        prototypes = adapted_means(support, support_labels, extra, z, n_way)
    return softmax(logits(query, prototypes, metric, tau))


# Soft k-means as in EASY (Bendou et al., 2022).


def soft_kmeans(support, support_labels, query, n_way, *, unlabeled=None, n_iter=29, tau=5.0):
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
