"""SemiPN: soft k-means on raw features. Ren et al.: Meta-Learning for Semi-Supervised Few-Shot Classification
(ICLR 2018).
"""

from collections.abc import Iterator

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.adaptation import Adaptation, adapt, prototype_path
from protoadapt.core.methods.protonet import rule, scale


def semi_protonet(episodes: Episodes, *, n_iter: int = 1, metric: str = "euclid", tau: float | None = None) -> Tensor:
    """Prototypes re-estimated n_iter times from support and softly assigned unlabelled rows. Returns (E, Q, W).

    Where no unlabelled rows are given, the queries serve as such. The CIPA paper reports 1 and 5 steps.
    """
    return adapt(episodes, Adaptation(rule(metric), scale(metric, tau), n_iter))


def semi_protonet_steps(
    episodes: Episodes, *, n_iter: int = 1, metric: str = "euclid", tau: float | None = None
) -> Iterator[Tensor]:
    """The n_iter + 1 positions (E, W, D) of the prototypes."""
    return prototype_path(episodes, Adaptation(rule(metric), scale(metric, tau), n_iter))
