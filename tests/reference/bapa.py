"""Balance-agnostic prototype adaptation (ours; not in the paper), straight from its equations."""

import numpy as np
from scipy.special import digamma, gammaln

from protoadapt.core.methods.bapa import KAPPA, LAM, N_ITER, SIGMA

from .common import one_hot, power_transform, resolve_power, rows, softmax, unit

A = (0.3, 1.0, 3.0, 10.0, 30.0)  # concentrations of the Dirichlet that the class shares may come from
O = 4.0  # what a labelled row counts in the centre  # noqa: E741


def log_shares(n):
    """Expected log share of each class beside that of a class of mean size, averaged over A by the evidence."""
    way, total = len(n), n.sum()
    evidence = [gammaln(way * a) - gammaln(total + way * a) + sum(gammaln(x + a) - gammaln(a) for x in n) for a in A]
    weight = np.exp(np.array(evidence) - max(evidence))
    weight /= weight.sum()
    return sum(w * (digamma(n + a) - digamma(n.mean() + a)) for w, a in zip(weight, A))


def bapa(
    support,
    support_labels,
    query,
    n_way,
    *,
    unlabeled=None,
    n_iter=N_ITER,
    sigma=SIGMA,
    lam=LAM,
    kappa=KAPPA,
    power="auto",
    beta=0.5,
    class_prior=None,
    starts=(),
    model=False,
):
    """With ``unlabeled`` those rows take the queries' place; the queries are answered about the last centre.

    ``starts`` holds lists of queries, each of which begins a class without labelled rows. ``model``: also p, μ and ℓ.
    """
    n_named, n_way = n_way, n_way + len(starts)
    support, asked = rows(support), rows(query)
    q = asked if unlabeled is None else rows(unlabeled)
    power = resolve_power(power, support, asked, q)
    support, asked, q = (power_transform(part, power, beta) for part in (support, asked, q))
    known = class_prior is not None
    shares = np.full(n_way, 1 / n_way) if class_prior is None or isinstance(class_prior, str) else rows(class_prior)
    shares = shares / shares.sum()
    y = one_hot(support_labels, n_way)
    K = y.sum(axis=0)
    described = K > 0
    of_none = np.mean(K[described] ** -0.5)
    k = kappa * of_none
    r, ell = 0.0 if known else of_none, np.zeros(n_way)

    def centre(z):
        sums, counts = O * y.T @ support + z.T @ q, O * K + z.sum(axis=0)
        return np.mean([sums[c] / counts[c] for c in range(n_way) if described[c]], axis=0)

    def scores(x):
        return np.array([[lam * (2 * row @ p[c] - p[c] @ p[c]) for c in range(n_way)] for row in x])

    mu = centre(np.zeros((len(q), n_way)))
    p = y.T @ unit(support - mu) / np.maximum(K + k, 1e-12)[:, None]
    for g, seed in enumerate(starts):
        p[n_named + g] = sum(unit(q - mu)[i] for i in seed) / (len(seed) + k)
    for _ in range(n_iter):
        s, u = unit(support - mu), unit(q - mu)
        e = np.exp(scores(u) + ell)
        z = e / (r + e.sum(axis=1, keepdims=True))
        n = z.sum(axis=0)
        pull_back = y - softmax(scores(s))
        p = (1 - sigma) * p + sigma * (y.T @ s + pull_back.T @ s + z.T @ u) / (K + k + n)[:, None]
        if known or ((n - n.mean()) ** 2 + 1).sum() < (n_way - 1) * n.mean():
            ell, r = ell + np.log(len(q) * shares / n), 0.0
        else:
            ell, r = log_shares(n), of_none
        mu = centre(z)
    answer = softmax(scores(unit((q if unlabeled is None else asked) - mu)) + ell)
    return (answer, p, mu, ell) if model else answer
