"""Transforms of an episode's rows before any method: "bpa+cipa" is CIPA on rows that `bpa` made, "whiten+bapa" BAPA on
whitened ones."""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import of_base, powered, transductive_only, unit
from protoadapt.core.methods.settings import Exponent, Power, Setting, checked

Regularization = Annotated[float, Setting("entropy regularisation of the transport", 1e-3, 1e3)]
Rounds = Annotated[int, Setting("rounds of Sinkhorn's iteration", 1, 100_000)]
ITSELF = 1e5
"""Cost of matching a row with itself."""
SHARE = 0.1
"""Of the covariance in what `whiten` divides by; from validation classes."""


@checked
def bpa(episodes: Episodes, *, reg: Regularization = 0.2, rounds: Rounds = 10) -> Episodes:
    """Each row becomes its matching to all rows of the episode: (S + Q)-dimensional rows in [0, 1]. Shalam, Korman: The
    Balanced-Pairwise-Affinities Feature Transform (ICML 2024).

    The matching is the optimal transport plan, with equal row and column sums, between the rows and themselves under
    the cost 1 − cos, where no row may match itself; divided by its largest entry, and 1 between a row and itself. Rows
    that match the same rows become alike. Every episode takes the same number of rounds, so that its rows do not depend
    on its neighbours in a batch.

    >>> cipa(bpa(episodes))    # as the method "bpa+cipa"    # doctest: +SKIP
    """
    transductive_only(episodes, "BPA")
    episodes = episodes.each_row(unit)
    x = torch.cat([episodes.support, episodes.query], 1)
    itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    logits = -(1 - x @ x.mT).masked_fill(itself, ITSELF) / reg
    for _ in range(rounds):
        logits = logits - logits.logsumexp(2, keepdim=True)
        logits = logits - logits.logsumexp(1, keepdim=True)
    plan = (logits - logits.amax((1, 2), keepdim=True)).exp().masked_fill(itself, 1)
    support, query = plan.split([episodes.support_index.shape[1], episodes.query_index.shape[1]], 1)
    return Episodes.from_tensors(support, episodes.support_labels, query, episodes.n_way)


@checked
def whiten(episodes: Episodes, *, beta: Exponent = 0.5, power: Power = "auto") -> Episodes:
    """Directions in which rows of one class differ much count less.

    With Σ = `episodes.base_covariance` (D, D), the covariance of base classes' rows within their classes, and σ̄² the
    mean of its diagonal, a power-transformed row x becomes L⁻¹x, where L Lᵀ = 0.9 I + 0.1 Σ/σ̄². A method behind it has
    its own power transform left out, unless its setting `power` says otherwise.

    >>> cipa(whiten(episodes), power="off")    # as the method "whiten+cipa"    # doctest: +SKIP
    """
    covariance = of_base(episodes, "covariance", "whiten")
    return powered(episodes, beta, power).each_row(_whitened, covariance=covariance)


def _whitened(rows: Tensor, covariance: Tensor) -> Tensor:
    identity = torch.eye(len(covariance)).to(covariance)
    mixed = (1 - SHARE) * identity + SHARE * covariance / covariance.diagonal().mean()
    factor, wrong = torch.linalg.cholesky_ex(mixed)
    if wrong:
        raise UserError(
            "base_covariance is not a covariance, or all its variances are 0: compute it from several different rows "
            "per class"
        )
    return rows @ torch.linalg.solve_triangular(factor, identity, upper=False).mT
