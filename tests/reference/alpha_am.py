"""α-AM: a graph that is learned per task (Lazarou, Avrithis & Stathaki, WACV 2024)."""

import numpy as np
import torch

from .common import class_means, nearest_shares, one_hot, rows, step_down, unit
from .tim import alpha_entropy, cross_entropy


def alpha_am(
    support,
    support_labels,
    query,
    n_way,
    *,
    n_iter=1000,
    n_neighbors=None,
    reach=None,
    alpha=None,
    lr=1e-4,
    temp=15.0,
    weights=(1.0, 1.0, 1.0),
):
    """Settled from the authors' code: distances are not squared; centroids have no neighbours of their own but may be
    a row's neighbours; B multiplies the symmetric graph before it is normalised, and the normalised one is multiplied
    by a once more. The answer is that of the final graph (theirs is one step older)."""
    many = len(support) / n_way >= 5
    k = n_neighbors or (10 if many else 20)
    a = (0.9 if many else 0.8) if reach is None else reach
    alpha = alpha or (5.0 if many else 2.0)
    s, q = torch.from_numpy(unit(rows(support))), torch.from_numpy(unit(rows(query)))
    y = torch.from_numpy(one_hot(support_labels, n_way))
    centroids = torch.from_numpy(class_means(s.numpy(), support_labels, n_way)).requires_grad_()
    m = n_way + len(s) + len(q)
    G, B = torch.ones(m, m).double().requires_grad_(), torch.full((m, m), a).double().requires_grad_()
    Y = torch.eye(m, n_way).double()

    def answers():
        z = torch.cat([centroids, s, q])
        d = (((z[:, None] - z[None]) ** 2).sum(dim=2) + 1e-12).sqrt()
        d = G * d / d.std()
        near = nearest_shares(-d.detach().numpy(), k)
        near[:n_way] = 0
        A = torch.exp(-d) * torch.from_numpy(near)
        W = B * (A + A.T) / 2
        root = 1 / (W.sum(dim=1) + 1e-12).sqrt()
        p = torch.softmax(temp * torch.linalg.inv(torch.eye(m) - a * root[:, None] * W * root[None]) @ Y, dim=1)
        return p[n_way : n_way + len(s)], p[n_way + len(s) :]

    adam = torch.optim.Adam([centroids, B, G], lr)
    for _ in range(n_iter):
        p_s, p_q = answers()
        loss = weights[0] * cross_entropy(p_s, y)
        loss = loss - weights[1] * alpha_entropy(p_q.mean(dim=0) + 1e-12, alpha)
        loss = loss + weights[2] * alpha_entropy(p_q + 1e-12, alpha).mean()
        step_down(adam, loss)
    return np.asarray(answers()[1].detach())
