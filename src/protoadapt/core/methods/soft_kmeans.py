"""Soft k-means as EASY uses it. Bendou et al.: EASY, Ensemble Augmented-Shot Y-shaped Learning (2022)."""

from collections.abc import Iterator

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.adaptation import Adaptation, adapt, prototype_path


def soft_kmeans(episodes: Episodes, *, n_iter: int = 29, tau: float = 5.0) -> Tensor:
    """Joint centre, unit length, then softmax(−5‖u − p‖²) assignments. Returns (E, Q, W).

    The authors run 30 rounds and answer with the 30th round's distances: 29 updates.
    """
    return adapt(episodes, _how(n_iter, tau))


def soft_kmeans_steps(episodes: Episodes, *, n_iter: int = 29, tau: float = 5.0) -> Iterator[Tensor]:
    """The n_iter + 1 positions (E, W, D) of the prototypes."""
    return prototype_path(episodes, _how(n_iter, tau))


def _how(n_iter: int, tau: float) -> Adaptation:
    return Adaptation("euclid", tau, n_iter, center="joint", l2=True, query_center="unlabeled")
