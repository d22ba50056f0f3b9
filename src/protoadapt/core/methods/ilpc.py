"""iLPC. Lazarou, Stathaki, Avrithis: Iterative Label Cleaning for Transductive and Semi-Supervised Few-Shot Learning
(ICCV 2021).

Labels spread over a graph of neighbours, a linear head finds the cleanest of them, and those join the support.
Axes: E episodes, W classes, S support rows, Q queries, N = S + Q.
"""

from typing import Annotated

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import (
    TINY,
    lowest_of_each_class,
    neighbours,
    shares,
    tied_argmax,
    transductive_only,
    unit,
)
from protoadapt.core.methods.settings import ClassPrior, LearningRate, PerClass, Setting, checked

SINKHORN_ROUNDS = 1000
SINKHORN_STOP = 1e-6
"""Sinkhorn's iteration ends when no row sum moved by more than this in a round."""
Neighbours = Annotated[int, Setting("number of nearest neighbours in the graph", 1, 100_000)]
Spread = Annotated[float, Setting("α, share of its label that a row takes from its neighbours", 0, 0.999)]
HeadSteps = Annotated[int, Setting("training steps of the linear head in each round", 1, 100_000)]
Momentum = Annotated[float, Setting("momentum of the head's gradient descent", 0, 0.999)]
Decay = Annotated[float, Setting("weight decay of the head", 0, 1)]
Balance = Annotated[bool, Setting("even the labels out to known class sizes; false where the balance is unknown")]


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

    A round labels the open queries by propagation, evens the labels out to the class sizes by Sinkhorn, trains a linear
    head on all of them, and moves the `per_class` queries of each label that this head learnt most easily (lowest mean
    loss over its steps) to the support. It ends when none is open, or when fewer than W would move: the rest then keep
    their labels. Rounds choose among rows, so all is computed in float64.
    """
    transductive_only(episodes, "iLPC")
    rows = unit(torch.cat([episodes.support, episodes.query], 1).double())
    gram = rows @ rows.mT
    # The rows are the same in every round, only who is labelled changes: one inverse serves all.
    spread = torch.linalg.inv(torch.eye(gram.shape[1]).to(gram) - alpha * _graph(gram, n_neighbors))
    support_labels = episodes.membership.to(gram)
    n_support, n_query, n_way = support_labels.shape[1], episodes.query_index.shape[1], episodes.n_way
    quota = (n_query * shares(class_prior, n_way, gram)).repeat(len(gram), 1)
    answer = gram.new_zeros(len(gram), n_query, n_way)
    moved = torch.zeros(answer.shape[:2], dtype=torch.bool, device=gram.device)

    which = torch.arange(len(gram), device=gram.device)  # the episodes that still have open queries
    while len(which):
        done = moved[which, :, None]
        known = torch.cat([support_labels[which], answer[which] * done], 1)  # (E, N, W), 0 where open
        label = (spread[which] @ known)[:, n_support:].clamp_min(0)
        label = torch.where(label.sum(-1, keepdim=True) > 0, label, 1)
        label = label / label.sum(-1, keepdim=True)
        if sinkhorn:
            label = _transport(label**3, ~moved[which], quota[which])
        label = torch.where(done, answer[which], tied_argmax(label))
        labels = torch.cat([support_labels[which], label], 1)
        loss = _head_loss(gram[which], known, labels, n_steps, lr, momentum, weight_decay)[:, n_support:]
        move = lowest_of_each_class(loss, label * ~done, per_class)
        move = move & (move.sum(1, keepdim=True) >= n_way)
        answer[which] = label
        moved[which] |= move
        quota[which] -= (label * move[..., None]).sum(1)
        which = which[move.any(1) & ~moved[which].all(1)]
    return answer.to(episodes.rows.dtype)


def _graph(cosine: Tensor, k: int) -> Tensor:
    """D^-½ (A + Aᵀ) D^-½ with A = cos³ at the k nearest other rows, which share the last places where they tie."""
    A = neighbours(-cosine, k) * cosine.clamp_min(0) ** 3
    A = A + A.mT
    degree = A.sum(-1)
    scale = torch.where(degree > 0, degree, 1).rsqrt()
    return scale[..., None] * A * scale[:, None]


def _transport(plan: Tensor, is_open: Tensor, quota: Tensor) -> Tensor:
    """plan (E, Q, W) scaled until open rows sum to 1 and columns to the quota (E, W); closed rows are zero.

    Labels moved so far may exceed a class's quota: it is then 0, and the others shrink to the number of open rows.
    """
    quota = quota.clamp_min(0)
    quota = quota * (is_open.sum(1, keepdim=True) / quota.sum(1, keepdim=True).clamp_min(TINY))
    plan = plan * (quota > 0)[:, None]
    plan = torch.where(plan.sum(-1, keepdim=True) > 0, plan, quota[:, None]) * is_open[..., None]
    return transport_plan(plan.mT, quota[..., None]).mT


def _head_loss(
    gram: Tensor, known: Tensor, labels: Tensor, n_steps: int, lr: float, momentum: float, weight_decay: float
) -> Tensor:
    """(E, N): each row's cross-entropy, averaged over the steps that train a linear head on all rows.

    Weights start at the unit class means of the known rows, the bias at 0; full batches, SGD with momentum. Every term
    of an update is linear in weights and bias, so the logits f = w·z + b obey the same recursion as the parameters:
    v ← momentum·v + g (z·zᵀ + 1) + decay·f, f ← f − lr·v, g = ∂loss/∂f. The 1 is the bias.
    """
    inner = known.mT @ gram  # (E, W, N), the class sums times the rows
    length = (inner @ known).diagonal(dim1=1, dim2=2).clamp_min(0).sqrt()
    f = inner / length[..., None].clamp_min(TINY)
    step = (gram + 1) / gram.shape[1]  # the loss is the mean over N rows
    y = labels.mT
    v, total = torch.zeros_like(f), torch.zeros_like(f[:, 0])
    for _ in range(n_steps):
        log_p = f.log_softmax(1)
        total -= (y * log_p).sum(1)
        v = momentum * v + torch.baddbmm(weight_decay * f, log_p.exp() - y, step)
        f = f - lr * v
    return total / n_steps


def transport_plan(kernel: Tensor, size: Tensor) -> Tensor:
    """(E, W, U): a non-negative kernel scaled until the classes of each row sum to 1 and the rows of each class to its
    size (…, W, 1): Sinkhorn's iteration (Cuturi, 2013). A row that is zero stays zero.

    A round scales rows, then columns: plan = left · kernel · right, and only the scalings change. Each episode stops by
    itself, when no row sum moved by more than SINKHORN_STOP: its answer never depends on its neighbours.
    """
    left, right = torch.ones_like(kernel[:, :1]), torch.ones_like(kernel[:, :, :1])  # (E, 1, U), (E, W, 1)
    row_sums, running = torch.zeros_like(left), torch.ones_like(left[..., :1], dtype=torch.bool)
    for step in range(SINKHORN_ROUNDS):
        fill = right.mT @ kernel
        now = left * fill
        running = running & ((now - row_sums).abs().amax(-1, keepdim=True) > SINKHORN_STOP)
        if step % 8 == 0 and not running.any():  # asking waits for the device; what has stopped stays as it is
            break
        row_sums = now
        left = torch.where(running, 1 / fill.clamp_min(TINY), left)
        right = torch.where(running, size / (kernel @ left.mT).clamp_min(TINY), right)
    return left * kernel * right
