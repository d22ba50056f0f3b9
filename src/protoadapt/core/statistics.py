"""Confidence intervals, paired differences and a correction for multiple comparisons.

Two intervals answer two questions. Over episodes: how far would the mean move with other episodes of the same classes?
More episodes make it smaller. Over classes (jackknife): how far would it move with other novel classes? Only more
classes make that one smaller.
"""

import math
from collections.abc import Sequence

import numpy as np


def half_width(values: np.ndarray) -> float:
    """Half-width of the 95 % confidence interval of a mean over episodes (E,): 1.96·s/√E; 0 for one episode."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def class_half_width(values: np.ndarray, class_episodes: np.ndarray, class_sums: np.ndarray) -> float | None:
    """Half-width of the 95 % confidence interval over classes (jackknife; Arvesen 1969 for means over subsets).

    Leaves out one class at a time:

        θ_c = mean of the episodes without class c        s² = (C−1)/C · Σ_c (θ_c − θ̄)²        1.96·s

    With d classes per episode, every θ_c is a mean over a different part of the episodes. Episodes that only vary by
    σ² around one mean would give s² = k·σ²/E with k = d(C−1)/(C−d); all but the σ²/E of the mean itself is subtracted.
    `values` (E,) has one number per episode, `class_episodes` (C,) the number of episodes that contain each class and
    `class_sums` (C,) the sum of their values. None where some class is in every episode, or with one class or episode.
    """
    episodes, classes = len(values), len(class_episodes)
    without = episodes - class_episodes
    if classes < 2 or episodes < 2 or not without.all():
        return None
    means = (values.sum() - class_sums) / without
    jackknife = (classes - 1) * means.var()
    own = values.var(ddof=1) / episodes
    way = class_episodes.sum() / episodes
    k = way * (classes - 1) / (classes - way)
    return float(1.96 * np.sqrt(max(jackknife - (k - 1) * own, own)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted so that the chance of any false discovery is controlled (Holm 1979, a step-down Bonferroni).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.array(p_values)
    order = np.argsort(p_values)
    p[order] = np.maximum.accumulate(np.minimum(1, p[order] * np.arange(len(p), 0, -1)))
    return p.tolist()


def mean_over_runs(runs: Sequence[np.ndarray]) -> tuple[float, float, float | None]:
    """Mean, 95 % half-width and spread of R runs (E_r,): several seeds, feature files, or both.

    The mean weighs every run equally. The half-width takes the runs as they are (1.96·√(Σ s_r²/E_r)/R); the spread, the
    standard deviation of the runs' means (None for one run), shows how much the choice of seed or file matters.
    """
    means = [float(run.mean()) for run in runs]
    width = math.sqrt(sum(half_width(run) ** 2 for run in runs)) / len(runs)
    return float(np.mean(means)), width, float(np.std(means, ddof=1)) if len(runs) > 1 else None


def p_value(mean: float, ci95: float) -> float:
    """Two-sided p-value of "the mean is 0" from a 95 % half-width, by the normal distribution."""
    if ci95 == 0:
        return float(mean == 0)
    return math.erfc(abs(mean) * 1.96 / ci95 / math.sqrt(2))
