"""Prototypical Networks (Snell et al., NeurIPS 2017)."""

from .common import class_means, cosine, rows, softmax, squared_distance


def logits(x, prototypes, metric, tau):
    if metric == "cosine":
        return tau * cosine(x, prototypes)
    if metric == "euclid":
        return -squared_distance(x, prototypes)
    raise ValueError(f"unknown metric {metric!r}")


def protonet(support, support_labels, query, n_way, *, unlabeled=None, base_mean=None, metric="cosine", tau=10.0):
    """Raw features; p_c = mean of class c's support rows; softmax of τ·cos(q, p_c), or of −‖q − p_c‖² without τ."""
    support, query = rows(support), rows(query)
    return softmax(logits(query, class_means(support, support_labels, n_way), metric, tau))
