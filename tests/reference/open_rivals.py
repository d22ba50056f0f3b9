"""OSLO, EOL and protoLP, from their equations."""

import numpy as np
import torch

from .common import (
    class_means,
    cosine,
    hard,
    one_hot,
    power_transform,
    rows,
    softmax,
    squared_distance,
    step_down,
    unit,
)


def answered(scores, belongs):
    """The best class, with a probability from 1/W for a row that belongs to none to 1."""
    w = scores.shape[1]
    return np.stack([o * best + (1 - o) * np.ones(w) / w for best, o in zip(hard(scores), belongs)])


def oslo(support, support_labels, query, n_way, *, n_iter=2, lambda_xi=0.05, lambda_z=0.1):
    mean = np.concatenate([rows(support), rows(query)]).mean(axis=0)
    s, q = unit(rows(support) - mean), unit(rows(query) - mean)
    mu, z = class_means(s, support_labels, n_way), np.full((len(q), n_way), 1 / n_way)
    for _ in range(n_iter):
        cos = cosine(q, mu)
        xi = np.array([1 / (1 + np.exp(-(z[i] @ cos[i]) / lambda_xi)) for i in range(len(q))])
        z = softmax(xi[:, None] * cos / lambda_z)
        for c in range(n_way):
            own = s[np.asarray(support_labels) == c]
            total = own.sum(axis=0) + sum(xi[i] * z[i, c] * q[i] for i in range(len(q)))
            mu[c] = total / (len(own) + (xi * z[:, c]).sum())
    return answered(cosine(q, mu), xi)


def eol(support, support_labels, query, n_way, base_mean=None, *, b=0.5, n_iter=50, lr=0.01, temp=10.0):
    """Settled from the authors' code: the weight of a class's mean is the shots of all classes in the mean; o stays
    that of the learned prototypes when these become weighed means."""
    every = np.concatenate([rows(support), rows(query)])
    every = unit(every - (every.mean(axis=0) if base_mean is None else base_mean))
    n = len(support)
    start = class_means(every[:n], support_labels, n_way)
    x, y = torch.from_numpy(every), torch.from_numpy(one_hot(support_labels, n_way))
    mu, eta, delta = (torch.from_numpy(v).requires_grad_() for v in (start, np.zeros(n_way), np.zeros(n_way)))

    def parts(prototypes):
        cos = x @ (prototypes / prototypes.norm(dim=1, keepdim=True)).T
        logits = temp * (torch.exp(eta) * cos + delta)
        belongs = 1 / (1 + n_way / b / torch.exp(logits).sum(dim=1))
        return torch.softmax(logits, dim=1), belongs

    adam = torch.optim.Adam([mu, eta, delta], lr)
    for _ in range(n_iter):
        shares, belongs = parts(mu)
        p = shares * belongs[:, None]
        loss = -(y * (p[:n] + 1e-12).log()).sum() / n
        loss = loss - (p[n:] * (p[n:] + 1e-12).log()).sum() / (len(query) * n_way)
        m = n / n_way / (1 - b) * p[n:].mean(dim=0)
        other = (1 - p[n:].sum(dim=1)).mean() / b
        loss = loss + (m * (m + 1e-12).log()).mean() + other * (other + 1e-12).log()
        step_down(adam, loss)
    with torch.no_grad():
        shares, belongs = parts(mu)
        p = shares * belongs[:, None]
        refined = torch.stack([(p[:, c, None] * x).sum(dim=0) / p[:, c].sum() for c in range(n_way)])
        return answered(parts(refined)[0][n:].numpy(), belongs[n:].numpy())


def proto_lp(
    support, support_labels, query, n_way, *, n_iter=50, lam=10.0, gamma=0.05, mix=0.7, step=0.2, n_components=40
):
    """The labels of the prototypes are those of least ‖Y − A‖² over the support and γ tr(AᵀLA)."""
    x = power_transform(np.concatenate([rows(support), rows(query)]))
    _, _, directions = np.linalg.svd(x)
    x = x @ directions[:n_components].T
    x = unit(x - x.mean(axis=0))
    n, y = len(support), one_hot(support_labels, n_way)
    mu = unit(class_means(x[:n], support_labels, n_way))
    for _ in range(n_iter):
        z = np.concatenate([y, softmax(-lam * squared_distance(x[n:], mu))])
        graph = z @ np.diag(1 / z.sum(axis=0)) @ z.T  # of the rows, through the prototypes
        smooth = z.T @ (np.eye(len(x)) - graph) @ z
        a = np.linalg.inv(y.T @ y + gamma * smooth) @ y.T @ y
        labels = np.clip(mix * z @ a + (1 - mix) * z, 0, 1)
        for c in range(n_way):
            mu[c] += step * (labels[:, c] @ x / labels[:, c].sum() - mu[c])
    return softmax(-lam * squared_distance(x[n:], mu))
