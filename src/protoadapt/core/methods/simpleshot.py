"""SimpleShot (CL2N). Wang, Chao, Weinberger, van der Maaten: SimpleShot (2019).

Rows are centred by the mean of the base classes' features and scaled to unit length; the nearest class mean answers.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import cl2n, class_means, sq_distances, tied_argmax


def simpleshot(episodes: Episodes) -> Tensor:
    """The nearest class mean by Euclidean distance, base-centred unit rows. Returns (E, Q, W), one-hot.

    Inductive. Needs `episodes.base_mean`.
    """
    episodes = cl2n(episodes, "SimpleShot")
    centroids = class_means(episodes.support, episodes.membership)
    return tied_argmax(-sq_distances(episodes.query, centroids))
