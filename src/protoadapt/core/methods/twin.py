"""The loop of `family` compiled for the CPU: one episode at a time, all of it in cache. This file only spells it out.

The centre and the prototypes never leave the span of the episode's rows x, so after one Gram matrix G = x xᵀ no
D-dimensional work is left: they are kept as mixtures M of the rows, and V = M G holds their products with all rows.
With the mixture m of a moving centre and f_j = 1/‖x_j − μ‖ a calibrated row is u_j = f_j (x_j − Σ m x), so

    p·u_j = f_j (V_j − V·m),   ‖x_j − μ‖² = G_jj − 2 (G m)_j + m·G m,   p ← (1−σ) p + σ Σ_j t_j u_j / (K + k + n):
    M ← (1−σ) M + σ (t f − (Σ t f) m) / (K + k + n) .

Rows are those that pull (the queries, or unlabelled rows beside them), then the labelled ones, then queries that are
only answered, then zeros up to a multiple of LANES; each about its first centre, so that little is lost to rounding.
numba compiles on first use and keeps the result; where it is missing, torch does the work.
"""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import shares
from protoadapt.core.methods.family import (
    CONCENTRATIONS,
    SINKHORN_ROUNDS,
    SINKHORN_STOP,
    SUPPORT_WEIGHT,
    Rule,
)
from protoadapt.core.methods.loops import LANES, njit
from protoadapt.core.prototype_model import ROUNDING
from protoadapt.core.threads import thread_pool

SMALL = 256  # up to so many rows, or the rows' dimension if that is more, the Gram matrix is the cheaper form
CENTERS = ("none", "separate", "joint", "support", "classes")
SIZES = ("none", "given", "estimated")
SEPARATE, JOINT, MOVING, GIVEN = 1, 2, 4, 1


def takes(episodes: Episodes) -> bool:
    """Whether these episodes are for this loop: on the CPU, and not too many rows for a Gram matrix."""
    rows = episodes.rows
    helping = episodes.query_index if episodes.unlabeled_index is None else episodes.unlabeled_index
    few = helping.shape[1] <= max(rows.shape[1], SMALL)
    return njit is not None and few and rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)


def adapt_compiled(episodes: Episodes, rule: Rule) -> Tensor:
    """(E, Q, W), as `family.adapt`; episodes are spread over torch's threads (the loop drops the GIL)."""
    rows, n_way = episodes.rows.contiguous(), episodes.n_way
    helping, apart = episodes.unlabeled_index, episodes.query_index
    if helping is None:
        helping, apart = apart, apart[:, :0]
    index = episodes.support_index, episodes.support_labels, helping, apart
    out = torch.empty(*episodes.query_index.shape, n_way, dtype=rows.dtype)
    # Plain types, whatever the caller wrote: sigma=1 and sigma=1.0 must not be compiled twice.
    choices = CENTERS.index(rule.center), rule.similarity == "cosine", bool(rule.l2), rule.query_center == "unlabeled"
    sizes = SIZES.index(rule.sizes), bool(rule.transport), bool(rule.nameless), bool(rule.labels_pull)
    numbers = int(rule.n_iter), *np.array([rule.scale, rule.sigma, rule.kappa], rows.numpy().dtype)
    grid = np.array([(a, math.lgamma(a), math.lgamma(n_way * a)) for a in CONCENTRATIONS])
    given = choices, sizes, numbers, shares(rule.class_prior, n_way, rows).numpy(), grid
    n = len(out)
    threads = max(1, min(torch.get_num_threads(), n // 16))
    pieces = max(1, min(2 * threads, n // 16))  # whoever is done takes the next: other threads draw episodes

    def part(some: slice) -> None:
        _adapt(rows.numpy(), *(one[some].contiguous().numpy() for one in index), *given, out[some].numpy())  # type: ignore[call-arg]

    if threads == 1:
        part(slice(None))
    else:
        with thread_pool(threads) as pool:
            list(pool.map(part, [slice(a, b) for a, b in pairwise(np.linspace(0, n, pieces + 1).astype(int))]))
    return out


if njit is not None:
    from protoadapt.core.methods.loops import add_weighted, aligned, compiled, dot, fast_exp, gram_tiles

    @compiled
    def _adapt(rows, s_index, s_labels, u_index, q_index, choices, sizes, numbers, prior, grid, out):
        n_query, n_way = out.shape[1:]
        center, _, l2, centred = choices
        n_rows, n_support, n_asked, dim = u_index.shape[1], s_index.shape[1], q_index.shape[1], rows.shape[1]
        asked = n_rows + n_support if n_asked else 0  # the first row of the answer
        width = (n_rows + n_support + n_asked + LANES - 1) // LANES * LANES
        x, gram, length2 = aligned(width, dim, rows), aligned(width, width, rows), np.zeros(width, rows.dtype)
        shots, s_mean, u_mean = np.zeros(n_way, rows.dtype), np.zeros(dim, rows.dtype), np.zeros(dim, rows.dtype)
        for e in range(len(out)):
            _centers(rows, s_index[e], s_labels[e], u_index[e], center, shots, s_mean, u_mean)
            _centre(rows, u_index[e], u_mean, x, length2)
            _centre(rows, s_index[e], s_mean, x[n_rows:], length2[n_rows:])
            _centre(rows, q_index[e], u_mean if centred else u_mean * 0, x[n_rows + n_support :], length2[asked:])
            gram_tiles(x, gram, 0 if numbers[0] else n_rows)
            if not l2:
                length2[:] = 0  # no row is at the centre, however near it is
            z = _steps(gram, length2, s_labels[e], shots, n_rows, choices, sizes, numbers, prior, grid)
            for j in range(n_query):
                for c in range(n_way):
                    out[e, j, c] = z[c, asked + j]

    @compiled
    def _centers(rows, s_index, s_labels, u_index, center, shots, s_mean, u_mean):
        """K, and what is taken off the labelled rows and off those that pull; of a moving centre, where it starts."""
        shots[:] = 0
        s_mean[:] = 0
        u_mean[:] = 0
        for label in s_labels:
            shots[label] += 1
        n_support, n_rows, known = len(s_index), len(u_index), (shots > 0).sum()
        for i in range(n_support if center else 0):
            weight = rows.dtype.type(1 / (known * shots[s_labels[i]]) if center == MOVING else 1 / n_support)
            for d in range(len(s_mean)):
                s_mean[d] += weight * rows[s_index[i], d]
        for j in range(n_rows if center in (SEPARATE, JOINT) else 0):
            row = rows[u_index[j]]
            for d in range(len(row)):
                u_mean[d] += row[d]
        for d in range(len(s_mean)):
            if center == JOINT:
                s_mean[d] = (n_support * s_mean[d] + u_mean[d]) / (n_support + n_rows)
            u_mean[d] = u_mean[d] / n_rows if center == SEPARATE else s_mean[d]

    @compiled
    def _centre(rows, index, mean, out, length2):
        """The rows of the index about a mean, and their squared lengths before that."""
        for j in range(len(index)):
            row, total = rows[index[j]], rows.dtype.type(0)
            for d in range(len(mean)):
                total += row[d] * row[d]
                out[j, d] = row[d] - mean[d]
            length2[j] = total

    @compiled
    def _steps(gram, length2, labels, shots, n_rows, choices, sizes, numbers, prior, grid):
        """The loop. Returns z (W, ·) of all rows at the end."""
        center, cosine, l2, _ = choices
        kind, transport, nameless, labels_pull = sizes
        n_iter, scale, sigma, kappa = numbers
        n_way, width, real, moves = len(shots), len(gram), gram.dtype.type, center == MOVING
        tiny, known, asked = real(1e-12), (shots > 0).sum(), n_rows + len(labels)
        r = (real(1) / np.sqrt(shots[shots > 0])).sum() / real(known)
        mass = r if nameless else real(0)
        M, V = aligned(n_way + 2, width, gram), aligned(n_way + 2, width, gram)
        t, z = aligned(n_way, width, gram), aligned(n_way, width, gram)
        n, bias = np.zeros(n_way, gram.dtype), np.zeros(n_way, gram.dtype)
        inverse, ones, m = np.empty(width, gram.dtype), np.ones(width, gram.dtype), M[n_way]
        factor = inverse if l2 else ones
        _lengths(gram, length2, m, V[n_way], inverse)
        for i in range(len(labels)):
            t[labels[i], n_rows + i] = 1
        for c in range(n_way):
            _mix(M[c], t[c], factor, m, real(0), real(1) / max(shots[c] + kappa * r, tiny))
        for step in range(n_iter + 1):
            V[:] = 0
            add_weighted(M[: (n_way + moves + 1) // 2 * 2], gram, width, V)
            if moves:
                _lengths(gram, length2, m, V[n_way], inverse)
            if transport:
                bias[:] = 0
            for c in range(n_way):
                along, pm = inverse if cosine else factor, dot(V[c], m) if moves else real(0)
                _logits(V[c], along, pm, max(dot(M[c], V[c]), real(0)), cosine, scale, z[c])
                size_term = bias[c]
                for j in range(width):
                    z[c, j] += size_term if j < n_rows or j >= asked else real(0)  # labelled rows: without ℓ
            softmax(z, n_rows, mass if step < n_iter else real(0), transport)  # the answer names every row
            if transport:
                _transport(z, n_rows, prior, bias)
            if step == n_iter:
                break
            for c in range(n_way):
                n[c] = z[c, :n_rows].sum()
                weight = real(n_rows) * prior[c] / max(n[c], tiny) if transport else real(1)
                n[c] *= weight
                for j in range(n_rows):
                    t[c, j] = weight * z[c, j]
                for i in range(len(labels) if labels_pull else 0):
                    t[c, n_rows + i] = real(2 * (labels[i] == c)) - z[c, n_rows + i]
                _mix(M[c], t[c], factor, m, real(1) - sigma, sigma / max(shots[c] + kappa * r + n[c], tiny))
            if moves:
                _mean_of_classes(z, labels, shots, n, n_rows, known, m)
            if kind:
                total = n.sum()
                spread, mass = ((n - total / n_way) ** 2).sum(), real(0)
                if kind == GIVEN or spread < (n_way - 1) * total / n_way:
                    for c in range(n_way):
                        bias[c] += real(math.log(total * prior[c] / max(n[c], tiny)))
                else:
                    _log_shares(n, grid, bias)
                    mass = r
        return z

    @compiled
    def _mean_of_classes(z, labels, shots, n, n_rows, known, m):
        """The centre as a mixture of the rows."""
        m[:] = 0
        for c in range(len(z)):
            share = 1 / (known * max(SUPPORT_WEIGHT * shots[c] + n[c], 1e-12))
            for j in range(n_rows if shots[c] > 0 else 0):
                m[j] += share * z[c, j]
            for i in range(len(labels)):
                m[n_rows + i] += share * SUPPORT_WEIGHT * (labels[i] == c)

    @compiled
    def _lengths(gram, length2, m, Gm, inverse):
        """1/‖x − μ‖ of every row, or 0 for a row at the centre; length2: ‖x‖² before any centring."""
        real, mm = gram.dtype.type, dot(m, Gm)
        rounding = real(1e-12 if real(16777217) != real(16777216) else 4e-6)  # of lengths from products
        for j in range(len(inverse)):
            left = gram[j, j] - real(2) * Gm[j] + mm
            least = max(real(ROUNDING**2) * length2[j], rounding * (gram[j, j] + mm) if mm > 0 else real(0))
            inverse[j] = real(1) / real(math.sqrt(left)) if left > least else real(0)

    @compiled
    def _mix(a, t, factor, m, keep, rate):
        """a ← keep·a + rate·Σ_j t_j u_j, as mixtures."""
        total = dot(t, factor)
        for j in range(len(a)):
            a[j] = keep * a[j] + rate * (t[j] * factor[j] - total * m[j])

    @compiled
    def _logits(inner, along, pm, p2, cosine, scale, out):
        """τ·cos(u, p) or λ(2u·p − ‖p‖²) for inner = x·p, pm = μ·p, and `along` 1/‖x − μ‖, or u's factor."""
        real = inner.dtype.type
        slope = scale / max(real(math.sqrt(p2)), real(1e-12)) if cosine else real(2) * scale
        shift = real(0) if cosine else scale * p2
        for j in range(len(out)):
            out[j] = slope * along[j] * (inner[j] - pm) - shift

    @compiled
    def softmax(z, n_rows, mass, exact):
        """Softmax (W, ·) over the classes, in place; the first n_rows share with a class of this mass at logit 0.

        Loops run along the rows, so that they vectorise. `exact`: shares that are multiplied later must not be held up.
        """
        n_way, width = z.shape
        real, top, total = z.dtype.type, z[0].copy(), np.zeros(width, z.dtype)
        for c in range(1, n_way):
            for j in range(width):
                top[j] = max(top[j], z[c, j])
        for j in range(n_rows if mass > 0 else 0):
            total[j] = mass * real(math.exp(-top[j]))
        for c in range(n_way):
            if exact:
                for j in range(width):
                    z[c, j] = math.exp(z[c, j] - top[j])
            else:
                for j in range(width):
                    z[c, j] = fast_exp(z[c, j] - top[j])
            for j in range(width):
                total[j] += z[c, j]
        for j in range(width):
            total[j] = real(1) / total[j]
        for c in range(n_way):
            for j in range(width):
                z[c, j] *= total[j]

    @compiled
    def _transport(z, n_rows, prior, bias):
        """`family.transported`: Sinkhorn's iteration to its end, in which z grows by a factor per class."""
        n_way, real = len(z), z.dtype.type
        grown, now, inverse = np.ones(n_way, z.dtype), np.ones(n_rows, z.dtype), np.ones(n_rows, z.dtype)
        last = np.ones(n_rows, z.dtype)
        for step in range(SINKHORN_ROUNDS + 1):
            now[:] = 0
            for c in range(n_way):
                for j in range(n_rows):
                    now[j] += grown[c] * z[c, j]
            moved = real(0)
            for j in range(n_rows):
                ratio = now[j] * inverse[j]
                moved = max(moved, abs(ratio - last[j]))
                last[j] = ratio
                inverse[j] = real(1) / max(now[j], real(1e-30))
            if step == SINKHORN_ROUNDS or (step > 1 and moved <= SINKHORN_STOP):
                break
            for c in range(n_way):
                size = real(0)
                for j in range(n_rows):
                    size += z[c, j] * inverse[j]
                grown[c] = real(n_rows) * prior[c] / max(size, real(1e-30))
        for c in range(n_way):
            bias[c] += real(math.log(grown[c]))
            for j in range(n_rows):
                z[c, j] *= grown[c] * inverse[j]

    @compiled
    def _log_shares(n, grid, bias):
        """`family.log_shares`, in float64; grid: a, log Γ(a), log Γ(W a)."""
        n_way, total = len(n), 0.0
        for size in n:
            total += size
        evidence, shares = np.empty(len(grid)), np.empty((len(grid), n_way))
        for i, (a, of_a, of_all) in enumerate(grid):
            evidence[i], around = of_all - _gammas(total + n_way * a)[0], _gammas(total / n_way + a)[1]
            for c in range(n_way):
                log_gamma, digamma = _gammas(n[c] + a)
                evidence[i] += log_gamma - of_a
                shares[i, c] = digamma - around
        evidence = np.exp(evidence - evidence.max())
        for c in range(n_way):
            bias[c] = (evidence * shares[:, c]).sum() / evidence.sum()

    @compiled
    def _gammas(x):
        """log Γ(x) and ψ(x) of x > 0, by Stirling's series from 8 on."""
        product, slope = 1.0, 0.0
        while x < 8:
            product *= x
            slope += 1 / x
            x += 1
        y, log = 1 / (x * x), math.log(x)
        series = (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) / x
        digamma = log - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132)))) - slope
        return (x - 0.5) * log - x + 0.9189385332046727 + series - math.log(product), digamma
