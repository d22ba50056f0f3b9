"""Faults of labelled data: labels that are probably wrong, near-duplicates, outliers, classes that are confused.

*Suspect labels.* Each picture is judged by a classifier that never saw its label: ridge regression of the class
indicators, whose leave-one-out answers follow from one fit. With the rows Z (N, D) about their mean, Z = U S Vᵀ, the
answers to all rows are ŷ = ȳ + U diag(s²/(s² + λ)) Uᵀ (y − ȳ), each label enters its own answer with the weight
h_i = 1/N + Σ_k U_ik² s_k²/(s_k² + λ), and without row i the answer is (ŷ_i − h_i y_i) / (1 − h_i) exactly (Cook and
Weisberg, 1982). λ has the least leave-one-out error, and a softmax with the likeliest temperature turns answers into
probabilities. A label is suspect if it is less than half as likely as a blind guess, 1/C of C classes.

*Near-duplicates* have a cosine above 0.88 about the mean; groups are connected by such pairs. *Outliers* resemble even
their nearest pictures far less than is usual here. *Confused classes* are those whose pictures get each other's label.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SUSPECT = 0.5
"""Probability, as a multiple of a blind guess, below which a label is suspect."""
DUPLICATE = 0.88
"""Cosine above which two pictures are near-duplicates. No two different pictures of 40 species of birds come closer;
copies that were mirrored, brightened or lost a margin of 5 % do, and most that were halved or saved at quality 30."""
NEAREST = 5
"""Nearest pictures that an outlier does not resemble."""
FENCE = 3.0
"""An outlier's resemblance is so many interquartile ranges below the first quartile: Tukey's outer fence."""
BLOCK = 1024
TEMPERED = 5000
"""Rows that the temperature is fitted on, at most."""


class Suspect(NamedTuple):
    """A row whose label is probably wrong."""

    row: int
    likely: int  # the likeliest class
    p_label: float  # leave-one-out probability of its own label
    p_likely: float


class Outlier(NamedTuple):
    """A row that resembles no other."""

    row: int
    similarity: float  # mean cosine to its nearest rows


class Confusion(NamedTuple):
    """Two classes that get each other's label."""

    classes: tuple[int, int]
    rows: list[int]  # of either class whose likeliest answer is the other, the least like their own class first
    share: float  # of all rows of both


class Faults(NamedTuple):
    """All that was found, the worst first."""

    suspects: list[Suspect]
    duplicates: list[list[int]]  # groups of two or more rows, the largest first
    outliers: list[Outlier]
    confused: list[Confusion]


def find_faults(rows: np.ndarray, codes: np.ndarray) -> Faults:
    """Faults of labelled rows.

    Parameters
    ----------
    rows : (N, D) features, centred and of unit length, no two of the same file.
    codes : (N) classes from 0, negative for rows without a label; those are searched for duplicates and outliers only.

    Returns
    -------
    Faults
        Suspect labels need two classes of two rows or more; outliers need seven rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1], 20)
    >>> rows = np.eye(8)[codes] + 0.1 * rng.normal(size=(40, 8))
    >>> rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    >>> codes[3] = 1
    >>> [one.row for one in find_faults(rows, codes).suspects]
    [3]
    """
    rows = np.ascontiguousarray(rows, np.float32)
    duplicates, nearest = near_duplicates(rows)
    labelled = np.flatnonzero(codes >= 0)
    present, numbers, sizes = np.unique(codes[labelled], return_inverse=True, return_counts=True)
    several = sizes[numbers] > 1  # without its only row, nothing is known of a class
    suspects, confused = [], []
    if several.any() and len(present) > 1:
        p = probabilities(leave_one_out(rows[labelled], numbers), numbers)
        own, best = p[np.arange(len(p)), numbers], p.argmax(1)
        wrong = several & (best != numbers)
        for i in np.flatnonzero(wrong & (own < SUSPECT / len(present))):
            suspects.append(Suspect(int(labelled[i]), int(present[best[i]]), float(own[i]), float(p[i, best[i]])))
        order = np.flatnonzero(wrong)[np.argsort(own[wrong], kind="stable")]
        confused = _confusions(labelled[order], numbers[order], best[order], sizes, present)
    return Faults(sorted(suspects, key=lambda one: one.p_label), duplicates, outliers(nearest), confused)


def leave_one_out(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(N, C): for each row (N, D) the scores of classes 0 … C − 1 that ridge regression gives without its own label."""
    n, n_classes = len(rows), int(codes.max()) + 1
    z = torch.from_numpy(rows).float()
    z = z - z.mean(0)
    mean = torch.from_numpy(np.bincount(codes)).float() / n
    labels = torch.zeros(n, n_classes)
    labels[torch.arange(n), torch.from_numpy(codes)] = 1
    wide = n <= z.shape[1]
    squares, vectors = torch.linalg.eigh((z @ z.mT if wide else z.mT @ z).double())
    kept = squares > 1e-6 * squares[-1].clamp_min(1e-12)
    squares, vectors = squares[kept].float(), vectors[:, kept].float()
    u = vectors if wide else z @ vectors / squares.sqrt()
    targets = u.mT @ (labels - mean)
    best, least = labels, torch.inf
    for ridge in RIDGES:
        shrunk = squares / (squares + ridge)
        weight = (1 / n + u.square() @ shrunk).clamp(max=1 - 1e-4)[:, None]
        scores = (mean + u @ (shrunk[:, None] * targets) - weight * labels) / (1 - weight)
        error = float((scores - labels).square().mean())
        if error < least:
            best, least = scores, error
    return best.numpy()


def probabilities(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(N, C): softmax of scores (N, C) at the temperature under which the labels (N) are likeliest."""
    table, labels = torch.from_numpy(scores).float(), torch.from_numpy(codes)
    some = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:TEMPERED]

    def loss(log_scale: float) -> float:
        return float(torch.nn.functional.cross_entropy(np.exp(log_scale) * table[some], labels[some]))

    scale = np.exp(minimize_scalar(loss, bounds=(-2, 6), method="bounded").x)
    return (scale * table).softmax(1).numpy()


def near_duplicates(rows: np.ndarray) -> tuple[list[list[int]], np.ndarray]:
    """Groups of near-duplicates, and each row's mean cosine to its nearest rows (N), block by block."""
    table, n = torch.from_numpy(rows), len(rows)
    nearest, pairs = [torch.empty(0)], []
    for start in range(0, n, BLOCK):
        cosine = table[start : start + BLOCK] @ table.mT
        cosine[torch.arange(len(cosine)), torch.arange(start, start + len(cosine))] = -1
        nearest.append(cosine.topk(min(NEAREST, n)).values[:, : max(1, min(NEAREST, n - 1))].mean(1))
        pairs.append((cosine > DUPLICATE).nonzero() + torch.tensor([start, 0]))
    return _groups(torch.cat(pairs) if pairs else torch.empty(0, 2, dtype=torch.long), n), torch.cat(nearest).numpy()


def _groups(pairs: Tensor, n: int) -> list[list[int]]:
    one, other = pairs.numpy().T
    _, group = connected_components(coo_array((np.ones(len(one)), (one, other)), shape=(n, n)), directed=False)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    return sorted((part.tolist() for part in members if len(part) > 1), key=lambda part: (-len(part), part))


def outliers(nearest: np.ndarray) -> list[Outlier]:
    """Rows far below the usual resemblance to their nearest rows (N)."""
    if len(nearest) < NEAREST + 2:
        return []
    low, high = np.quantile(nearest, [0.25, 0.75])
    found = np.flatnonzero(nearest < low - FENCE * (high - low))
    return [Outlier(int(row), float(nearest[row])) for row in found[np.argsort(nearest[found])]]


def _confusions(
    rows: np.ndarray, codes: np.ndarray, best: np.ndarray, sizes: np.ndarray, present: np.ndarray
) -> list[Confusion]:
    """Pairs of classes by the share of their rows whose likeliest class is the other."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for row, *pair in zip(rows.tolist(), codes.tolist(), best.tolist()):
        pairs.setdefault((min(pair), max(pair)), []).append(row)
    found = [
        Confusion((int(present[a]), int(present[b])), inside, float(len(inside) / (sizes[a] + sizes[b])))
        for (a, b), inside in pairs.items()
        if len(inside) > 1
    ]
    return sorted(found, key=lambda one: (-one.share, one.classes))
