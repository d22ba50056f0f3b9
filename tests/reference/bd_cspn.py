"""BD-CSPN: prototype rectification by bias diminishing (Liu, Song & Qin, ECCV 2020)."""

import numpy as np

from .common import cl2n, class_means, cosine, hard, rows, softmax, squared_distance


def rectify(support, support_labels, query, n_way):
    """Rectified prototypes (W,D) and the shifted queries (Q,D), from rows after CL2N.

    Settled from the authors' and LaplacianShot's code: the shifted rows are not renormalised and replace the queries
    everywhere after; support rows join by their nearest prototype, not by their label; the weighted sum is divided by
    the number of members, not by the sum of weights. Where a class gets no member (their code would lose the class) it
    keeps its support mean.
    """
    query = query + support.mean(axis=0) - query.mean(axis=0)
    prototypes = class_means(support, support_labels, n_way)
    everything = np.concatenate([support, query])
    similarity = cosine(everything, prototypes)
    member = hard(similarity)
    weight = softmax(10.0 * similarity)
    rectified = prototypes.copy()
    for c in range(n_way):
        if member[:, c].sum() > 0:
            rectified[c] = (member[:, c] * weight[:, c]) @ everything / member[:, c].sum()
    return rectified, query


def bd_cspn(support, support_labels, query, n_way, *, base_mean=None):
    support, query = cl2n(rows(support), base_mean), cl2n(rows(query), base_mean)
    prototypes, query = rectify(support, support_labels, query, n_way)
    return hard(-squared_distance(query, prototypes))
