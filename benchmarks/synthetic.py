"""Made-up features for benchmarks and tests."""

import numpy as np
import torch

from protoadapt.core.features import Features, base_statistics


def synthetic_features(
    classes: int = 20, rows: int = 120, dim: int = 64, spread: float = 1.1, seed: int = 0
) -> Features:
    """Rectified Gaussian clouds around random class centres, `rows` per class.

    Centres have a standard deviation of 0.6 per dimension, rows `spread` around their centre.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dim))
    labels = np.repeat(np.arange(classes), rows)
    features = np.maximum(0.6 * centres[labels] + spread * rng.normal(size=(len(labels), dim)) + 0.3, 0)
    table = torch.from_numpy(features).float()
    names = torch.from_numpy(labels)
    base = base_statistics(table, names) | {"base_mean": torch.full((dim,), float(features.mean()))}
    return Features(table, names, metadata={"dataset": "synthetic clouds"}, **base)
