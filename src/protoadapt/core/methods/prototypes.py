"""ProtoNet, SemiPN and soft k-means: class means, and class means estimated again with unlabelled rows."""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.family import Rule, adapt
from protoadapt.core.methods.settings import DistanceScale, Metric, MetricScale, Steps, checked


@checked
def protonet(episodes: Episodes, *, metric: Metric = "cosine", tau: MetricScale = None) -> Tensor:
    """The nearest class mean. Snell, Swersky, Zemel: Prototypical Networks (NeurIPS 2017).

    softmax(τ·cos(q, p)), τ = 10, or softmax(−τ‖q − p‖²), τ = 1, at the support means p of raw features. Inductive: each
    query is answered alone. Cosine is what the CIPA paper calls "PN". Returns (E, Q, W).
    """
    return adapt(episodes, metric_rule(metric, tau, n_iter=0))


@checked
def semi_protonet(
    episodes: Episodes, *, n_iter: Steps = 1, metric: Metric = "euclid", tau: MetricScale = None
) -> Tensor:
    """SemiPN. Ren et al.: Meta-Learning for Semi-Supervised Few-Shot Classification (ICLR 2018).

    Soft k-means on raw features: prototypes start at the support means and are estimated n_iter times again, from the
    support and the softly assigned unlabelled rows, or without those the queries. The CIPA paper reports 1 and 5 steps.
    Returns (E, Q, W).
    """
    return adapt(episodes, metric_rule(metric, tau, n_iter))


@checked
def soft_kmeans(episodes: Episodes, *, n_iter: Steps = 29, tau: DistanceScale = 5.0) -> Tensor:
    """Soft k-means as EASY uses it. Bendou et al.: EASY, Ensemble Augmented-Shot Y-shaped Learning (2022).

    All rows are centred by their common mean and scaled to unit length; assignments softmax(−5‖u − p‖²), from the
    support means on. The authors run 30 rounds and answer with the 30th round's distances: 29 updates. Returns
    (E, Q, W).
    """
    return adapt(episodes, joint_rule(n_iter, tau))


def metric_rule(metric: str, tau: float | None, n_iter: int) -> Rule:
    """The steps of ProtoNet (none) and SemiPN on raw features."""
    usual = 10.0 if metric == "cosine" else 1.0
    return Rule(similarity=metric, scale=usual if tau is None else tau, n_iter=n_iter)


def joint_rule(n_iter: int, tau: float) -> Rule:
    """Soft k-means' choices."""
    return Rule(
        similarity="euclid",
        scale=tau,
        n_iter=n_iter,
        center="joint",
        l2=True,
        query_center="unlabeled",
    )
