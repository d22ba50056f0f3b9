"""BAPA's loop compiled for the CPU, as `native` is CIPA's: one episode at a time, all of it in cache.

The formulas are those of `bapa`, mixtures of an episode's rows and all; this file only spells out their loops. Rows are
the queries, then the support, then padding, which vectorises.
"""

import math

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.native import in_parts, njit
from protoadapt.core.methods.normalize import rounding_of_products


def adapt(
    episodes: Episodes, n_iter: int, sigma: float, lam: float, kappa: float, k_s: float, chance: tuple[float, float]
) -> Tensor:
    """(E, Q, W), as `bapa` of powered episodes without unlabelled rows."""
    rows = episodes.rows.contiguous()
    out = torch.empty(*episodes.query_index.shape, episodes.n_way, dtype=rows.dtype)
    options = np.array([sigma, lam, kappa, k_s, *chance], rows.numpy().dtype)
    rounding = rows.numpy().dtype.type(rounding_of_products(rows.dtype))

    def part(chosen: slice) -> None:
        index = (episodes.support_index, episodes.support_labels, episodes.query_index)
        arrays = [part[chosen].contiguous().numpy() for part in index]
        _adapt(rows.numpy(), *arrays, int(n_iter), options, rounding, out[chosen].numpy())  # type: ignore[call-arg]

    in_parts(len(episodes), part)
    return out


if njit is not None:
    from protoadapt.core.methods.native import compiled, fast_exp, gram_tiles

    @compiled
    def _adapt(rows, s_index, s_labels, q_index, n_iter, options, rounding, out):
        n_episodes, n_query, n_way = out.shape
        padded = (n_query + s_index.shape[1] + 3) // 4 * 4  # `gram_tiles` works in tiles of 4 × 4
        x = np.zeros((padded, rows.shape[1]), rows.dtype)
        gram = np.zeros((padded, padded), rows.dtype)
        for e in range(n_episodes):
            for j in range(n_query):
                x[j] = rows[q_index[e, j]]
            for i in range(s_index.shape[1]):
                x[n_query + i] = rows[s_index[e, i]]
            gram_tiles(x, gram, 0)
            z = _steps(gram, s_labels[e], n_query, n_way, n_iter, options, rounding)
            for j in range(n_query):
                for c in range(n_way):
                    out[e, j, c] = z[c, j]

    @compiled
    def _steps(gram, labels, n_query, n_way, n_iter, options, rounding):
        width, n_support, real = len(gram), len(labels), gram.dtype.type
        sigma, lam, kappa, k_s, floor, chance = options
        keep, tiny, n_mean = real(1) - sigma, real(1e-12), real(n_query / n_way)
        shots = np.zeros(n_way, gram.dtype)
        for label in labels:
            shots[label] += 1
        from_support, mean = np.zeros(width, gram.dtype), np.zeros(width, gram.dtype)
        alpha = _trust(gram, labels, shots, n_query, k_s, from_support, mean)
        m, Gm, d = np.empty(width, gram.dtype), np.empty(width, gram.dtype), np.empty(width, gram.dtype)
        A, T = np.zeros((n_way, width), gram.dtype), np.zeros((n_way, width), gram.dtype)
        AG, z = np.empty_like(A), np.empty_like(A)
        size_term, weight, best = np.zeros(n_way, gram.dtype), np.empty(n_way, gram.dtype), np.empty_like(m)
        for i in range(n_support):
            T[labels[i], n_query + i] = 1
        _center(gram, mean, from_support, alpha, rounding, m, Gm, d)
        for c in range(n_way):
            _mix(A[c], T[c], d, m, real(0), real(1) / (shots[c] + kappa) if shots[c] + kappa > 0 else real(0))
        for step in range(n_iter + 1):
            _assign(gram, A, m, d, lam, size_term, AG, z, best)
            if step == n_iter:
                break
            spread = real(0)
            for c in range(n_way):
                n, total = real(0), kappa + shots[c]
                for j in range(n_query):
                    n += z[c, j]
                    T[c, j] = z[c, j] * z[c, j] / best[j]
                    total += T[c, j]
                _mix(A[c], T[c], d, m, keep, sigma / total)
                weight[c] = n
                spread += (n / n_mean - 1) ** 2 / n_way
            g = min(max(real(1) - (floor + chance / n_mean) / max(spread, tiny), real(-1)), real(1))
            mean[:] = 0
            for c in range(n_way):
                f = (weight[c] + kappa) / (n_mean + kappa)
                size_term[c] = g * math.log(max(f, tiny))
                weight[c] = real(1) / max(real(1) + max(g, real(0)) * (f - real(1)), tiny)
                for j in range(n_query):
                    mean[j] += weight[c] * z[c, j]
            mean /= max(mean.sum(), tiny)
            _center(gram, mean, from_support, alpha, rounding, m, Gm, d)
        return z

    @compiled
    def _trust(gram, labels, shots, n_query, k_s, from_support, mean):
        """Step 0: α; fills the mixtures m_S and q̄."""
        real = gram.dtype.type
        known, noise = real(0), real(0)
        for k in shots:
            if k > 0:
                known += 1
                noise += 1 / k
        mean[:n_query] = 1 / n_query
        for i in range(len(labels)):
            from_support[n_query + i] = 1 / (known * shots[labels[i]])
        apart2, spread = real(0), real(0)
        for i in range(len(gram)):
            along, across = real(0), real(0)
            for j in range(len(gram)):
                along += gram[i, j] * (mean[j] - from_support[j])
                across += gram[i, j] * from_support[j]
            apart2 += along * (mean[i] - from_support[i])
            spread += gram[i, i] / 2 * (mean[i] + from_support[i]) - across * mean[i]
        ratio = spread * (noise / known**2 + 1 / n_query) / max(apart2, real(1e-12))
        return real(n_query / (n_query + k_s)) * real(min(max(ratio, 0), 1)) ** 3

    @compiled
    def _center(gram, mean, from_support, alpha, rounding, m, Gm, d):
        """m, Gm and d = 1/‖x − μ‖ of every row."""
        real = gram.dtype.type
        Gm[:] = 0
        for i in range(len(m)):
            m[i] = alpha * mean[i] + (real(1) - alpha) * from_support[i]
            for j in range(len(m)):
                Gm[j] += m[i] * gram[i, j]
        mm = (m * Gm).sum()
        for j in range(len(m)):
            left = gram[j, j] - real(2) * Gm[j] + mm
            d[j] = real(1) / math.sqrt(left) if left > rounding * (gram[j, j] + mm) else real(0)

    @compiled
    def _mix(a, t, d, m, keep, rate):
        """a ← keep·a + rate·Σ_i t_i unit(x_i − μ), as mixtures."""
        total = a.dtype.type(0)
        for j in range(len(a)):
            total += t[j] * d[j]
        for j in range(len(a)):
            a[j] = keep * a[j] + rate * (t[j] * d[j] - total * m[j])

    @compiled
    def _assign(gram, A, m, d, lam, size_term, AG, z, best):
        """Step 2, and the largest z of each row; loops run along the rows, so that they vectorise."""
        n_way, width = A.shape
        real = gram.dtype.type
        top, total = np.full(width, -np.inf, gram.dtype), np.zeros(width, gram.dtype)
        AG[:] = 0
        for i in range(width):
            for c in range(n_way):
                share = A[c, i]
                for j in range(width):
                    AG[c, j] += share * gram[i, j]
        for c in range(n_way):
            p2, pm = real(0), real(0)
            for j in range(width):
                p2 += A[c, j] * AG[c, j]
                pm += AG[c, j] * m[j]
            for j in range(width):
                z[c, j] = lam * (real(2) * d[j] * (AG[c, j] - pm) - p2) + size_term[c]
                top[j] = max(top[j], z[c, j])
        for c in range(n_way):
            for j in range(width):
                z[c, j] = fast_exp(z[c, j] - top[j])
                total[j] += z[c, j]
        best[:] = real(1) / total  # exp(0), where z is largest
        for c in range(n_way):
            for j in range(width):
                z[c, j] *= best[j]
