"""The adaptation loop compiled for the CPU: one episode at a time, all of it in cache.

The formulas are those of `adaptation`; this file only spells out their loops. numba compiles them on first use
and keeps the result, so no compiler is needed on the user's machine. Where numba is missing, torch does the work.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from protoadapt.episodes import Episodes

if TYPE_CHECKING:
    from protoadapt.methods.adaptation import Adaptation

try:
    from numba import njit
except ImportError:  # pragma: no cover
    njit = None  # type: ignore[assignment]

SINKHORN_ROUNDS = 1000
SINKHORN_STOP = 1e-6
ROUNDING = 1e-6
"""A centred row shorter than this share of its length before centring is zero: what is left is rounding."""

RULES = {"cosine": 0, "euclid": 1, "sinkhorn": 2}
CENTERS = {"none": 0, "separate": 1, "joint": 2, "support": 3}


def usable(rows: Tensor) -> bool:
    return njit is not None and rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)


def adapt(episodes: Episodes, how: Adaptation) -> Tensor:
    """(E, Q, W), as `adaptation.adapt`; episodes are spread over torch's threads (the loop drops the GIL)."""
    from protoadapt.methods.adaptation import column_shares

    rows = episodes.rows.contiguous()
    out = torch.empty(*episodes.query_index.shape, episodes.n_way, dtype=rows.dtype)
    prior = column_shares(how, episodes.n_way, rows)
    # Plain types, whatever the caller wrote: sigma=1 and sigma=1.0 must not be compiled twice.
    center, l2, rule, steps = CENTERS[how.center], bool(how.l2), RULES[how.rule], int(how.n_iter)
    options = (center, l2, rule, float(how.scale), prior.numpy(), steps, float(how.sigma))

    def part(chosen: slice) -> None:
        index = (episodes.support_index, episodes.support_labels, episodes.query_index)
        arrays = [part[chosen].contiguous().numpy() for part in index]
        _adapt(rows.numpy(), *arrays, *options, out[chosen].numpy())  # type: ignore[call-arg]

    threads = max(1, min(torch.get_num_threads(), len(episodes) // 16))
    cuts = np.linspace(0, len(episodes), threads + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    if threads == 1:
        part(parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, parts))
    return out


if njit is not None:
    # Sums may be reordered (that is what vectorises them), but NaN and infinity keep their meaning.
    compiled = njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})

    @compiled
    def _adapt(rows, s_index, s_labels, q_index, center, l2, rule, scale, prior, n_iter, sigma, out):
        n_episodes, n_query, n_way = out.shape
        dim = rows.shape[1]
        padded = (n_query + n_way + 3) // 4 * 4  # `_gram` works in tiles of 4 × 4
        x = np.zeros((padded, dim), rows.dtype)  # the queries, then the class sums of the support
        gram = np.zeros((padded, padded), rows.dtype)
        shots = np.zeros(n_way, rows.dtype)
        for e in range(n_episodes):
            _gather(rows, s_index[e], s_labels[e], q_index[e], center, l2, x, shots)
            _gram(x, gram, 0 if n_iter else n_query)
            z = _steps(gram, shots, n_query, rule, rows.dtype.type(scale), prior, n_iter, rows.dtype.type(sigma))
            for j in range(n_query):
                for c in range(n_way):
                    out[e, j, c] = z[c, j]

    @compiled
    def _gather(rows, s_index, s_labels, q_index, center, l2, x, shots):
        """Calibrated queries and class sums into x, class sizes into shots."""
        dim, n_query, n_support = rows.shape[1], len(q_index), len(s_index)
        s_mean, q_mean = np.zeros(dim, rows.dtype), np.zeros(dim, rows.dtype)
        for i in s_index:
            for d in range(dim):
                s_mean[d] += rows[i, d]
        for i in q_index:
            for d in range(dim):
                q_mean[d] += rows[i, d]
        for d in range(dim):
            if center == 0:
                s_mean[d] = q_mean[d] = 0
            elif center == 2:
                s_mean[d] = q_mean[d] = (s_mean[d] + q_mean[d]) / (n_support + n_query)
            else:
                s_mean[d] /= n_support
                q_mean[d] = q_mean[d] / n_query if center == 1 else s_mean[d]
        for j in range(n_query):
            _calibrated(rows[q_index[j]], q_mean, l2, x[j])
        x[n_query:] = 0
        shots[:] = 0
        row = np.empty(dim, rows.dtype)
        for i in range(n_support):
            _calibrated(rows[s_index[i]], s_mean, l2, row)
            shots[s_labels[i]] += 1
            total = x[n_query + s_labels[i]]
            for d in range(dim):
                total[d] += row[d]

    @compiled
    def _calibrated(row, mean, l2, out):
        before = after = row.dtype.type(0)
        for d in range(len(row)):
            centred = row[d] - mean[d]
            before += row[d] * row[d]
            after += centred * centred
            out[d] = centred
        if l2:
            small = math.sqrt(after) <= ROUNDING * math.sqrt(before)
            factor = row.dtype.type(0 if small else 1 / max(math.sqrt(after), 1e-12))
            for d in range(len(row)):
                out[d] *= factor

    @compiled
    def _gram(x, gram, first):
        """gram = x xᵀ in the columns from `first` on, and on the diagonal.

        A tile of 4 × 4 products reads 8 rows for 16 sums, which keeps the arithmetic units busy.
        """
        n, dim = x.shape
        zero = x.dtype.type(0)
        for i in range(0, n, 4):
            for j in range(i, n, 4):
                if j != i and j + 4 <= first:
                    continue
                s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
                s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
                for d in range(dim):
                    a0, a1, a2, a3 = x[i, d], x[i + 1, d], x[i + 2, d], x[i + 3, d]
                    b0, b1, b2, b3 = x[j, d], x[j + 1, d], x[j + 2, d], x[j + 3, d]
                    s00, s01, s02, s03 = s00 + a0 * b0, s01 + a0 * b1, s02 + a0 * b2, s03 + a0 * b3
                    s10, s11, s12, s13 = s10 + a1 * b0, s11 + a1 * b1, s12 + a1 * b2, s13 + a1 * b3
                    s20, s21, s22, s23 = s20 + a2 * b0, s21 + a2 * b1, s22 + a2 * b2, s23 + a2 * b3
                    s30, s31, s32, s33 = s30 + a3 * b0, s31 + a3 * b1, s32 + a3 * b2, s33 + a3 * b3
                tile = ((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33))
                for k in range(4):
                    for m in range(4):
                        gram[i + k, j + m] = tile[k][m]
                        gram[j + m, i + k] = tile[k][m]

    @compiled
    def _steps(gram, shots, n_query, rule, scale, prior, n_iter, sigma):
        """The Gram form of `adaptation`; its B, G and ‖s‖² are parts of `gram`. Returns z (W, Q) at the end."""
        n_way, real = len(shots), gram.dtype.type
        one, keep = real(1), real(1) - sigma
        a, t, p2 = np.empty(n_way, gram.dtype), np.empty(n_way, gram.dtype), np.empty(n_way, gram.dtype)
        A = np.zeros((n_way, n_query), gram.dtype)
        V, z, pull = np.empty_like(A), np.empty_like(A), np.empty_like(A)
        for c in range(n_way):
            a[c] = one / max(shots[c], real(1e-12))
            t[c] = a[c] * gram[n_query + c, n_query + c]
            for j in range(n_query):
                V[c, j] = a[c] * gram[n_query + c, j]
        for step in range(n_iter + 1):
            for c in range(n_way):
                p2[c] = a[c] * t[c]
                for j in range(n_query):
                    p2[c] += A[c, j] * V[c, j]
                p2[c] = max(p2[c], real(0))
            if rule == 2:
                _sinkhorn(V, p2, gram, scale, prior, z)
            else:
                _softmax(V, p2, gram, rule, scale, z)
            if step == n_iter:
                break
            pull[:] = 0
            for i in range(n_query):
                for c in range(n_way):
                    weight = z[c, i]
                    for j in range(n_query):
                        pull[c, j] += weight * gram[i, j]
            for c in range(n_way):
                mass, along = shots[c], gram[n_query + c, n_query + c]
                for j in range(n_query):
                    mass += z[c, j]
                    along += z[c, j] * gram[n_query + c, j]
                rate = sigma / max(mass, real(1e-12))
                a[c] = keep * a[c] + rate
                t[c] = keep * t[c] + rate * along
                for j in range(n_query):
                    A[c, j] = keep * A[c, j] + rate * z[c, j]
                    V[c, j] = keep * V[c, j] + rate * (gram[n_query + c, j] + pull[c, j])
        return z

    @compiled
    def _softmax(V, p2, gram, rule, scale, z):
        n_way, n_query = V.shape
        real = V.dtype.type
        for j in range(n_query):
            top = real(-np.inf)
            for c in range(n_way):
                if rule == 0:
                    z[c, j] = scale * V[c, j] / max(math.sqrt(p2[c]) * math.sqrt(gram[j, j]), real(1e-12))
                else:
                    z[c, j] = scale * (real(2) * V[c, j] - p2[c])
                top = max(top, z[c, j])
            total = real(0)
            for c in range(n_way):
                z[c, j] = math.exp(z[c, j] - top)
                total += z[c, j]
            for c in range(n_way):
                z[c, j] /= total

    @compiled
    def _sinkhorn(V, p2, gram, scale, prior, plan):
        n_way, n_query = V.shape
        real = V.dtype.type
        tiny, mass = real(1e-12), real(0)
        row_sums, sums = np.zeros(n_query, V.dtype), np.zeros(n_query, V.dtype)
        for c in range(n_way):
            for j in range(n_query):
                plan[c, j] = math.exp(-scale * max(gram[j, j] - real(2) * V[c, j] + p2[c], real(0)))
                mass += plan[c, j]
        plan /= max(mass, tiny)
        for _ in range(SINKHORN_ROUNDS):
            sums[:] = 0
            for c in range(n_way):
                for j in range(n_query):
                    sums[j] += plan[c, j]
            moved = real(0)
            for j in range(n_query):
                moved = max(moved, abs(sums[j] - row_sums[j]))
                row_sums[j] = sums[j]
                sums[j] = real(1) / max(sums[j], tiny)
            if moved <= SINKHORN_STOP:
                break
            for c in range(n_way):
                column = real(0)
                for j in range(n_query):
                    plan[c, j] *= sums[j]
                    column += plan[c, j]
                factor = prior[c] * n_query / max(column, tiny)
                for j in range(n_query):
                    plan[c, j] *= factor
