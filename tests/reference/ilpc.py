"""iLPC: iterative label propagation and cleaning (Lazarou, Stathaki & Avrithis, ICCV 2021)."""

import numpy as np

from .common import TIE, column_totals, hard, nearest_shares, one_hot, rows, scale_to, softmax, unit
from .common import sinkhorn as scale_plan


def graph(x, k):
    """Normalised affinities (N,N) of unit rows: positive cosine cubed to the k nearest others, W + Wᵀ, D^-½WD^-½."""
    similarity = x @ x.T
    w = nearest_shares(similarity, k) * np.maximum(similarity, 0.0) ** 3
    w = w + w.T
    degree = w.sum(axis=1)
    degree[degree == 0] = 1.0
    return w / np.sqrt(np.outer(degree, degree))


def average_losses(x, y, start, n_steps, lr, momentum, weight_decay):
    """Train a linear head on all rows; each row's cross-entropy averaged over the steps, taken before the update.

    torch's SGD: the decay joins the gradient (of the bias too), the buffer is momentum·buffer + gradient.
    """
    w, b = start.copy(), np.zeros(len(start))
    w_buffer, b_buffer = np.zeros_like(w), np.zeros_like(b)
    total = np.zeros(len(x))
    for _ in range(n_steps):
        p = softmax(x @ w.T + b)
        total -= (y * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        g = (p - y) / len(x)
        w_buffer = momentum * w_buffer + g.T @ x + weight_decay * w
        b_buffer = momentum * b_buffer + g.sum(axis=0) + weight_decay * b
        w, b = w - lr * w_buffer, b - lr * b_buffer
    return total / n_steps


def balanced(z, quota):
    """Cube, then Sinkhorn to row sums 1 and the quota; a class whose quota is spent gets nothing.

    A class may overdraw (three rows taken, two left), so the quota is cut at 0 and scaled to the rows that remain.
    """
    quota = np.maximum(quota, 0.0)
    quota = quota * len(z) / quota.sum()
    plan = np.where(quota > 0, z, 0.0) ** 3
    empty = plan.sum(axis=1) == 0
    plan[empty] = quota / quota.sum()
    return scale_plan(plan, quota)


def ilpc(
    support,
    support_labels,
    query,
    n_way,
    *,
    n_neighbors=15,
    alpha=0.8,
    per_class=3,
    n_steps=1000,
    lr=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    sinkhorn=True,
    class_prior=None,
):
    """Repeat: propagate labels on the graph, balance them, train a head on them, move the cleanest rows to the support.

    Labels are rows (one-hot; shared at exact ties). A moved row keeps its label for good. As in the authors' code the
    loop ends when a round would move fewer rows than there are classes; the rows left keep that round's labels.
    """
    x = np.concatenate([unit(rows(support)), unit(rows(query))])
    n_support, n = len(support), len(x)
    system = np.eye(n) - alpha * graph(x, n_neighbors)  # the rows never change, only who is labelled
    y = np.zeros((n, n_way))
    y[:n_support] = one_hot(support_labels, n_way)
    labelled = np.arange(n) < n_support
    quota = column_totals(len(query), n_way, class_prior)

    while not labelled.all():
        z = np.maximum(np.linalg.solve(system, y * labelled[:, None]), 0.0)[~labelled]
        mass = z.sum(axis=1, keepdims=True)
        z = np.where(mass > 0, z * scale_to(1.0, mass), 1.0 / n_way)
        y[~labelled] = hard(balanced(z, quota) if sinkhorn else z)

        total = y[labelled].sum(axis=0)
        imprinted = unit((y[labelled].T @ x[labelled]) / total[:, None])
        loss = average_losses(x, y, imprinted, n_steps, lr, momentum, weight_decay)

        clean = np.zeros(n, dtype=bool)
        for c in range(n_way):
            members = np.flatnonzero(~labelled & (y[:, c] > 0))
            if len(members) > 0:
                last = np.sort(loss[members])[min(per_class, len(members)) - 1]
                clean[members[loss[members] <= last + TIE]] = True
        if clean.sum() < n_way:
            break
        labelled |= clean
        quota = quota - y[clean].sum(axis=0)
    return y[n_support:]
