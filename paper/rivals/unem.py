"""UNEM-Gaussian. Zhou, Martin, Ben Ayed, Pesquet, Chouzenoux: UNEM: UNrolled Generalized EM for Transductive Few-Shot
Learning (CVPR 2025).

PADDLE cut to a few rounds ("layers") whose weights are learned on validation tasks: the length of the rows, and for
each layer the weight γ of the size term and a temperature T. With N queries,

    u = softmax_c((−½‖q − w_c‖² + γ_l v_c) / T_l),   v and w as in PADDLE .

The defaults are a plain guess: learn the weights for a network and a kind of tasks with `fit_unem`. The authors scale
raw features; here rows have unit length first, so that one scale fits any network.
Axes: E episodes, W classes, S support rows, Q queries, D.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import class_means, transductive_only, unit
from protoadapt.core.methods.paddle import centroids, log_sizes, similarity
from protoadapt.core.methods.settings import Setting, checked

Length = Annotated[float, Setting("length of the rows", 1e-3, 1e3)]
Gammas = Annotated[Sequence[float], Setting("γ, weight of the size term in each layer", 0, 1e3)]
Temperatures = Annotated[Sequence[float], Setting("temperature T of each layer", 1e-3, 1e3)]
LAYERS = 10


@checked
def unem(
    episodes: Episodes,
    *,
    scale: Length = 10.0,
    gammas: Gammas = (2.0,) * LAYERS,
    temps: Temperatures = (2.0,) * LAYERS,
) -> Tensor:
    """PADDLE with learned weights, one round per pair of `gammas` and `temps`. Returns (E, Q, W).

    >>> unem(episodes, **fit_unem(validation_episodes, validation_labels))    # doctest: +SKIP
    """
    transductive_only(episodes, "UNEM")
    rows = episodes.each_row(unit)
    return _layers(scale * rows.support, rows.membership, scale * rows.query, gammas, temps)


def _layers(
    support: Tensor, y: Tensor, query: Tensor, gammas: Sequence[float] | Tensor, temps: Sequence[float] | Tensor
) -> Tensor:
    """(E, Q, W): the assignments of the last layer."""
    w, v = class_means(support, y), torch.zeros_like(support[:, :1, :1])
    u = similarity(query, w).softmax(-1)
    for gamma, temp in zip(gammas, temps):
        u = ((similarity(query, w) + gamma * v) / temp).softmax(-1)
        w, v = centroids(support, y, query, u), log_sizes(u)
    return u


def fit_unem(
    episodes: Episodes,
    query_labels: Tensor,
    *,
    n_iter: int = 100,
    lr: float = 0.1,
    scale: float = 10.0,
) -> dict[str, float | list[float]]:
    """The settings of `unem` that fit validation episodes, learned as its authors do.

    Parameters
    ----------
    episodes : Episodes
        Validation tasks, all of one kind; a few hundred are enough.
    query_labels : Tensor (E, Q)
        Their right answers.
    n_iter, lr : steps of Adam and its learning rate, which is halved after half of the steps.
    scale : where the length of the rows starts.

    Returns
    -------
    dict
        scale, gammas and temps, for `unem(episodes, **settings)`.
    """
    rows = episodes.each_row(unit)
    support, y, query = rows.support, rows.membership, rows.query
    length = nn.Parameter(support.new_tensor(1.0))
    gammas, temps = (nn.Parameter(support.new_ones(LAYERS)) for _ in range(2))
    adam = torch.optim.Adam([length, gammas, temps], lr=lr)
    schedule = torch.optim.lr_scheduler.StepLR(adam, max(1, n_iter // 2), 0.5)
    start = scale / float(softplus(length.detach()))

    def positive() -> tuple[Tensor, Tensor, Tensor]:
        return start * softplus(length), softplus(gammas), 1 + softplus(temps)

    with torch.enable_grad():
        for _ in range(n_iter):
            along, gamma, temp = positive()
            u = _layers(along * support, y, along * query, gamma, temp)
            adam.zero_grad()
            # The authors give probabilities to a loss that expects logits. That bounds it: no query is worth much.
            cross_entropy(u.flatten(0, 1), query_labels.flatten()).backward()
            adam.step()
            schedule.step()
    found, gamma, temp = (part.detach().cpu() for part in positive())
    return {
        "scale": round(float(found), 4),
        "gammas": [round(float(one), 4) for one in gamma],
        "temps": [round(float(one), 4) for one in temp],
    }
