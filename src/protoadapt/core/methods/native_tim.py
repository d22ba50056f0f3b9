"""TIM's gradient descent compiled for the CPU, as `native` is CIPA's loop: one episode at a time, all of it in cache.

The formulas are those of `tim.descend`; this file only spells out their loops. Adam divides each element by its own
step size, so the class weights leave the span of the rows and the loop stays in feature space: two products of (W, D)
and (N, D) per step. Rows are the support, then the queries, then padding.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.native import in_parts
from protoadapt.core.methods.native_kernels import njit, padded

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
"""Adam's own defaults (Kingma & Ba 2015)."""


def descend(
    episodes: Episodes,
    orders: Tensor | None,
    n_iter: int,
    lr: float,
    temp: float,
    weights: Sequence[float],
    prior: Tensor | None,
) -> Tensor:
    """(E, Q, W), as `tim.descend` of episodes with unit rows."""
    rows = episodes.rows.contiguous()
    kind = rows.numpy().dtype
    out = torch.empty(*episodes.query_index.shape, episodes.n_way, dtype=rows.dtype)
    log_prior = np.zeros(episodes.n_way, kind) if prior is None else prior.log().numpy().astype(kind)
    powers = rows.new_zeros(len(episodes)) if orders is None else orders.to(rows.dtype)  # 0: Shannon's entropy
    width = padded(episodes.support_index.shape[1] + episodes.query_index.shape[1])
    options = np.array([lr, temp, *weights], kind)

    def part(out: np.ndarray, *index: np.ndarray) -> None:
        _descend(rows.numpy(), *index, width, int(n_iter), options, log_prior, out)  # type: ignore[call-arg]

    in_parts(part, out, episodes.support_index, episodes.support_labels, episodes.query_index, powers)
    return out


if njit is not None:
    from protoadapt.core.methods.native_kernels import (
        add_weighted,
        compiled,
        copy_rows,
        dot,
        fast_exp,
        products,
        total_of,
    )

    @compiled
    def _descend(rows, s_index, s_labels, q_index, powers, width, n_iter, options, log_prior, out):
        n_episodes, n_query, n_way = out.shape
        n_support, dim, kind = s_index.shape[1], rows.shape[1], rows.dtype
        n_rows = n_support + n_query
        temp = options[1]
        z, shots = np.zeros((width, dim), kind), np.empty(n_way, kind)
        w = np.empty((n_way, dim), kind)
        mean, square, slope = np.empty_like(w), np.empty_like(w), np.empty_like(w)
        p = np.zeros((n_way, width), kind)
        log_p, g = np.zeros_like(p), np.zeros_like(p)
        for e in range(n_episodes):
            copy_rows(rows, s_index[e], z)
            copy_rows(rows, q_index[e], z[n_support:])
            _class_means(z, s_labels[e], shots, w)
            mean[:] = 0
            square[:] = 0
            for step in range(n_iter):
                _posteriors(w, z, temp, p, log_p)
                _slopes(p, log_p, s_labels[e], n_rows, powers[e], options, log_prior, g)
                slope[:] = 0
                add_weighted(g, z, n_rows, slope)
                _adam(w, slope, g, temp, options[0], step + 1, mean, square)
            _posteriors(w, z, temp, p, log_p)
            for j in range(n_query):
                for c in range(n_way):
                    out[e, j, c] = p[c, n_support + j]

    @compiled
    def _class_means(z, labels, shots, w):
        """The start: means of the support rows of each class."""
        w[:] = 0
        shots[:] = 0
        for i in range(len(labels)):
            shots[labels[i]] += 1
            for d in range(w.shape[1]):
                w[labels[i], d] += z[i, d]
        for c in range(len(w)):
            factor = w.dtype.type(1) / max(shots[c], w.dtype.type(1e-12))
            for d in range(w.shape[1]):
                w[c, d] *= factor

    @compiled
    def _posteriors(w, z, temp, p, log_p):
        """p and log p (W, ·) = softmax of τ(z·w − ‖w‖²/2); loops run along the rows, so that they vectorise."""
        n_way, width = p.shape
        real = w.dtype.type
        products(w, z, log_p)
        top, total = np.full(width, -np.inf, w.dtype), np.zeros(width, w.dtype)
        for c in range(n_way):
            half = dot(w[c], w[c]) / real(2)
            for j in range(width):
                log_p[c, j] = temp * (log_p[c, j] - half)
                top[j] = max(top[j], log_p[c, j])
        for c in range(n_way):
            for j in range(width):
                log_p[c, j] -= top[j]
                p[c, j] = fast_exp(log_p[c, j])
                total[j] += p[c, j]
        for j in range(width):
            top[j] = math.log(total[j])
            total[j] = real(1) / total[j]
        for c in range(n_way):
            for j in range(width):
                log_p[c, j] -= top[j]
                p[c, j] *= total[j]

    @compiled
    def _slopes(p, log_p, labels, n_rows, power, options, log_prior, g):
        """g (W, ·): the derivative of the loss by the logits; zero beyond the first n_rows."""
        n_way, n_support, real = len(p), len(labels), p.dtype.type
        n_query = n_rows - n_support
        cross, marginal, conditional = options[2], options[3], options[4]
        expected = np.zeros(n_rows, p.dtype)
        for c in range(n_way):
            for j in range(n_support):
                g[c, j] = cross / real(n_support) * p[c, j]
            share = total_of(p[c, n_support:n_rows]) / real(n_query)
            if power:
                ratio = power / (real(1) - power)
                balance = ratio * share ** (power - real(1))
            else:
                ratio = real(0)
                balance = -real(math.log(share + 1e-12))
            balance = marginal * (balance + log_prior[c])
            for j in range(n_support, n_rows):
                if power:
                    u = ratio * fast_exp((power - real(1)) * log_p[c, j])
                else:
                    u = -max(log_p[c, j], real(-27.631021))  # of p + 1e-12
                g[c, j] = conditional * u - balance
                expected[j] += p[c, j] * g[c, j]
        for j in range(n_support):
            g[labels[j], j] -= cross / real(n_support)
        for c in range(n_way):
            for j in range(n_support, n_rows):
                g[c, j] = p[c, j] * (g[c, j] - expected[j]) / real(n_query)

    @compiled
    def _adam(w, slope, g, temp, lr, step, mean, square):
        """One step of Adam along τ (Σ_i g_i z_i − Σ_i g_i w), of which `slope` holds the first sum."""
        real = w.dtype.type
        rate, root = real(lr / (1 - BETA1**step)), real(1 / math.sqrt(1 - BETA2**step))
        for c in range(len(w)):
            total, here, along, first, second = total_of(g[c]), w[c], slope[c], mean[c], square[c]
            for d in range(len(here)):
                s = temp * (along[d] - total * here[d])
                first[d] += real(1 - BETA1) * (s - first[d])
                second[d] = real(BETA2) * second[d] + real(1 - BETA2) * s * s
                here[d] -= rate * first[d] / (np.sqrt(second[d]) * root + real(EPS))
