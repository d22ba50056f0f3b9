"""Prototype adaptation that needs no knowledge of the class sizes (ours; not in the paper)."""

import numpy as np

from .common import class_means, one_hot, power_transform, resolve_power, rows, softmax, unit


def bapa(
    support,
    support_labels,
    query,
    n_way,
    *,
    unlabeled=None,
    base_mean=None,
    lam=10.0,
    kappa=3.0,
    k_s=10.0,
    n_iter=12,
    sigma=0.25,
    power="strict",
    beta=0.5,
    class_prior=None,
    base_power_mean=None,
    base_rows=0.0,
    base_covariance=None,
    whiten=False,
):
    """With ``unlabeled`` those rows take the queries' place; the queries are answered about the last centre."""
    support, asked = rows(support), rows(query)
    learned_from = asked if unlabeled is None else rows(unlabeled)
    power = resolve_power(power, support, asked, learned_from)
    support, asked, query = (power_transform(part, power, beta) for part in (support, asked, learned_from))
    less = 1.0
    if whiten:  # by the symmetric root of the inverse
        sigma_b = base_covariance / base_covariance.diagonal().mean()
        variance, axes = np.linalg.eigh(0.9 * np.eye(len(sigma_b)) + 0.1 * sigma_b)
        root = axes / np.sqrt(variance) @ axes.T
        support, asked, query, base_power_mean = (part @ root for part in (support, asked, query, base_power_mean))
        lam, kappa, less = lam * 4 / 3, kappa * 4 / 3, 9 / 16
    y = one_hot(support_labels, n_way)
    shots = y.sum(axis=0)
    n_query = len(query)
    doubt = np.mean(shots**-0.5)
    rho = 1.0 if class_prior is None else 4.0
    sigma = sigma if class_prior is None else min(1.0, 1.4 * sigma)
    kappa, smoothing = kappa * doubt, 0.2 * doubt

    # Step 0: two means of like rows differ by so much on average; how does the difference found compare?
    support_mean = class_means(support, support_labels, n_way).mean(axis=0)
    halves = [0.0, 0.0]  # Σ of weight · ‖q − s‖²/2 over pairs, every class of the support weighing the same
    for s, label in zip(support, support_labels):
        for q in query:
            halves[0] += ((q - s) ** 2).sum() / 2 / shots[label]
            halves[1] += 1 / shots[label]
    weight = n_way**2 / np.sum(1 / shots)  # of the support mean, in rows; the base classes' mean counts as some more
    if base_rows:  # fewer where it is further off than their noise explains
        off = ((support_mean - base_power_mean) ** 2).sum() - halves[0] / halves[1] / weight
        base_rows = min(base_rows, halves[0] / halves[1] / off) if off > 0 else base_rows
        support_mean = (weight * support_mean + base_rows * base_power_mean) / (weight + base_rows)
    likely = halves[0] / halves[1] * (1 / (weight + base_rows) + 1 / n_query)
    found = ((query.mean(axis=0) - support_mean) ** 2).sum()
    alpha = n_query / (n_query + k_s) * min(1.0, likely / found) ** 3

    def centre(w):
        return alpha * (w @ query) / w.sum() + (1 - alpha) * support_mean

    def centred(w):
        """Step 1: a centre that does not follow the balance; unit queries (N,D) and unit support (S,D)."""
        mu = centre(w)
        return unit(query - mu), unit(support - mu)

    def assign(q, p, size_term):
        """Step 2: Gaussian logits with a class-size term."""
        return softmax(lam * (2 * q @ p.T - (p**2).sum(axis=1)) + size_term)

    def known(q, p, size_term):
        """Step 2 as long as rows pull: a row at the centre is of a class as likely as 1 to r, or of none."""
        logits = lam * (2 * q @ p.T - (p**2).sum(axis=1)) + size_term
        if class_prior is not None:
            return softmax(logits)
        z = softmax(np.column_stack([logits, np.full(len(q), np.log(doubt))]))[:, :-1]
        return np.maximum(z, 1e-6 * softmax(logits))

    share = None
    if class_prior is not None:
        share = np.full(n_way, 1 / n_way) if isinstance(class_prior, str) else rows(class_prior) / np.sum(class_prior)

    def match(q, p, size_term):
        """Step 2′, only where the sizes are told: two rounds towards them."""
        for _ in range(0 if share is None else 2):
            size_term = size_term + np.log(n_query * share / assign(q, p, size_term).sum(axis=0))
        return size_term

    w = np.ones(n_query)
    size_term = np.zeros(n_way)
    q, s = centred(w)
    p = y.T @ s / (shots + kappa)[:, None]

    # Step 6: from which step on do the queries take part? Pair by pair of labelled rows.
    within, between = [], []
    for i in range(len(s)):
        for j in range(i):
            same = support_labels[i] == support_labels[j]
            (within if same else between).append(s[i] @ s[j])
    last_steps = n_iter
    if class_prior is None and not whiten and within:
        mean_shots = n_way / np.sum(1 / shots)
        alike = np.mean(within) - np.mean(between) + 0.1 / np.sqrt(len(within))
        n = known(q, p, size_term).sum(axis=0)
        unequal = np.mean((n / n.mean() - 1) ** 2) / (n_way - 1)
        last_steps *= min(1.0, 40 * max(alike, 0.0) ** 2 / (mean_shots - 1) + 5 * unequal)
    first = n_iter - last_steps

    for step in range(n_iter):
        part = min(max(step + 1 - first, 0.0), 1.0)
        q, s = centred(w)  # 1
        size_term = match(q, p, size_term)
        z = known(q, p, size_term)  # 2
        n = z.sum(axis=0)
        n_mean = n.mean()
        h = part * z * z / z.max(axis=1, keepdims=True)  # 3: rows pull as far as sure, κ pseudo-rows shrink
        t = y + rho * (y - assign(s, p, 0.0))  # labelled rows that are not recognised draw their class back
        p = (1 - sigma) * p + sigma * (t.T @ s + h.T @ q) / (shots + kappa + h.sum(axis=0))[:, None]
        spread = np.mean((n / n_mean - 1) ** 2)  # 4: is the spread of sizes more than equal classes show?
        theta2 = less * (0.018 / np.sqrt(doubt) + 0.3 / n_mean)
        g = max(1 - theta2 / spread, 0.0) if spread > 0 else 0.0
        f = (n / n_mean + smoothing) / (1 + smoothing)
        if class_prior is None:
            if g > 0 or step < 0.55 * n_iter:
                estimate = g * np.log(f)  # 5: follow the sizes as g → 1
            else:  # sizes that settled near balance are made equal
                estimate = size_term - n_mean / (n_mean + 1) * np.log(n / n_mean)
            size_term = part * estimate + (1 - part) * size_term
            w = (z * (part / (1 + g * (f - 1)) + 1 - part)).sum(axis=1) / z.sum(axis=1)
        else:
            w = (z / (n_way * share)).sum(axis=1)

    size_term = match(centred(w)[0], p, size_term)
    return assign(unit(asked - centre(w)), p, size_term)
