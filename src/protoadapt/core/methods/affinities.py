"""BPA, a transform of an episode's rows before any method. Shalam, Korman: The Balanced-Pairwise-Affinities Feature
Transform (ICML 2024).

Each row becomes its matching to all rows of the episode: the optimal transport plan, with equal row and column sums,
between the rows and themselves under the cost 1 − cos, where no row may match itself. Rows that match the same rows
become alike. The plan is divided by its largest entry, and each row matches itself with 1.
"""

from typing import Annotated

import torch

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import transductive_only, unit
from protoadapt.core.methods.settings import Setting, checked

Regularization = Annotated[float, Setting("entropy regularisation of the transport", 1e-3, 1e3)]
Rounds = Annotated[int, Setting("rounds of Sinkhorn's iteration", 1, 100_000)]
ITSELF = 1e5
"""Cost of matching a row with itself."""


@checked
def bpa(episodes: Episodes, *, reg: Regularization = 0.2, rounds: Rounds = 10) -> Episodes:
    """The same episodes with (S + Q)-dimensional rows, in [0, 1].

    Every episode takes the same number of rounds, so that its rows do not depend on its neighbours in a batch.

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
