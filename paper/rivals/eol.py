"""EOL. Ochal, Patacchiola, Boudiaf, Wang: EOL: Transductive Few-Shot Open-Set Recognition by Enhancing Outlier Logits
(arXiv 2408.02052, 2024).

Prototypes μ and for each class a scale η and a shift δ of its logits are learned per task by Adam. With rows about the
mean of the base classes, of unit length, and b the expected share of queries that are of no class of the task,

    l_c = τ (e^η_c cos(x, μ_c) + δ_c),   p_c = softmax_c(l) o,   o = σ(log Σ_c e^l_c − log W + log b)
    loss = −mean_S log p_y + mean_Q H(p)/W + mean_c m_c log m_c + m_o log m_o
    m_c = K/(1 − b) mean_Q p_c,   m_o = mean_Q (1 − Σ_c p_c)/b .

o says how far a query belongs to one of the classes. At the end the prototypes are the means of all rows, weighed by p.
Axes: E episodes, W classes, S support rows, Q queries, D.
"""

import math
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import normalize

from paper.rivals.oslo import answered
from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, class_means, transductive_only, unit
from protoadapt.core.methods.settings import LearningRate, LogitScale, Setting, Steps, checked

Share = Annotated[float, Setting("b, expected share of queries of no class", 1e-3, 0.999)]


@checked
def eol(
    episodes: Episodes, *, b: Share = 0.5, n_iter: Steps = 50, lr: LearningRate = 0.01, temp: LogitScale = 10.0
) -> Tensor:
    """Prototypes and a scale and a shift of each class's logits, learned per task. Returns (E, Q, W).

    The rows' centre is the mean of the base classes; without it the mean of the task's rows. The authors give b where
    they know it: 0.5 for as many queries of no class as others, 0.3 and 0.7 for 5 beside 25 and 25 beside 5.

    >>> eol(episodes, b=0.3).amax(-1)    # (E, Q), low for queries that belong to no class    # doctest: +SKIP
    """
    transductive_only(episodes, "EOL")
    y, n_way, n_support = episodes.membership.double(), episodes.n_way, episodes.support_index.shape[1]
    rows = torch.cat([episodes.support, episodes.query], 1).double()  # Adam enlarges the rounding of tiny gradients
    base = episodes.base_mean
    rows = unit(rows - (rows.mean(1, keepdim=True) if base is None else base.double()))
    mu = class_means(rows[:, :n_support], y).requires_grad_()
    eta, delta = (torch.zeros_like(y[:, :1], requires_grad=True) for _ in range(2))
    adam = torch.optim.Adam([mu, eta, delta], lr=lr)

    def logits(prototypes: Tensor) -> Tensor:
        """(E, N, W)"""
        return temp * (eta.exp() * (rows @ normalize(prototypes, dim=-1).mT) + delta)

    def belonging(scores: Tensor) -> Tensor:
        """(E, N, 1): o of each row."""
        return (scores.logsumexp(-1, keepdim=True) + math.log(b / n_way)).sigmoid()

    for _ in range(n_iter):
        with torch.enable_grad():
            scores = logits(mu)
            p = scores.softmax(-1) * belonging(scores)
            support, query = p[:, :n_support], p[:, n_support:]
            fit = -(y * (support + 1e-12).log()).sum(-1).mean(1)
            doubt = _entropy(query).sum(-1).mean(1) / n_way
            known = n_support / n_way / (1 - b) * query.mean(1)
            strange = (1 - query.sum(-1)).mean(1) / b
            loss = (fit + doubt - _entropy(known).mean(-1) - _entropy(strange)).sum()
        mu.grad, eta.grad, delta.grad = torch.autograd.grad(loss, [mu, eta, delta])
        adam.step()
    with torch.no_grad():
        scores = logits(mu)
        belongs = belonging(scores)
        p = scores.softmax(-1) * belongs
        refined = p.mT @ rows / p.sum(1)[..., None].clamp_min(TINY)
        return answered(logits(refined)[:, n_support:], belongs[:, n_support:]).to(episodes.rows)


def _entropy(p: Tensor) -> Tensor:
    return -p * (p + 1e-12).log()
