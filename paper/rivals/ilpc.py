"""iLPC. Lazarou, Stathaki, Avrithis: Iterative Label Cleaning for Transductive and Semi-Supervised Few-Shot Learning
(ICCV 2021).

Labels spread over a graph of neighbours, a linear head finds the cleanest of them, and those join the support. With
A = cos³ at the nearest other rows, S = D^−½ (A + Aᵀ) D^−½ and the labels Y of the rows that are labelled so far,

    Z = (I − αS)⁻¹ Y,   then Z³ scaled to the class sizes (Sinkhorn's iteration), and the largest entry is the label;

a linear head learns all labels by gradient descent, and of each label the rows with the lowest loss, in the mean over
its steps, keep theirs. In float64, one task after the other. N = S + Q rows, W classes.
"""

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import neighbours, shares, transductive_only, unit
from protoadapt.core.methods.settings import ClassPrior, LearningRate, Setting, checked

Neighbours = Annotated[int, Setting("number of nearest neighbours in the graph", 1, 100_000)]
Spread = Annotated[float, Setting("α, share of its label that a row takes from its neighbours", 0, 0.999)]
HeadSteps = Annotated[int, Setting("training steps of the linear head in each round", 1, 100_000)]
Momentum = Annotated[float, Setting("momentum of the head's gradient descent", 0, 0.999)]
Decay = Annotated[float, Setting("weight decay of the head", 0, 1)]
Balance = Annotated[bool, Setting("even the labels out to known class sizes; false where the balance is unknown")]

PerClass = Annotated[int, Setting("queries per class that join the support in each round", 1, 100_000)]


@checked
def ilpc(
    episodes: Episodes,
    *,
    n_neighbors: Neighbours = 15,
    alpha: Spread = 0.8,
    per_class: PerClass = 3,
    n_steps: HeadSteps = 1000,
    lr: LearningRate = 0.1,
    momentum: Momentum = 0.9,
    weight_decay: Decay = 5e-4,
    sinkhorn: Balance = True,
    class_prior: ClassPrior = None,
) -> Tensor:
    """Labels spread over a neighbour graph; the cleanest join the support, round after round. Returns (E, Q, W), hard.

    It ends when no query is open, or when fewer than W would join the support: the rest then keep their labels.
    """
    transductive_only(episodes, "iLPC")
    n_way, n_query, shots = episodes.n_way, episodes.query_index.shape[1], episodes.support_index.shape[1]
    x = unit(torch.cat([episodes.support, episodes.query], 1).double())
    cosines = x @ x.mT
    graph = neighbours(-cosines, n_neighbors) * cosines.clamp_min(0) ** 3
    sizes = (n_query * shares(class_prior, n_way, x)).cpu().numpy()
    one_hot, answers = np.eye(n_way), []
    for gram, A, known in zip(cosines.cpu().numpy(), graph.cpu().numpy(), episodes.membership.cpu().numpy()):
        A = A + A.T
        root = 1 / np.sqrt(np.maximum(A.sum(1), 1e-12))
        spread = np.linalg.inv(np.eye(len(A)) - alpha * root[:, None] * A * root)
        y, quota = np.concatenate([known, np.zeros((n_query, n_way))]), sizes
        is_open = np.arange(len(y)) >= shots
        while is_open.any():
            labelled = y * ~is_open[:, None]
            z = np.maximum(spread @ labelled, 0)[is_open]
            z = np.where(z.sum(1, keepdims=True) > 0, z, 1)
            z /= z.sum(1, keepdims=True)
            y[is_open] = one_hot[(_balanced(z**3, quota) if sinkhorn else z).argmax(1)]
            loss = _head_loss(gram, labelled, y, n_steps, lr, momentum, weight_decay)
            of_class = (np.flatnonzero(is_open & (y[:, c] > 0)) for c in range(n_way))
            clean = np.concatenate([rows[np.argsort(loss[rows], kind="stable")[:per_class]] for rows in of_class])
            if len(clean) < n_way:
                break
            is_open[clean] = False
            quota = quota - y[clean].sum(0)
        answers.append(y[shots:])
    return torch.from_numpy(np.stack(answers)).to(episodes.rows)


def _balanced(plan: np.ndarray, quota: np.ndarray) -> np.ndarray:
    """plan (n, W) scaled until rows sum to 1 and columns to the quota (W).

    Labels that joined the support may exceed a class's quota: it is then 0, and the others shrink to n rows.
    """
    quota = np.maximum(quota, 0)
    quota = quota * len(plan) / quota.sum()
    plan = plan * (quota > 0)
    plan[plan.sum(1) == 0] = quota
    before = np.zeros(len(plan))
    for _ in range(1000):
        now = plan.sum(1)
        if np.abs(now - before).max() <= 1e-6:
            break
        before, plan = now, plan / now[:, None]
        plan *= quota / np.maximum(plan.sum(0), 1e-12)
    return plan


def _head_loss(
    gram: np.ndarray, labelled: np.ndarray, y: np.ndarray, n_steps: int, lr: float, momentum: float, decay: float
) -> np.ndarray:
    """(N): each row's cross-entropy, averaged over the steps that train a linear head on all rows.

    Weights start at the unit class means of the labelled rows, the bias at 0; full batches, SGD with momentum. Every
    term of an update is linear in weights and bias, so the logits f = z·w + b obey the recursion of the parameters: the
    gradient g of the loss in f moves them by (z·zᵀ + 1) g. The 1 is the bias.
    """
    f = gram @ labelled  # the class sums times the rows
    f /= np.sqrt(np.maximum((labelled * f).sum(0), 1e-24))
    step = (gram + 1) / len(gram)  # the loss is the mean over N rows
    v, total = np.zeros_like(f), np.zeros(len(f))
    for _ in range(n_steps):
        e = np.exp(f - f.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        total -= np.log((p * y).sum(1))
        v = momentum * v + step @ (p - y) + decay * f
        f -= lr * v
    return total / n_steps
