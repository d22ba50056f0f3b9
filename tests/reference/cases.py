"""Small episodes and helpers for the tests of the reference loops."""

import numpy as np
import torch


def episode(seed=0, n_way=5, shot=1, n_query=6, dim=24, noise=0.8):
    """Rectified features around random class means; labels in no order."""
    rng = np.random.default_rng(seed)
    means = np.abs(rng.normal(size=(n_way, dim)))

    def draw(labels):
        return np.maximum(means[labels] + noise * rng.normal(size=(len(labels), dim)), 0.0)

    support_labels = rng.permutation(np.repeat(np.arange(n_way), shot))
    query_labels = rng.permutation(np.repeat(np.arange(n_way), n_query))
    support, query = draw(support_labels), draw(query_labels)
    return support, support_labels, query, query_labels, 0.3 + 0.1 * rng.random(dim)


def means(x, labels, n_way):
    return np.stack([x[labels == c].sum(axis=0) / (labels == c).sum() for c in range(n_way)])


def softened(logits):
    return torch.softmax(torch.as_tensor(logits), dim=1).numpy()
