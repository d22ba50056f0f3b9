"""Whitening, a transform of an episode's rows before any method: directions in which rows of one class differ much
count less.

With Σ the covariance of base classes' rows within their classes and σ̄² the mean of its diagonal, a power-transformed
row x becomes L⁻¹x, where L Lᵀ = 0.9 I + 0.1 Σ/σ̄²; the shares are from validation classes.
"""

from math import inf

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import powered
from protoadapt.core.methods.settings import Exponent, Power, checked

SHARE = 0.1


@checked
def whiten(episodes: Episodes, *, beta: Exponent = 0.5, power: Power = "auto") -> Episodes:
    """The same episodes with power-transformed rows whitened by `episodes.base_covariance` (D, D).

    A method behind it has its own power transform left out, unless its setting `power` says otherwise.

    >>> cipa(whiten(episodes), power="off")    # as the method "whiten+cipa"    # doctest: +SKIP
    """
    if episodes.base_covariance is None:
        raise UserError(
            "whiten needs the covariance of the base classes' features, which is missing: give it with --base FILE "
            "(in Python base_covariance; bpa leaves none), or leave out whiten"
        )
    if not 0 < float(episodes.base_covariance.diagonal().mean()) < inf:
        raise UserError(
            "whiten needs base classes whose rows differ: give --base a file with several different rows per class, or "
            "leave out whiten"
        )
    return powered(episodes, beta, power).each_row(_whitened, covariance=episodes.base_covariance)


def _whitened(rows: Tensor, covariance: Tensor) -> Tensor:
    identity = torch.eye(len(covariance)).to(covariance)
    mixed = (1 - SHARE) * identity + SHARE * covariance / covariance.diagonal().mean()
    factor, wrong = torch.linalg.cholesky_ex(mixed)
    if wrong:
        raise UserError("base_covariance is not a covariance: some variances are negative; compute it again")
    return rows @ torch.linalg.solve_triangular(factor, identity, upper=False).mT


whiten.implies = {"power": "off"}  # type: ignore[attr-defined]  # settings that a method behind it takes by default
