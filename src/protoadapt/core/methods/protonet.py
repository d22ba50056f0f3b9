"""ProtoNet's inference: the nearest class mean. Snell, Swersky, Zemel: Prototypical Networks (NeurIPS 2017).

Each query is answered alone, by the similarity of its raw features to the mean of each class's support rows.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.family import Rule, adapt
from protoadapt.core.methods.settings import Metric, MetricScale, checked


@checked
def protonet(episodes: Episodes, *, metric: Metric = "cosine", tau: MetricScale = None) -> Tensor:
    """softmax(τ·cos(q, p)), τ = 10, or softmax(−τ‖q − p‖²), τ = 1, at the support means p. Returns (E, Q, W).

    Inductive. Cosine on raw features is what the CIPA paper calls "PN".
    """
    return adapt(episodes, metric_rule(metric, tau, n_iter=0))


def metric_rule(metric: str, tau: float | None, n_iter: int) -> Rule:
    """The steps of ProtoNet (none) and SemiPN on raw features."""
    usual = 10.0 if metric == "cosine" else 1.0
    return Rule(metric, usual if tau is None else tau, n_iter)
