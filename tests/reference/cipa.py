"""Calibrated Iterative Prototype Adaptation: the paper's Algorithm 1, with every switch of its ablation."""

import numpy as np

from .common import adapted_means, class_means, cosine, power_transform, resolve_power, rows, softmax, unit


def centres(support, extra, center):
    """The two means to subtract: from the support rows, and from the queries (or the unlabelled rows)."""
    if center == "separate":
        return support.mean(axis=0), extra.mean(axis=0)
    if center == "joint":  # the mean of all rows, not the mean of the two means
        both = np.concatenate([support, extra]).mean(axis=0)
        return both, both
    if center == "support":
        return support.mean(axis=0), support.mean(axis=0)
    return np.zeros(support.shape[1]), np.zeros(support.shape[1])


def cipa(
    support,
    support_labels,
    query,
    n_way,
    *,
    unlabeled=None,
    n_iter=20,
    sigma=0.2,
    tau=10.0,
    beta=0.5,
    power="strict",
    center="separate",
    l2=True,
    query_center="none",
):
    """Transductive; with ``unlabeled`` semi-supervised: those rows take the queries' place in centring and adapting.

    The queries are then given power and unit only, or (query_center="unlabeled") are centred by the very mean that was
    subtracted from the unlabelled rows; never by their own.
    """
    support, query = rows(support), rows(query)
    unlabeled = None if unlabeled is None else rows(unlabeled)

    # power transformation
    power = resolve_power(power, support, query, unlabeled)
    support, query = power_transform(support, power, beta), power_transform(query, power, beta)
    extra = query if unlabeled is None else power_transform(unlabeled, power, beta)

    # zero mean
    support_mean, extra_mean = centres(support, extra, center)
    support, extra = support - support_mean, extra - extra_mean
    if unlabeled is None:
        query = extra
    elif query_center == "unlabeled":
        query = query - extra_mean

    # l2 normalisation
    if l2:
        support, query, extra = unit(support), unit(query), unit(extra)

    # compute and update prototypes
    prototypes = class_means(support, support_labels, n_way)
    for _ in range(n_iter):
        z = softmax(tau * cosine(extra, prototypes))
        prototypes = sigma * adapted_means(support, support_labels, extra, z, n_way) + (1 - sigma) * prototypes

    return softmax(tau * cosine(query, prototypes))
