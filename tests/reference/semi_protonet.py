"""Semi-supervised prototypical networks with soft k-means (Ren et al., ICLR 2018)."""

from .common import adapted_means, class_means, rows, softmax
from .protonet import logits


def semi_protonet(
    support, support_labels, query, n_way, *, unlabeled=None, base_mean=None, n_iter=1, metric="euclid", tau=10.0
):
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
