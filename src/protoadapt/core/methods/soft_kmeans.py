"""Soft k-means as EASY uses it. Bendou et al.: EASY, Ensemble Augmented-Shot Y-shaped Learning (2022).

All rows are centred by their common mean and scaled to unit length; then soft k-means starts at the support means.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.family import Rule, adapt
from protoadapt.core.methods.settings import DistanceScale, Steps, checked


@checked
def soft_kmeans(episodes: Episodes, *, n_iter: Steps = 29, tau: DistanceScale = 5.0) -> Tensor:
    """Joint centre, unit length, then assignments softmax(−5‖u − p‖²). Returns (E, Q, W).

    The authors run 30 rounds and answer with the 30th round's distances: 29 updates.
    """
    return adapt(episodes, joint_rule(n_iter, tau))


def joint_rule(n_iter: int, tau: float) -> Rule:
    """Soft k-means' choices."""
    return Rule("euclid", tau, n_iter, center="joint", l2=True, query_center="unlabeled")
