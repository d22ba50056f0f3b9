"""ProtoNet's inference: the nearest class mean. Snell, Swersky, Zemel: Prototypical Networks (NeurIPS 2017)."""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.adaptation import Adaptation, adapt

RULES = ("cosine", "euclid")


def protonet(episodes: Episodes, *, metric: str = "cosine", tau: float | None = None) -> Tensor:
    """softmax(τ·cos(q, p)), τ = 10, or softmax(−τ‖q − p‖²), τ = 1, at the support means p. Returns (E, Q, W).

    Inductive: each query is answered alone. Cosine on raw features is what the CIPA paper calls "PN".
    """
    return adapt(episodes, Adaptation(rule(metric), scale(metric, tau), n_iter=0))


def rule(metric: str) -> str:
    if metric not in RULES:
        raise UserError(f"metric is {metric!r}: choose cosine or euclid")
    return metric


def scale(metric: str, tau: float | None) -> float:
    return (10.0 if metric == "cosine" else 1.0) if tau is None else tau
