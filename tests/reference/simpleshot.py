"""SimpleShot, CL2N (Wang et al., 2019)."""

from .common import cl2n, class_means, hard, rows, squared_distance


def simpleshot(support, support_labels, query, n_way, *, unlabeled=None, base_mean=None):
    """unit(x − base mean); the class centroid is not renormalised; nearest by Euclid, one-hot."""
    support, query = cl2n(rows(support), base_mean), cl2n(rows(query), base_mean)
    return hard(-squared_distance(query, class_means(support, support_labels, n_way)))
