"""α-TIM. Veilleux, Boudiaf, Piantanida, Ben Ayed: Realistic Evaluation of Transductive Few-Shot Learning
(NeurIPS 2021).

TIM by gradient descent with α-entropies in place of Shannon's, so that unequal class sizes cost less.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import transductive_only
from protoadapt.core.methods.settings import LearningRate, LossWeights, Setting, Steps, Temperature, checked
from protoadapt.core.methods.tim import descend

Order = Annotated[
    float | None,
    Setting("order α of the entropies, above 1; none: 2 with one shot, 5 with two to four, 7 with more", 1.001, 1e3),
]


@checked
def alpha_tim(
    episodes: Episodes,
    *,
    alpha: Order = None,
    n_iter: Steps = 1000,
    lr: LearningRate = 1e-4,
    temp: Temperature = 15.0,
    weights: LossWeights = (1.0, 1.0, 1.0),
) -> Tensor:
    """TIM-GD whose two query entropies are H_α(p) = (1 − Σ p^α)/(α − 1). Returns (E, Q, W).

    H_α(Y) is flatter around equal class sizes than Shannon's entropy, so they may differ; the cross-entropy stays
    Shannon's.
    """
    transductive_only(episodes, "α-TIM")
    if alpha is None:
        shots = episodes.shots.mean(1)
        orders = torch.where(shots < 2, 2.0, torch.where(shots < 5, 5.0, 7.0)).to(episodes.rows)
    else:
        orders = episodes.rows.new_full((len(episodes),), alpha)
    return descend(episodes, orders, n_iter, lr, temp, weights)
