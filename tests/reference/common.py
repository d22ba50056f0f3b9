"""What several reference loops share. Rows are samples, columns are classes or dimensions; everything is float64."""

import numpy as np

ZERO = 1e-10  # a row shorter than this is rounding left over from centring, not a direction
TIE = 1e-9  # scores closer than this are equal: ties must not be broken by rounding, nor by position


def rows(x):
    return np.array(x, dtype=np.float64)


def unit(x):
    """Rows divided by their Euclidean norm; a zero row stays zero."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.where(norm > ZERO, x / np.where(norm > ZERO, norm, 1.0), 0.0)


def cosine(x, p):
    """cos(x_i, p_c), (N,W); 0 where either is zero."""
    return unit(x) @ unit(p).T


def squared_distance(x, p):
    """‖x_i − p_c‖² (N,W), from the differences themselves: no cancellation, equal rows give equal numbers."""
    return np.array([[np.sum((row - centre) ** 2) for centre in p] for row in x])


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def one_hot(labels, n_way):
    return np.eye(n_way)[np.asarray(labels, dtype=int)]


def hard(scores):
    """One-hot rows of the best score; equal scores share."""
    best = (scores >= scores.max(axis=1, keepdims=True) - TIE).astype(np.float64)
    return best / best.sum(axis=1, keepdims=True)


def class_means(x, labels, n_way):
    labels = np.asarray(labels)
    return np.stack([x[labels == c].mean(axis=0) for c in range(n_way)])


def power_transform(x, power="strict", beta=0.5):
    """The paper's first step: a power of every entry, then unit rows.

    "strict": (x + 1e-6)^β, for rectified features only; "signed": sign(x)·|x|^β; "off": neither power nor unit.
    "auto" is a choice between the first two for a whole episode: see `resolve_power`.
    """
    if power == "off":
        return x
    if power == "signed":
        return unit(np.sign(x) * np.abs(x) ** beta)
    return unit((x + 1e-6) ** beta)


def resolve_power(power, *parts):
    """ "auto": signed when any row of this episode has a negative entry, else strict."""
    if power != "auto":
        return power
    return "signed" if any((part < 0).any() for part in parts if part is not None) else "strict"


def cl2n(x, base_mean):
    """Centre by the mean of the base classes, then unit (SimpleShot's CL2N)."""
    return unit(x - rows(base_mean))


def adapted_means(support, labels, unlabeled, z, n_way):
    """(Σ_S 1[y=c] s + Σ_U z_c u) / (Σ_S 1[y=c] + Σ_U z_c): soft k-means with labelled rows, (W,D)."""
    y = one_hot(labels, n_way)
    means = []
    for c in range(n_way):
        total = (y[:, c, None] * support).sum(axis=0) + (z[:, c, None] * unlabeled).sum(axis=0)
        means.append(total / (y[:, c].sum() + z[:, c].sum()))
    return np.stack(means)


def scale_to(total, current):
    """total/current, 0 where there is nothing to scale: an empty column stays empty."""
    return np.where(current > 0, total / np.where(current > 0, current, 1.0), 0.0)


def sinkhorn(plan, column_sums, eps=1e-6, max_rounds=1000):
    """Scale a non-negative matrix (Q,W) to row sums 1 and the given column sums.

    The stop test is that of PT+MAP's code: the largest absolute change of a row sum from the start of one round to the
    start of the next. Rows are scaled first, so the columns are exact on return and the rows are right to about eps.
    """
    plan = plan.copy()
    previous = np.zeros(len(plan))
    for _ in range(max_rounds):
        row_sums = plan.sum(axis=1)
        if np.abs(row_sums - previous).max() <= eps:
            break
        previous = row_sums
        plan *= scale_to(1.0, row_sums)[:, None]
        plan *= scale_to(column_sums, plan.sum(axis=0))[None, :]
    return plan


def column_totals(n_query, n_way, class_prior):
    """How many queries each class is assumed to have: equally many unless a prior says otherwise."""
    prior = np.full(n_way, 1.0 / n_way) if class_prior is None else rows(class_prior)
    return n_query * prior


def nearest_shares(closeness, k):
    """(N,N) shares of the k nearest other rows: 1 for a neighbour, 0 for the rest.

    Rows tied for the last places share them equally, so every row sums to min(k, N−1) and position never decides.
    """
    n = len(closeness)
    k = min(k, n - 1)
    shares = np.zeros((n, n))
    for i in range(n):
        if k == 0:
            continue
        others = [j for j in range(n) if j != i]
        kth = sorted((closeness[i, j] for j in others), reverse=True)[k - 1]
        inside = [j for j in others if closeness[i, j] > kth + TIE]
        tied = [j for j in others if abs(closeness[i, j] - kth) <= TIE]
        shares[i, inside] = 1.0
        shares[i, tied] = (k - len(inside)) / len(tied)
    return shares


def step_down(adam, loss):
    """One step of a torch optimizer down a loss."""
    adam.zero_grad()
    loss.backward()
    adam.step()
