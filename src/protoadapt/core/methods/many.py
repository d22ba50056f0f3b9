"""The loop of `adaptation` for one task with very many rows: chunk by chunk, in bounded memory.

A step asks of the unlabelled rows u_j only for Σ_j z_cj u_j (W × D) and Σ_j z_cj (W), and chunks of rows add up to
those. So `rows` is anything that can be run through again and again and gives tensors (n, D): a list of chunks, or
`Chunks` that are read and calibrated anew each time. Sums are kept in float64, whatever the rows' type.

Sinkhorn's plan (N × W) is never held either. It is the logits' exponential scaled by rows and by columns, so all that
has to be found is one number b_c a class (`transport`), and with its rows brought to sum 1 the plan is
softmax_c(logits + b_c). That makes PT+MAP inductive: a new row is answered with the b of the fitted ones, and a fitted
row gets its row of the plan.

Axes: W classes, D dimensions, N rows in all, n rows of a chunk.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.methods.adaptation import Adaptation
from protoadapt.core.methods.bapa import class_sizes, pulls, trust
from protoadapt.core.methods.common import SINKHORN_ROUNDS, SINKHORN_STOP, TINY, shares
from protoadapt.core.methods.normalize import calibrated_rows
from protoadapt.core.methods.ties import slack

CHUNK = 2**21
"""Numbers in a chunk of rows and its class probabilities together: 8 MB in float32."""
KEEP = 2**26
"""Up to so many bytes, chunks are worked out once and kept; beyond, they are worked out anew in every round."""


@dataclass(frozen=True)
class Table:
    """The rows `index` of a table (·, D), in chunks, as tensors of one type on one device."""

    rows: np.ndarray
    index: np.ndarray
    size: int  # rows a chunk
    dtype: torch.dtype
    device: str = "cpu"

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, len(self.index), self.size):
            chunk = torch.from_numpy(self.rows[self.index[start : start + self.size]])  # a copy: the table is safe
            yield chunk.to(self.device, self.dtype)


@dataclass(frozen=True)
class Chunks:
    """A function of each chunk, worked out whenever the chunks are run through."""

    source: Iterable[Tensor]
    function: Callable[[Tensor], Tensor]

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.function, self.source)


def kept(chunks: Iterable[Tensor]) -> Iterable[Tensor]:
    """The same chunks, held in memory if they take so little of it."""
    held, n_bytes = [], 0
    for chunk in chunks:
        held.append(chunk)
        n_bytes += chunk.nbytes
        if n_bytes > KEEP:
            return chunks
    return held


def chunk_size(n_way: int, dim: int) -> int:
    return max(256, CHUNK // (n_way + dim))


class Learned(NamedTuple):
    """What answers a row, in float64."""

    center: Tensor  # (D), taken off every row that is answered
    prototypes: Tensor  # (W, D)
    bias: Tensor  # (W), added to the logits


def learn(
    support: Iterable[Tensor], labels: Tensor, unlabeled: Iterable[Tensor], n_way: int, dim: int, how: Adaptation
) -> Learned:
    """From labelled and unlabelled rows, chunk by chunk, to what answers any row; labels (S) in 0 … W-1.

    Rows are calibrated as in `adaptation`; what is answered is centred like the unlabelled rows, or like the support
    where there are none.
    """
    support_mean, center = _means(support, unlabeled, torch.zeros(dim, dtype=torch.float64, device=labels.device), how)
    sums = center.new_zeros(n_way, dim)
    start = 0
    for chunk in calibrated(support, support_mean, how):
        sums.index_add_(0, labels[start : start + len(chunk)], chunk.double())
        start += len(chunk)
    shots = torch.bincount(labels, minlength=n_way)
    return Learned(center, *adapt_rows(sums, shots, kept(calibrated(unlabeled, center, how)), how))


def learn_bapa(
    support: Iterable[Tensor],
    labels: Tensor,
    unlabeled: Iterable[Tensor],
    n_way: int,
    dim: int,
    how: Adaptation,
    kappa: float,
    k_s: float,
) -> Learned:
    """`learn` for BAPA, whose centre moves. What a row counts in the centre depends on the row only through z, so
    Σ_q w_q q = Σ_c weight_c Σ_q z_qc q, and one run through the rows gives a step all its sums.

    Without unlabelled rows nothing moves: the support's mean is the centre, and class sums shrunk by κ the prototypes.
    """
    zero = torch.zeros(n_way, dim, dtype=torch.float64, device=labels.device)
    support, unlabeled = kept(support), kept(unlabeled)
    shots = torch.bincount(labels, minlength=n_way).double()[:, None]

    def class_sums(rows: Iterable[Tensor], width: int = dim) -> Tensor:
        sums, start = zero.new_zeros(n_way, width), 0
        for chunk in rows:
            sums.index_add_(0, labels[start : start + len(chunk)], chunk.double())
            start += len(chunk)
        return sums

    support_mean = (class_sums(support) / shots).mean(0)
    (total, n_rows), (squares, _) = _total(unlabeled, zero[0]), _total(Chunks(unlabeled, _squares), zero[0, :1])
    support_squares = (class_sums(Chunks(support, _squares), 1) / shots).mean()
    alpha, center = bapa_center(total, squares[0], n_rows, support_mean, support_squares, shots, k_s)
    learned = Learned(center, class_sums(calibrated(support, center, how)) / (shots + kappa), zero[:, 0])
    for _ in range(how.n_iter if n_rows else 0):
        pull, mass = class_sums(calibrated(support, learned.center, how)), shots + kappa
        raw, n = zero.clone(), 0 * shots
        for u in unlabeled:
            q = calibrated_rows(u, learned.center.to(u), how.l2)
            z = assign(q, learned.prototypes, learned.bias, how)
            h = pulls(z, 1)
            pull += h.mT @ q
            mass += h.sum(0)[:, None]
            raw += z.mT @ u
            n += z.sum(0)[:, None]
        learned = bapa_step(learned, pull / mass, raw, n, alpha, support_mean, n_rows, how.sigma, kappa)
    return learned


def bapa_center(
    total: Tensor,
    squares: Tensor,
    n_rows: int,
    support_mean: Tensor,
    support_squares: Tensor,
    shots: Tensor,
    k_s: float,
) -> tuple[Tensor, Tensor]:
    """α and the first centre (steps 0 and 1 of `methods.bapa`), from Σ q (D), Σ ‖q‖² and the support's means."""
    if not n_rows:
        return torch.zeros_like(squares), support_mean
    spread = (squares / n_rows + support_squares) / 2 - total / n_rows @ support_mean
    alpha = trust((total / n_rows - support_mean).square().sum(), spread.view(1, 1), shots, n_rows, k_s)[0, 0]
    return alpha, alpha * total / n_rows + (1 - alpha) * support_mean


def bapa_step(
    before: Learned,
    estimate: Tensor,
    raw: Tensor,
    n: Tensor,
    alpha: Tensor,
    support_mean: Tensor,
    n_rows: int,
    sigma: float,
    kappa: float,
) -> Learned:
    """Steps 3 to 5 and the next centre, from the estimated prototypes, raw = Σ_q z q (W, D) and n = Σ_q z (W, 1)."""
    size_term, weight = class_sizes(n, n_rows, kappa)
    center = alpha * (weight * raw).sum(0) / (weight * n).sum() + (1 - alpha) * support_mean
    return Learned(center, sigma * estimate + (1 - sigma) * before.prototypes, size_term[:, 0])


def calibrated(rows: Iterable[Tensor], mean: Tensor, how: Adaptation) -> Chunks:
    return Chunks(rows, lambda x: calibrated_rows(x, mean.to(x), how.l2))


def adapt_rows(sums: Tensor, shots: Tensor, rows: Iterable[Tensor], how: Adaptation) -> tuple[Tensor, Tensor]:
    """Prototypes (W, D) after how.n_iter steps, and the class biases (W), both in float64.

    sums (W, D) of each class's calibrated support rows, shots (W) their numbers, rows the calibrated unlabelled ones.
    Biases are zero but for Sinkhorn.
    """
    sums, shots = sums.double(), shots.double()[:, None]
    prototypes = sums / shots.clamp_min(TINY)
    for _ in range(how.n_iter):
        bias, weight = transport(rows, prototypes, how)
        pull, mass = torch.zeros_like(sums), torch.zeros_like(shots)
        for u in rows:
            z = assign(u, prototypes, bias, how)
            pull += z.mT @ u
            mass += z.sum(0)[:, None]
        estimate = (sums + weight * pull) / (shots + weight * mass).clamp_min(TINY)
        prototypes = how.sigma * estimate + (1 - how.sigma) * prototypes
    bias, weight = transport(rows, prototypes, how)
    return prototypes, bias + weight[:, 0].log()


def assign(u: Tensor, prototypes: Tensor, bias: Tensor, how: Adaptation) -> Tensor:
    """(n, W): the class probabilities of calibrated rows u (n, D)."""
    return logits(u, prototypes, bias, how).softmax(1)


def logits(u: Tensor, prototypes: Tensor, bias: Tensor, how: Adaptation) -> Tensor:
    if how.rule == "cosine":
        pointing = prototypes / prototypes.norm(dim=1, keepdim=True).clamp_min(TINY)
        return u @ (how.scale * pointing).to(u).mT / u.norm(dim=1, keepdim=True).clamp_min(TINY) + bias.to(u)
    # −λ‖u − p‖² without λ‖u‖², which is the same for every class
    offset = bias - how.scale * prototypes.square().sum(1)
    return torch.addmm(offset.to(u), u, (2 * how.scale * prototypes).to(u).mT)


def transport(rows: Iterable[Tensor], prototypes: Tensor, how: Adaptation) -> tuple[Tensor, Tensor]:
    """Class biases b (W) and weights w (W, 1) of the assignment z = w·softmax(logits + b): 0 and 1 but for Sinkhorn.

    A round of Sinkhorn is a softmax, which scales the rows to sum 1, and weights w_c = size_c / Σ_j softmax_jc, which
    scale the columns and go into b for the next. As in `adaptation.sinkhorn` it ends when no row's sum moved by more
    than 1e-6. With `norm` the logarithm of a softmax's denominator, that sum is exp(norm − the last round's norm).
    Float64 throughout: rounding in float32 alone moves the sums by more than the stop test allows.
    """
    zero = torch.zeros_like(prototypes[:, 0])
    bias, weight = zero, torch.ones_like(prototypes[:, :1])
    if how.rule != "sinkhorn":
        return bias, weight
    share = shares(how.class_prior, len(prototypes), prototypes)
    scores = kept(Chunks(rows, lambda u: logits(u, prototypes, zero, how).double()))
    norm = row_sums = zero.new_tensor(torch.inf)
    for _ in range(SINKHORN_ROUNDS):
        now = bias + weight[:, 0].log()
        found, norms = zero.clone(), [zero[:0]]
        for score in scores:
            norms.append((score + now).logsumexp(1))
            found += (score + now - norms[-1][:, None]).exp().sum(0)
        last, norm = norm, torch.cat(norms)
        last_sums, row_sums = row_sums, (norm - last).exp()
        if (row_sums - last_sums).abs().le(SINKHORN_STOP).all():
            break
        bias, weight = now, (len(norm) * share / found.clamp_min(TINY))[:, None]
    return bias, weight


def two_best(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest classes of each row of logits (n, W), best first, and their probabilities: (n, 2), unless W = 1.

    Of classes that tie to within rounding the first is taken, so that a row's label does not depend on its chunk.
    """
    best, rest = [], scores
    for _ in range(min(2, scores.shape[1])):
        best.append((rest >= rest.amax(1, keepdim=True) - slack(rest)).byte().argmax(1, keepdim=True))
        rest = rest.scatter(1, best[-1], -torch.inf)
    chosen = torch.cat(best, 1)
    return chosen, scores.softmax(1).gather(1, chosen)


def _means(
    support: Iterable[Tensor], unlabeled: Iterable[Tensor], zero: Tensor, how: Adaptation
) -> tuple[Tensor, Tensor]:
    """What is taken off the support and off other rows, each (D)."""
    if how.center == "none":
        return zero, zero
    (s, n), (u, m) = _total(support, zero), _total(() if how.center == "support" else unlabeled, zero)
    if how.center == "joint":
        return (s + u) / (n + m), (s + u) / (n + m)
    return s / n, u / m if m else s / n


def _squares(rows: Tensor) -> Tensor:
    return rows.square().sum(1, keepdim=True)


def _total(rows: Iterable[Tensor], zero: Tensor) -> tuple[Tensor, int]:
    total, n = zero.clone(), 0
    for chunk in rows:
        total += chunk.sum(0, dtype=total.dtype)
        n += len(chunk)
    return total, n
