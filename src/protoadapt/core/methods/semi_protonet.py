"""SemiPN: soft k-means on raw features. Ren et al.: Meta-Learning for Semi-Supervised Few-Shot Classification
(ICLR 2018).

Prototypes start at the support means and are estimated again from the support and the softly assigned unlabelled rows.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.family import adapt
from protoadapt.core.methods.protonet import metric_rule
from protoadapt.core.methods.settings import Metric, MetricScale, Steps, checked


@checked
def semi_protonet(
    episodes: Episodes, *, n_iter: Steps = 1, metric: Metric = "euclid", tau: MetricScale = None
) -> Tensor:
    """Prototypes estimated n_iter times from support and softly assigned unlabelled rows. Returns (E, Q, W).

    Without unlabelled rows the queries take their place. The CIPA paper reports 1 and 5 steps.
    """
    return adapt(episodes, metric_rule(metric, tau, n_iter))
