"""CIPA: Calibrated Iterative Prototype Adaptation.

Ye, Lin, Burachas, Divakaran, Yao: Hybrid Consistency Training with Prototype Adaptation for Few-Shot Learning (2020).
Features are calibrated (power, centre, unit length), then unlabelled rows move the class prototypes in small soft
steps. No class sizes are assumed. But the queries are centred by their own mean: with very few queries, or with
queries of one class alone, that mean is the answer itself and CIPA falls to chance. Use it where queries are many and
of all classes; where that is not known, use `bapa`.
"""

from collections.abc import Iterator

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.adaptation import Adaptation, adapt, prototype_path
from protoadapt.core.methods.normalize import power_transform as power_transform
from protoadapt.core.methods.normalize import powered as powered


def cipa(
    episodes: Episodes,
    *,
    n_iter: int = 20,
    sigma: float = 0.2,
    tau: float = 10.0,
    beta: float = 0.5,
    power: str = "strict",
    center: str = "separate",
    l2: bool = True,
    query_center: str = "none",
) -> Tensor:
    """The paper's Algorithm 1; every switch of its ablation is an argument. Returns (E, Q, W).

    power         "strict" asks for non-negative features, "signed" takes sign(x)·|x|^β, "auto" chooses by the
                  entry's sign, "off" leaves the step out (with its normalisation).
    center        "separate" (the paper's: support and queries each by their own mean), "joint", "support" or "none".
    query_center  semi-supervised only: "none" (the paper's) or "unlabeled".
    τ is not in the paper; 10 was chosen on validation classes, where 5 to 20 differ by less than a point.
    """
    how = Adaptation("cosine", tau, n_iter, sigma, center, l2, query_center)
    return adapt(powered(episodes, beta, power), how)


def cipa_steps(
    episodes: Episodes,
    *,
    n_iter: int = 20,
    sigma: float = 0.2,
    tau: float = 10.0,
    beta: float = 0.5,
    power: str = "strict",
    center: str = "separate",
    l2: bool = True,
) -> Iterator[Tensor]:
    """The n_iter + 1 positions (E, W, D) of CIPA's prototypes among the calibrated rows."""
    how = Adaptation("cosine", tau, n_iter, sigma, center, l2)
    return prototype_path(powered(episodes, beta, power), how)
