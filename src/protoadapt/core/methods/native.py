"""The adaptation loop compiled for the CPU: one episode at a time, all of it in cache.

The formulas are those of `adaptation`; this file only spells out their loops. Where numba is missing, torch does the
work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import SINKHORN_ROUNDS, SINKHORN_STOP, shares
from protoadapt.core.methods.native_kernels import njit, padded
from protoadapt.core.methods.normalize import ROUNDING
from protoadapt.core.threads import thread_pool

if TYPE_CHECKING:
    from protoadapt.core.methods.adaptation import Adaptation

PIECES = 2
"""Pieces of the episodes per thread."""
RULES = {"cosine": 0, "euclid": 1, "sinkhorn": 2}
CENTERS = {"none": 0, "separate": 1, "joint": 2, "support": 3}


def usable(rows: Tensor) -> bool:
    return njit is not None and rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)


def adapt(episodes: Episodes, how: Adaptation) -> Tensor:
    """(E, Q, W), as `adaptation.adapt`; episodes are spread over torch's threads (the loop drops the GIL)."""
    rows = episodes.rows.contiguous()
    helping, apart = helping_and_apart(episodes)
    out = torch.empty(*episodes.query_index.shape, episodes.n_way, dtype=rows.dtype)
    prior = shares(how.class_prior, episodes.n_way, rows)
    # Plain types, whatever the caller wrote: sigma=1 and sigma=1.0 must not be compiled twice.
    center, l2, rule, steps = CENTERS[how.center], bool(how.l2), RULES[how.rule], int(how.n_iter)
    centred = how.query_center == "unlabeled"
    options = (center, centred, l2, rule, float(how.scale), prior.numpy(), steps, float(how.sigma))
    width = padded(helping.shape[1] + episodes.n_way)

    def part(out: np.ndarray, *index: np.ndarray) -> None:
        _adapt(rows.numpy(), *index, width, *options, out)  # type: ignore[call-arg]

    in_parts(part, out, episodes.support_index, episodes.support_labels, helping, apart)
    return out


def helping_and_apart(episodes: Episodes) -> tuple[Tensor, Tensor]:
    """(E, U) and (E, Q): the rows that pull, and those beside them that are only answered.

    Without unlabelled rows the queries pull, and nobody stands apart.
    """
    if episodes.unlabeled_index is None:
        return episodes.query_index, episodes.query_index[:, :0]
    return episodes.unlabeled_index, episodes.query_index


def in_parts(work: Callable[..., None], out: Tensor, *per_episode: Tensor) -> None:
    """The work on episodes, spread over torch's threads: each gets its part of `out` and of the other tensors."""
    n = len(out)
    threads = max(1, min(torch.get_num_threads(), n // 16))
    pieces = max(1, min(PIECES * threads, n // 16))  # whoever is done takes the next: other threads draw episodes
    parts = [slice(a, b) for a, b in pairwise(np.linspace(0, n, pieces + 1).astype(int))]

    def on(chosen: slice) -> None:
        work(out[chosen].numpy(), *(tensor[chosen].contiguous().numpy() for tensor in per_episode))

    if threads == 1:
        on(slice(None))
    else:
        with thread_pool(threads) as pool:
            list(pool.map(on, parts))


if njit is not None:
    from protoadapt.core.methods.native_kernels import (
        add_rows,
        add_weighted,
        aligned,
        compiled,
        dot,
        gram_tiles,
        softmax,
        total_of,
    )

    @compiled
    def _adapt(
        rows, s_index, s_labels, u_index, q_index, width, center, centred, l2, rule, scale, prior, n_iter, sigma, out
    ):
        """Rows u pull the prototypes. The answers are those of rows q beside them or, where there are none, of u."""
        n_episodes, n_query, n_way = out.shape
        n_rows, dim, real = u_index.shape[1], rows.shape[1], rows.dtype.type
        x = aligned(width, dim, rows)  # the centred rows u, then the class sums of the support, then padding
        gram = aligned(width, width, rows)
        unit, shots = np.ones(width, rows.dtype), np.zeros(n_way, rows.dtype)  # unit: factors of the rows of x
        scale, sigma = real(scale), real(sigma)
        for e in range(n_episodes):
            u_mean = _gather(rows, s_index[e], s_labels[e], u_index[e], center, l2, x, unit, shots)
            gram_tiles(x, gram, 0 if n_iter else n_rows)
            if l2:
                _to_unit(gram, unit, n_rows)
            else:
                unit[:] = 1
            z, a, A, p2 = _steps(gram, shots, n_rows, rule, scale, prior, n_iter, sigma)
            if q_index.shape[1]:
                for c in range(n_way):
                    for j in range(n_rows):
                        A[c, j] *= unit[j]
                    A[c, n_rows + c] = a[c]
                prototypes = np.zeros((n_way, dim), rows.dtype)
                add_weighted(A, x, n_rows + n_way, prototypes)
                if not centred:
                    u_mean[:] = 0
                z = _answers(rows, q_index[e], u_mean, l2, prototypes, p2, rule, scale)
            for j in range(n_query):
                total = real(0)
                for c in range(n_way):
                    total += z[c, j]
                total = real(1) / max(total, real(1e-12))  # a transport plan's rows sum to 1 only nearly
                for c in range(n_way):
                    out[e, j, c] = z[c, j] * total

    @compiled
    def _gather(rows, s_index, s_labels, u_index, center, l2, x, before, shots):
        """Centred rows and class sums into x, class sizes into shots, ‖row‖² before centring into `before`.

        Returns the mean that was taken off the rows u. They are brought to unit length by the Gram matrix, whose
        diagonal holds their lengths.
        """
        n_rows, n_support, n_way = len(u_index), len(s_index), len(shots)
        s_mean, u_mean = np.zeros(rows.shape[1], rows.dtype), np.zeros(rows.shape[1], rows.dtype)
        if center:
            add_rows(rows, s_index, s_mean)
            add_rows(rows, u_index, u_mean)
        for d in range(len(s_mean)):
            if center == 2:
                s_mean[d] = u_mean[d] = (s_mean[d] + u_mean[d]) / (n_support + n_rows)
            else:
                s_mean[d] /= n_support
                u_mean[d] = s_mean[d] if center == 3 else u_mean[d] / n_rows
        for j in range(n_rows):
            before[j] = _centre(rows[u_index[j]], u_mean, x[j])[0]
        x[n_rows : n_rows + n_way] = 0
        shots[:] = 0
        row = np.empty(rows.shape[1], rows.dtype)
        for i in range(n_support):
            length2 = _centre(rows[s_index[i]], s_mean, row)
            factor = _factor(length2[0], length2[1]) if l2 else rows.dtype.type(1)
            shots[s_labels[i]] += 1
            total = x[n_rows + s_labels[i]]
            for d in range(len(row)):
                total[d] += factor * row[d]
        return u_mean

    @compiled
    def _centre(row, mean, out):
        """out = row − mean. Returns ‖row‖² and ‖row − mean‖²."""
        before = after = row.dtype.type(0)
        for d in range(len(row)):
            left = row[d] - mean[d]
            before += row[d] * row[d]
            after += left * left
            out[d] = left
        return before, after

    @compiled
    def _factor(before, after):
        """1/‖row − mean‖, or 0 for a row at the centre."""
        small = math.sqrt(after) <= ROUNDING * math.sqrt(before)
        return type(before)(0 if small else 1 / max(math.sqrt(after), 1e-12))

    @compiled
    def _to_unit(gram, unit, n_rows):
        """The Gram matrix of unit rows u; `unit`, ‖row‖² before centring, becomes the factors of the rows."""
        for j in range(n_rows):
            unit[j] = _factor(unit[j], gram[j, j])
        for i in range(len(gram)):
            for j in range(len(gram)):
                gram[i, j] *= unit[i] * unit[j]

    @compiled
    def _steps(gram, shots, n_rows, rule, scale, prior, n_iter, sigma):
        """The Gram form of `adaptation`. Returns z (W, ·) at the end, for all rows of the Gram matrix, and a, A, ‖p‖².

        V holds p·x for all of them: those that pull, the class sums (so t is a part of V), and the padding, whose
        width vectorises. Only the first n_rows pull: z and A are zero beyond them.
        """
        n_way, width, real = len(shots), len(gram), gram.dtype.type
        keep, tiny = real(1) - sigma, real(1e-12)
        a, p2 = np.empty(n_way, gram.dtype), np.empty(n_way, gram.dtype)
        A = aligned(n_way, width, gram)
        V, z, pull = aligned(n_way, width, gram), aligned(n_way, width, gram), aligned(n_way, width, gram)
        inverse, top, total = np.empty(width, gram.dtype), np.empty(width, gram.dtype), np.empty(width, gram.dtype)
        for j in range(width):
            inverse[j] = real(1) / max(real(math.sqrt(gram[j, j])), tiny)
        for c in range(n_way):
            a[c] = real(1) / max(shots[c], tiny)
            for j in range(width):
                V[c, j] = a[c] * gram[n_rows + c, j]
        for step in range(n_iter + 1):
            for c in range(n_way):
                p2[c] = max(a[c] * V[c, n_rows + c] + dot(A[c], V[c]), real(0))
            if rule == 2:
                _sinkhorn(V, p2, gram, scale, prior, n_rows, z, top, total, pull[0])
            else:
                _logits(V, p2, inverse, rule, scale, z)
                softmax(z, top, total)
            if step == n_iter:
                break
            for c in range(n_way):
                z[c, n_rows:] = 0
                pull[c] = gram[n_rows + c]
            add_weighted(z, gram, n_rows, pull)
            for c in range(n_way):
                rate = sigma / max(shots[c] + total_of(z[c]), tiny)
                a[c] = keep * a[c] + rate
                for j in range(width):
                    A[c, j] = keep * A[c, j] + rate * z[c, j]
                    V[c, j] = keep * V[c, j] + rate * pull[c, j]
        return z, a, A, p2

    @compiled
    def _logits(V, p2, inverse, rule, scale, out):
        """Of prototypes with p·x = V (W, ·) and rows with 1/‖x‖ = inverse (·)."""
        real = V.dtype.type
        for c in range(len(V)):
            factor = scale / max(real(math.sqrt(p2[c])), real(1e-12))
            for j in range(V.shape[1]):
                out[c, j] = factor * V[c, j] * inverse[j] if rule == 0 else scale * (real(2) * V[c, j] - p2[c])

    @compiled
    def _answers(rows, index, mean, l2, prototypes, p2, rule, scale):
        """z (W, ·) of rows beside those that pull, from the prototypes (W, D) themselves."""
        n_way, n_query, real = len(p2), len(index), rows.dtype.type
        V, z = np.empty((n_way, n_query), rows.dtype), np.empty((n_way, n_query), rows.dtype)
        row, inverse = np.empty(rows.shape[1], rows.dtype), np.empty(n_query, rows.dtype)
        for j in range(n_query):
            length2 = _centre(rows[index[j]], mean, row)
            factor = _factor(length2[0], length2[1]) if l2 else real(1)
            inverse[j] = real(1) / max(factor * real(math.sqrt(length2[1])), real(1e-12))
            for c in range(n_way):
                V[c, j] = factor * dot(prototypes[c], row)
        _logits(V, p2, inverse, rule, scale, z)
        softmax(z, inverse, V[0])
        return z

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
