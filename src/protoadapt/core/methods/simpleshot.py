"""SimpleShot (CL2N). Wang, Chao, Weinberger, van der Maaten: SimpleShot (2019)."""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import cl2n, class_means, sq_distances
from protoadapt.core.methods.ties import tied_argmax


def simpleshot(episodes: Episodes) -> Tensor:
    """The nearest class mean, rows centred by the base classes' mean and of unit length. Returns (E, Q, W)."""
    episodes = cl2n(episodes, "SimpleShot")
    centroids = class_means(episodes.support, episodes.membership)
    return tied_argmax(-sq_distances(episodes.query, centroids))
