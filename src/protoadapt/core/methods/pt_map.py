"""PT+MAP. Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-based Few-Shot Learning (ICANN 2021)."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.adaptation import Adaptation, adapt, prototype_path
from protoadapt.core.methods.cipa import powered


def pt_map(
    episodes: Episodes,
    *,
    n_iter: int = 20,
    step: float = 0.2,
    lam: float = 10.0,
    beta: float = 0.5,
    power: str = "strict",
    class_prior: Sequence[float] | Tensor | None = None,
) -> Tensor:
    """Calibrated as CIPA; assignments are Sinkhorn's transport plan with fixed class sizes. Returns (E, Q, W).

    The class sizes are an assumption: equal ones unless `class_prior` (W shares) tells others. On imbalanced queries
    that assumption is wrong and costs many points.
    """
    return adapt(powered(episodes, beta, power), _how(n_iter, step, lam, class_prior))


def pt_map_steps(
    episodes: Episodes,
    *,
    n_iter: int = 20,
    step: float = 0.2,
    lam: float = 10.0,
    beta: float = 0.5,
    power: str = "strict",
    class_prior: Sequence[float] | Tensor | None = None,
) -> Iterator[Tensor]:
    """The n_iter + 1 positions (E, W, D) of the class centres among the calibrated rows."""
    return prototype_path(powered(episodes, beta, power), _how(n_iter, step, lam, class_prior))


def _how(n_iter: int, step: float, lam: float, class_prior) -> Adaptation:
    prior = None if class_prior is None else torch.as_tensor(class_prior)
    return Adaptation("sinkhorn", lam, n_iter, step, center="separate", l2=True, class_prior=prior)
