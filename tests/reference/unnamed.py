"""Classes that nobody named, beside BAPA's, straight from the equations; the candidates are given."""

import numpy as np
from scipy.special import gammaln, logsumexp

from protoadapt.core.methods.bapa import KAPPA, LAM

from .bapa import A, bapa
from .common import one_hot, power_transform, softmax, unit


def bound(s, y, u, z, kappa, lam):
    """F(z), in loops over the classes; s, u: rows about the fixed centre."""
    K, n = y.sum(axis=0), z.sum(axis=0)
    k = kappa * np.mean(K[K > 0] ** -0.5)
    total = 0.0
    for c in range(z.shape[1]):
        labelled, shots = (y[:, c] @ s, K[c]) if c < y.shape[1] else (0.0, 0.0)
        pull = labelled + sum(z[i, c] * u[i] for i in range(len(u)))
        total += lam * pull @ pull / (shots + k + n[c])
    total -= sum(p * np.log(p) for p in z.ravel() if p > 0)
    C = z.shape[1]
    sizes = [gammaln(C * a) - gammaln(n.sum() + C * a) + sum(gammaln(x + a) - gammaln(a) for x in n) for a in A]
    return total + logsumexp(sizes)


def discover(support, labels, query, n_way, seeds, *, kappa=KAPPA, lam=LAM, most=6, tries=12, least=12.0, weight=2.0):
    """The accepted seeds, each a list of queries, and the answer (Q, W + groups) with them."""
    support, query = (power_transform(part, "strict") for part in (support, query))
    y = one_hot(labels, n_way)
    center = (support.mean(axis=0) + query.mean(axis=0)) / 2
    s0, u0 = unit(support - center), unit(query - center)

    def fit(starts, **settings):
        shared = {"kappa": kappa, "lam": lam, "power": "off", "starts": starts, "model": True}
        return bapa(support, labels, query, n_way, **shared, **settings)

    def level(z):
        return bound(s0, y, u0, z, kappa, lam)

    def glance(seed):
        _, p, mu, ell = fit(found, n_iter=2)
        u = unit(query - mu)
        p = np.r_[p, [sum(u[i] for i in seed) / (len(seed) + kappa)]]
        return level(softmax(lam * (2 * u @ p.T - (p**2).sum(axis=1)) + np.r_[ell, 0.0]))

    def score(seed):
        z, p, mu, _ = fit([*found, seed])
        claims = softmax(lam * (2 * unit(support - mu) @ p.T - (p**2).sum(axis=1)))
        share = sum(claims[i, -1] / y[:, label].sum() for i, label in enumerate(labels))
        return (level(z) - level(fit(found)[0])) * np.exp(-weight * share)

    found = []
    while seeds and len(found) < most:
        scores = [(score(seed), seed) for seed in sorted(seeds, key=glance, reverse=True)[:tries]]
        best, seed = max(scores)
        if best <= least:
            break
        found.append(seed)
        seeds = [one for one in seeds if one != seed]
    return found, fit(found)[0]


def spread(z, p, u, lam):
    """v: how far rows lie from their class's mean along the differences of prototypes, in units of 1/2λ."""
    differences = (p - p.mean(axis=0))[:-1]
    basis, _ = np.linalg.qr(differences.T)
    means = [sum(z[i, c] * u[i] for i in range(len(u))) / z[:, c].sum() for c in range(len(p))]
    squares = sum(z[i, c] * np.sum(((u[i] - means[c]) @ basis) ** 2) for i in range(len(u)) for c in range(len(p)))
    return 2 * lam * squares / (len(u) * (len(p) - 1))


def first_bound(u, groups, scale=16.0, mass=8.0):
    """F₀ of rows u divided into lists of rows."""
    total = 0.0
    for of in groups:
        pull = u[of].sum(axis=0)
        total += scale * pull @ pull / (mass + len(of)) + len(of) * np.log(len(of))
    return total


def first_groups(rows, clusters, rounds=10, fewest=3):
    """Groups of rows of which none has a label, from the clusters (N) that k-means gave."""
    x = power_transform(rows, "strict")
    u = unit(x - x.mean(axis=0))
    groups = [list(np.flatnonzero(clusters == c)) for c in np.unique(clusters)]
    while True:
        unions = [
            [*groups[:i], *groups[i + 1 : j], *groups[j + 1 :], groups[i] + groups[j]]
            for j in range(len(groups))
            for i in range(j)
        ]
        best = max(unions, key=lambda one: first_bound(u, one), default=groups)
        if first_bound(u, best) <= first_bound(u, groups):
            break
        groups = best
    for _ in range(rounds):
        centers = [u[of].mean(axis=0) for of in groups]
        nearest = [min(range(len(centers)), key=lambda c: np.sum((row - centers[c]) ** 2)) for row in u]
        groups = [of for c in range(len(centers)) if (of := [i for i, near in enumerate(nearest) if near == c])]
    answer = np.full(len(rows), -1)
    for number, of in enumerate(sorted(groups, key=len, reverse=True)):
        answer[of] = number if len(of) >= fewest else -1
    return answer
