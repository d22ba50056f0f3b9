"""The adaptation loop compiled for the CPU: one episode at a time, all of it in cache.

The formulas are those of `adaptation`; this file only spells out their loops. numba compiles them on first use
and keeps the result, so no compiler is needed on the user's machine. Where numba is missing, torch does the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import SINKHORN_ROUNDS, SINKHORN_STOP, shares
from protoadapt.core.methods.normalize import ROUNDING

if TYPE_CHECKING:
    from protoadapt.core.methods.adaptation import Adaptation

try:
    from numba import njit
except ImportError:  # pragma: no cover
    njit = None  # type: ignore[assignment]

RULES = {"cosine": 0, "euclid": 1, "sinkhorn": 2}
CENTERS = {"none": 0, "separate": 1, "joint": 2, "support": 3}


def usable(rows: Tensor) -> bool:
    return njit is not None and rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)


def adapt(episodes: Episodes, how: Adaptation) -> Tensor:
    """(E, Q, W), as `adaptation.adapt`; episodes are spread over torch's threads (the loop drops the GIL)."""
    rows = episodes.rows.contiguous()
    helping, apart = episodes.unlabeled_index, episodes.query_index
    if helping is None:  # the queries pull, and nobody stands apart
        helping, apart = apart, apart[:, :0]
    out = torch.empty(*episodes.query_index.shape, episodes.n_way, dtype=rows.dtype)
    prior = shares(how.class_prior, episodes.n_way, rows)
    # Plain types, whatever the caller wrote: sigma=1 and sigma=1.0 must not be compiled twice.
    center, l2, rule, steps = CENTERS[how.center], bool(how.l2), RULES[how.rule], int(how.n_iter)
    centred = how.query_center == "unlabeled"
    options = (center, centred, l2, rule, float(how.scale), prior.numpy(), steps, float(how.sigma))

    def part(chosen: slice) -> None:
        index = (episodes.support_index, episodes.support_labels, helping, apart)
        arrays = [part[chosen].contiguous().numpy() for part in index]
        _adapt(rows.numpy(), *arrays, *options, out[chosen].numpy())  # type: ignore[call-arg]

    in_parts(len(episodes), part)
    return out


def in_parts(n: int, work: Callable[[slice], None]) -> None:
    """The work on n episodes, spread over torch's threads."""
    threads = max(1, min(torch.get_num_threads(), n // 16))
    parts = [slice(a, b) for a, b in pairwise(np.linspace(0, n, threads + 1).astype(int))]
    if threads == 1:
        work(parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))


if njit is not None:
    # Sums may be reordered (that is what vectorises them), but NaN and infinity keep their meaning.
    compiled = njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})

    @compiled
    def _adapt(rows, s_index, s_labels, u_index, q_index, center, centred, l2, rule, scale, prior, n_iter, sigma, out):
        """Rows u pull the prototypes. The answers are those of rows q beside them or, where there are none, of u."""
        n_episodes, n_query, n_way = out.shape
        n_rows, dim = u_index.shape[1], rows.shape[1]
        first = n_rows + n_way if q_index.shape[1] else 0  # of the answers
        padded = (n_rows + n_way + q_index.shape[1] + 3) // 4 * 4  # `gram_tiles` works in tiles of 4 × 4
        x = np.zeros((padded, dim), rows.dtype)  # the rows u, then the class sums of the support, then the rows q
        gram = np.zeros((padded, padded), rows.dtype)
        shots = np.zeros(n_way, rows.dtype)
        for e in range(n_episodes):
            _gather(rows, s_index[e], s_labels[e], u_index[e], q_index[e], center, centred, l2, x, shots)
            gram_tiles(x, gram, 0 if n_iter else n_rows)
            z = _steps(gram, shots, n_rows, rule, rows.dtype.type(scale), prior, n_iter, rows.dtype.type(sigma))
            for j in range(n_query):
                total = max(z[:, first + j].sum(), 1e-12)  # a transport plan's rows sum to 1 only nearly
                for c in range(n_way):
                    out[e, j, c] = z[c, first + j] / total

    @compiled
    def _gather(rows, s_index, s_labels, u_index, q_index, center, centred, l2, x, shots):
        """Prepared rows and class sums into x, class sizes into shots."""
        dim, n_rows, n_support, n_way = rows.shape[1], len(u_index), len(s_index), len(shots)
        s_mean, u_mean = np.zeros(dim, rows.dtype), np.zeros(dim, rows.dtype)
        for i in s_index:
            for d in range(dim):
                s_mean[d] += rows[i, d]
        for j in range(n_rows):
            row = rows[u_index[j]]
            for d in range(dim):
                u_mean[d] += row[d]
                x[j, d] = row[d]
        for d in range(dim):
            if center == 0:
                s_mean[d] = u_mean[d] = 0
            elif center == 2:
                s_mean[d] = u_mean[d] = (s_mean[d] + u_mean[d]) / (n_support + n_rows)
            else:
                s_mean[d] /= n_support
                u_mean[d] = u_mean[d] / n_rows if center == 1 else s_mean[d]
        for j in range(n_rows):
            _prepare(x[j], u_mean, l2)
        x[n_rows : n_rows + n_way] = 0
        shots[:] = 0
        row = np.empty(dim, rows.dtype)
        for i in range(n_support):
            row[:] = rows[s_index[i]]
            _prepare(row, s_mean, l2)
            shots[s_labels[i]] += 1
            total = x[n_rows + s_labels[i]]
            for d in range(dim):
                total[d] += row[d]
        if not centred:
            u_mean[:] = 0
        for j in range(len(q_index)):
            x[n_rows + n_way + j] = rows[q_index[j]]
            _prepare(x[n_rows + n_way + j], u_mean, l2)

    @compiled
    def _prepare(row, mean, l2):
        before = after = row.dtype.type(0)
        for d in range(len(row)):
            before += row[d] * row[d]
            row[d] -= mean[d]
            after += row[d] * row[d]
        if l2:
            small = math.sqrt(after) <= ROUNDING * math.sqrt(before)
            factor = row.dtype.type(0 if small else 1 / max(math.sqrt(after), 1e-12))
            for d in range(len(row)):
                row[d] *= factor

    @compiled
    def gram_tiles(x, gram, first):
        """gram = x xᵀ in the columns from `first` on, and on the diagonal.

        A tile of 4 × 2 products reads 6 rows for 8 sums, which keeps the arithmetic units busy.
        """
        n, dim = x.shape
        zero = x.dtype.type(0)
        for i in range(0, n, 4):
            for j in range(i, n, 2):
                if j >= i + 4 and j + 2 <= first:
                    continue
                s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = zero
                for d in range(dim):
                    b0, b1 = x[j, d], x[j + 1, d]
                    s00 += x[i, d] * b0
                    s01 += x[i, d] * b1
                    s10 += x[i + 1, d] * b0
                    s11 += x[i + 1, d] * b1
                    s20 += x[i + 2, d] * b0
                    s21 += x[i + 2, d] * b1
                    s30 += x[i + 3, d] * b0
                    s31 += x[i + 3, d] * b1
                gram[i, j] = gram[j, i] = s00
                gram[i, j + 1] = gram[j + 1, i] = s01
                gram[i + 1, j] = gram[j, i + 1] = s10
                gram[i + 1, j + 1] = gram[j + 1, i + 1] = s11
                gram[i + 2, j] = gram[j, i + 2] = s20
                gram[i + 2, j + 1] = gram[j + 1, i + 2] = s21
                gram[i + 3, j] = gram[j, i + 3] = s30
                gram[i + 3, j + 1] = gram[j + 1, i + 3] = s31

    @compiled
    def _steps(gram, shots, n_rows, rule, scale, prior, n_iter, sigma):
        """The Gram form of `adaptation`. Returns z (W, ·) at the end, for all rows of the Gram matrix.

        V holds p·x for all of them: those that pull, the class sums (so t is a part of V), others that are to be
        answered, and the padding, whose width vectorises. Only the first n_rows pull: z and A are zero beyond them.
        """
        n_way, width, real = len(shots), len(gram), gram.dtype.type
        keep, tiny = real(1) - sigma, real(1e-12)
        a, p2 = np.empty(n_way, gram.dtype), np.empty(n_way, gram.dtype)
        A = np.zeros((n_way, width), gram.dtype)
        V, z, pull = np.empty_like(A), np.zeros_like(A), np.empty_like(A)
        lengths, top, total = np.empty(width, gram.dtype), np.empty(width, gram.dtype), np.empty(width, gram.dtype)
        for j in range(width):
            lengths[j] = math.sqrt(gram[j, j])
        for c in range(n_way):
            a[c] = real(1) / max(shots[c], tiny)
            for j in range(width):
                V[c, j] = a[c] * gram[n_rows + c, j]
        for step in range(n_iter + 1):
            for c in range(n_way):
                p2[c] = a[c] * V[c, n_rows + c]
                for j in range(width):
                    p2[c] += A[c, j] * V[c, j]
                p2[c] = max(p2[c], real(0))
            if rule == 2:
                _sinkhorn(V, p2, gram, scale, prior, n_rows, z, top, total, pull[0])
            else:
                _softmax(V, p2, lengths, rule, scale, z, top, total)
            if step == n_iter:
                break
            for c in range(n_way):
                z[c, n_rows:] = 0
                pull[c] = gram[n_rows + c]
            for i in range(n_rows):
                for c in range(n_way):
                    weight = z[c, i]
                    for j in range(width):
                        pull[c, j] += weight * gram[i, j]
            for c in range(n_way):
                rate = sigma / max(shots[c] + z[c].sum(), tiny)
                a[c] = keep * a[c] + rate
                for j in range(width):
                    A[c, j] = keep * A[c, j] + rate * z[c, j]
                    V[c, j] = keep * V[c, j] + rate * pull[c, j]
        return z

    @compiled
    def _softmax(V, p2, lengths, rule, scale, z, top, total):
        """Softmax over the classes for each row; loops run along the rows, so that they vectorise."""
        n_way, width = V.shape
        real = V.dtype.type
        top[:] = -np.inf
        total[:] = 0
        for c in range(n_way):
            length = math.sqrt(p2[c])
            for j in range(width):
                if rule == 0:
                    z[c, j] = scale * V[c, j] / max(length * lengths[j], real(1e-12))
                else:
                    z[c, j] = scale * (real(2) * V[c, j] - p2[c])
                top[j] = max(top[j], z[c, j])
        for c in range(n_way):
            for j in range(width):
                z[c, j] = fast_exp(z[c, j] - top[j])
                total[j] += z[c, j]
        for c in range(n_way):
            for j in range(width):
                z[c, j] /= total[j]

    @compiled
    def fast_exp(x):
        """exp(x) of x ≤ 0 without a call, so that a loop of it vectorises: (exp(x/64))⁶⁴ by a series and six squarings.

        Right to 1e-5 of itself in float32, to 2e-12 in float64; below −40 it stays at exp(−40) ≈ 4e-18.
        """
        real = type(x)
        x = max(x, real(-40)) / real(64)
        series = real(1)
        for k in (13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1):
            series = real(1) + x / real(k) * series
        for _ in range(6):
            series *= series
        return series

    @compiled
    def _sinkhorn(V, p2, gram, scale, prior, n_rows, plan, left, row_sums, fill):
        """`common.transport_plan`: plan = left · kernel · right, of which a round changes only the two scalings."""
        n_way, width = plan.shape
        real = V.dtype.type
        tiny, mass = real(1e-12), real(0)
        right = np.ones(n_way, V.dtype)
        for c in range(n_way):
            plan[c, n_rows:] = 0
            for j in range(n_rows):
                plan[c, j] = math.exp(-scale * max(gram[j, j] - real(2) * V[c, j] + p2[c], real(0)))
                mass += plan[c, j]
        plan /= max(mass, tiny)
        left[:] = 1
        row_sums[:] = 0
        for _ in range(SINKHORN_ROUNDS):
            fill[:] = 0
            for c in range(n_way):
                for j in range(width):
                    fill[j] += right[c] * plan[c, j]
            moved = real(0)
            for j in range(width):
                now = left[j] * fill[j]
                moved = max(moved, abs(now - row_sums[j]))
                row_sums[j] = now
            if moved <= SINKHORN_STOP:
                break
            for j in range(width):
                left[j] = real(1) / max(fill[j], tiny)
            for c in range(n_way):
                column = real(0)
                for j in range(width):
                    column += left[j] * plan[c, j]
                right[c] = prior[c] * n_rows / max(column, tiny)
        for c in range(n_way):
            for j in range(width):
                plan[c, j] *= left[j] * right[c]
