"""Transductive fine-tuning, of the head only. Dhillon, Chaudhari, Ravichandran, Soatto: A Baseline for Few-Shot Image
Classification (ICLR 2020).

A linear head learns from the support's labels and from the queries' entropy; the features stay fixed.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import class_means, transductive_only, unit
from protoadapt.core.methods.settings import LearningRate, Setting, checked
from protoadapt.core.methods.tim import slope, through_softmax

Epochs = Annotated[int, Setting("number of epochs, each a step on the support and one on the queries", 0, 100_000)]


@checked
def transductive_fine_tuning(episodes: Episodes, *, n_epochs: Epochs = 25, lr: LearningRate = 5e-5) -> Tensor:
    """A linear head on unit rows, started at the unit class means; an epoch is one step of Adam on the support's
    cross-entropy and one on the queries' entropy. Returns (E, Q, W).

    The paper tunes the whole network this way, on the base classes' logits. Here features are fixed and only the head
    learns, so its numbers are not the paper's.
    """
    transductive_only(episodes, "transductive fine-tuning")
    y = episodes.membership.mT
    w = unit(class_means(episodes.support, episodes.membership))  # (E, W, D)
    b = torch.zeros_like(w[..., :1])
    episodes = episodes.each_row(unit)
    support, query = episodes.support, episodes.query
    adam = torch.optim.Adam([w, b], lr=lr, fused=True)

    def posteriors(rows: Tensor) -> Tensor:
        """(E, W, rows)"""
        return (w @ rows.mT + b).softmax(1)

    def step(rows: Tensor, g: Tensor) -> None:
        """g = ∂loss/∂logits, (E, W, rows)."""
        w.grad, b.grad = g @ rows, g.sum(-1, keepdim=True)
        adam.step()

    for _ in range(n_epochs):
        step(support, (posteriors(support) - y) / support.shape[1])
        p = posteriors(query)
        step(query, through_softmax(p, slope(p)) / query.shape[1])
    return posteriors(query).mT
