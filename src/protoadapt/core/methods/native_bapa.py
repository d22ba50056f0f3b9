"""BAPA's loop compiled for the CPU, as `native` is CIPA's: one episode at a time, all of it in cache.

The formulas and the numbers of the steps are those of `bapa`, mixtures of an episode's rows and all (`gram_form`); this
file only spells out their loops. Rows are those that pull (the queries, or unlabelled rows beside them), then the
support, then padding, which vectorises: zeros, which change no product. M holds W + 1 mixtures, the prototypes and last
the centre, and MG = M·G their products with all rows.
"""

import math

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.bapa_equations import (
    ALONE,
    LEAST,
    SMOOTHING,
    STRICTNESS,
    TAKING_PART,
    TOLD_ROUNDS,
    BapaSettings,
    first_settled,
    in_every_step,
    recall,
)
from protoadapt.core.methods.native import helping_and_apart, in_parts
from protoadapt.core.methods.native_kernels import njit, padded
from protoadapt.core.methods.normalize import rounding_of_products


def adapt(episodes: Episodes, how: BapaSettings) -> Tensor:
    """(E, Q, W), as `bapa.gram_form`."""
    rows = episodes.rows.contiguous()
    helping, apart = helping_and_apart(episodes)
    out = torch.empty(*episodes.query_index.shape, episodes.n_way, dtype=rows.dtype)
    constants = *how.chance, SMOOTHING, recall(how.prior)  # in the order in which `_steps` takes them
    options = np.array([how.sigma, how.lam, how.kappa, how.k_s, *constants, how.base_rows], rows.numpy().dtype)
    taking_part = np.array(TAKING_PART, rows.numpy().dtype)
    told = np.empty(0, rows.numpy().dtype) if how.prior is None else how.prior[:, 0].contiguous().numpy()
    steps = int(how.n_iter), first_settled(how.n_iter), TOLD_ROUNDS, in_every_step(how)
    rounding = rows.numpy().dtype.type(rounding_of_products(rows.dtype))
    width = padded(helping.shape[1] + episodes.support_index.shape[1])

    def part(out: np.ndarray, *index: np.ndarray) -> None:
        _adapt(rows.numpy(), *index, width, steps, options, taking_part, told, rounding, out)  # type: ignore[call-arg]

    in_parts(part, out, episodes.support_index, episodes.support_labels, helping, apart)
    return out


if njit is not None:
    from protoadapt.core.methods.native_kernels import (
        add_weighted,
        aligned,
        compiled,
        copy_rows,
        dot,
        fast_exp,
        gram_tiles,
        softmax,
        total_of,
    )

    @compiled
    def _adapt(rows, s_index, s_labels, u_index, q_index, width, steps, options, taking_part, told, rounding, out):
        """Rows u pull the prototypes. The answers are those of rows q beside them or, where there are none, of u."""
        n_episodes, n_query, n_way = out.shape
        n_rows, n_support = u_index.shape[1], s_index.shape[1]
        x, gram = aligned(width, rows.shape[1], rows), aligned(width, width, rows)
        for e in range(n_episodes):
            copy_rows(rows, u_index[e], x[:n_rows])
            copy_rows(rows, s_index[e], x[n_rows:])
            gram_tiles(x, gram, 0)
            z, M, MG, size_term = _steps(gram, s_labels[e], n_rows, n_way, steps, options, taking_part, told, rounding)
            if q_index.shape[1]:
                lam, mixed = options[1], np.zeros((n_way + 1, rows.shape[1]), rows.dtype)
                add_weighted(M, x, n_rows + n_support, mixed)
                z = _answers(rows, q_index[e], mixed, M, MG, lam, size_term, rounding)
            for j in range(n_query):
                for c in range(n_way):
                    out[e, j, c] = z[c, j]

    @compiled
    def _steps(gram, labels, n_rows, n_way, steps, options, taking_part, told, rounding):
        """Returns z (W, ·) at the end for all rows of the Gram matrix, and the mixtures, their products and ℓ."""
        width, n_support, real = len(gram), len(labels), gram.dtype.type
        n_iter, settled, told_rounds, every = steps
        sigma, lam, kappa, k_s, confusion, chance, smoothing, recall, base_rows = options
        keep, tiny = real(1) - sigma, real(1e-12)
        shots = np.zeros(n_way, gram.dtype)
        for label in labels:
            shots[label] += 1
        doubt = _class_doubt(shots)
        k, epsilon = kappa * doubt, smoothing * doubt
        from_support, mean = np.zeros(width, gram.dtype), np.zeros(width, gram.dtype)
        alpha = _trust(gram, labels, shots, n_rows, k_s, base_rows, from_support, mean)  # 0
        M, MG = aligned(n_way + 1, width, gram), aligned(n_way + 1, width, gram)
        pull, z = aligned(n_way, width, gram), aligned(n_way, width, gram)
        d, top, unsure = np.empty(width, gram.dtype), np.empty(width, gram.dtype), np.empty(width, gram.dtype)
        size_term, weight = np.zeros(n_way, gram.dtype), np.empty(n_way, gram.dtype)
        logits = np.empty((len(told), width), gram.dtype)
        square, best = np.empty(width, gram.dtype), np.ones(width, gram.dtype)
        for j in range(width):
            square[j] = gram[j, j]
        for i in range(n_support):
            pull[labels[i], n_rows + i] = 1
        _center(gram, square, M, MG, mean, from_support, alpha, rounding, d)
        for c in range(n_way):
            _mix(M[c], pull[c], d, M[n_way], real(0), real(1) / max(shots[c] + k, tiny))
        MG[:] = 0
        add_weighted(M, gram, n_rows + n_support, MG)
        alike, T = _likeness(M, MG, shots, k, taking_part), real(n_iter)
        for step in range(n_iter + 1):
            for c in range(n_way):  # 2
                _gaussian(MG[c], d, dot(MG[c], M[n_way]), dot(M[c], MG[c]), lam, size_term[c], z[c])
                for j in range(n_rows, width):
                    z[c, j] -= size_term[c]  # labelled rows: without ℓ
            if len(told):
                logits[:] = z
                softmax(z, top, unsure)  # unsure = 1/max_c z
                _match(logits, z, size_term, top, unsure, n_rows, told, told_rounds)
            elif step < n_iter:
                _share(z, best, top, unsure, n_rows, doubt)
            else:
                softmax(z, top, unsure)
            if step == n_iter:
                break
            n_mean, uneven = real(0), real(0)
            for c in range(n_way):
                weight[c] = real(0)
                for j in range(n_rows):
                    weight[c] += z[c, j]
                n_mean += weight[c] / real(n_way)
            n_mean = max(n_mean, tiny)
            for c in range(n_way):
                uneven += (weight[c] / n_mean - real(1)) ** 2 / real(n_way)
            theta2 = confusion / real(math.sqrt(doubt)) + chance / n_mean
            if step == 0 and not every:  # 6
                T = real(n_iter) * min(alike + taking_part[2] * uneven / real(max(n_way - 1, 1)), real(1))
            part = min(max(real(step + 1 - n_iter) + T, real(0)), real(1))
            for c in range(n_way):  # 3
                total = real(0)
                for j in range(n_rows):
                    pull[c, j] = part * z[c, j] * z[c, j] * unsure[j]
                    total += pull[c, j]
                if shots[c] > 0:
                    for i in range(n_support):
                        y = real(1) if labels[i] == c else real(0)
                        pull[c, n_rows + i] = y + recall * (y - z[c, n_rows + i])
                _mix(M[c], pull[c], d, M[n_way], keep, sigma / max(k + shots[c] + total, tiny))
            g = max(real(1) - theta2 / max(uneven, tiny), real(0))  # 4, 5
            mean[:] = 0
            for c in range(n_way):
                if len(told):
                    weight[c] = real(1) / (real(n_way) * told[c])
                else:
                    f = (weight[c] / n_mean + epsilon) / (real(1) + epsilon)
                    if g > 0 or step < settled:
                        size_term[c] += part * (g * real(math.log(f)) - size_term[c])
                    else:
                        share = max(weight[c] / n_mean, tiny)
                        size_term[c] -= part * n_mean / (n_mean + real(1)) * real(math.log(share))
                    weight[c] = real(1) + part * (real(1) / (real(1) + g * (f - real(1))) - real(1))
                for j in range(n_rows):
                    mean[j] += weight[c] * z[c, j]
            for j in range(n_rows):
                mean[j] /= best[j]
            whole = real(1) / max(total_of(mean), tiny)
            for j in range(n_rows):
                mean[j] *= whole
            _center(gram, square, M, MG, mean, from_support, alpha, rounding, d)  # 1
        return z, M, MG, size_term

    @compiled
    def _share(z, best, top, unsure, n_rows, doubt):
        """`bapa_equations.shared` for the rows that pull, softmax for the others; unsure = 1/max_c z, best = Σ_c z."""
        least = z.dtype.type(LEAST)
        for j in range(n_rows):
            best[j] = z[0, j]
        for c in range(1, len(z)):
            for j in range(n_rows):
                best[j] = max(best[j], z[c, j])
        softmax(z, top, unsure)  # Σ exp l = unsure · exp best
        for j in range(n_rows):
            less = fast_exp(-abs(best[j]))
            some = unsure[j] if best[j] > 0 else unsure[j] * less
            none = doubt * less if best[j] > 0 else doubt
            best[j] = max(some / (some + none), least)
            unsure[j] /= best[j]
        for c in range(len(z)):
            for j in range(n_rows):
                z[c, j] *= best[j]

    @compiled
    def _match(logits, z, size_term, top, unsure, n_rows, told, rounds):
        """Step 2′, from the logits again: a share that `fast_exp` holds up must not be multiplied."""
        real = z.dtype.type
        for _ in range(rounds):
            for c in range(len(told)):
                n = real(0)
                for j in range(n_rows):
                    n += z[c, j]
                more = real(math.log(real(n_rows) * told[c] / max(n, real(1e-12))))
                size_term[c] += more
                for j in range(n_rows):
                    logits[c, j] += more
            z[:] = logits
            softmax(z, top, unsure)

    @compiled
    def _trust(gram, labels, shots, n_rows, k_s, base_rows, from_support, mean):
        """Step 0: α; fills the mixtures m_S, beside the origin where that counts, and q̄."""
        real = gram.dtype.type
        known, noise = real(0), real(0)
        for k in shots:
            if k > 0:
                known += 1
                noise += 1 / k
        mean[:n_rows] = 1 / n_rows
        for i in range(len(labels)):
            from_support[n_rows + i] = 1 / (known * shots[labels[i]])
        noise /= known**2
        share, far2, apart2, spread = real(1), real(0), real(0), real(0)
        if base_rows > 0:  # a pass of its own: m_S, whose share it gives, is needed in the next
            for i in range(len(gram)):
                across = dot(gram[i], from_support)
                far2 += across * from_support[i]
                spread += gram[i, i] / 2 * (mean[i] + from_support[i]) - across * mean[i]
            share /= real(1) + noise * min(max(spread / max(far2 - spread * noise, real(1e-12)), real(0)), base_rows)
            spread = real(0)
        for i in range(len(gram)):
            across = dot(gram[i], from_support)
            apart2 += (dot(gram[i], mean) - share * across) * (mean[i] - share * from_support[i])
            spread += gram[i, i] / 2 * (mean[i] + from_support[i]) - across * mean[i]
        from_support *= share
        ratio = spread * (share * noise + 1 / n_rows) / max(apart2, real(1e-12))
        return real(n_rows / (n_rows + k_s)) * real(min(max(ratio, 0), 1)) ** STRICTNESS

    @compiled
    def _class_doubt(shots):
        """`bapa_equations.class_doubt` of one episode."""
        real = shots.dtype.type
        known, total = real(0), real(0)
        for k in shots:
            if k > 0:
                known += real(1)
                total += real(1) / real(math.sqrt(k))
        return total / known

    @compiled
    def _likeness(M, MG, shots, k, taking_part):
        """`bapa_equations.likeness` of one episode, from the prototypes at the start: class sums / (K_c + k)."""
        real, n_way = shots.dtype.type, len(shots)
        own, whole, known, inverse, rows, pairs = real(0), real(0), real(0), real(0), real(0), real(0)
        for a in range(n_way):
            held = shots[a] + k
            own += held * held * dot(M[a], MG[a])
            for b in range(n_way):
                whole += held * (shots[b] + k) * dot(M[a], MG[b])
            rows += shots[a]
            pairs += shots[a] * shots[a]
            if shots[a] > 0:
                known += real(1)
                inverse += real(1) / shots[a]
        more = known / inverse - real(1)
        if more <= ALONE:
            return real(math.inf)
        within = (own - rows) / max(pairs - rows, real(1))
        between = (whole - own) / max(rows * rows - pairs, real(1))
        error = taking_part[1] * real(math.sqrt(real(2) / max(pairs - rows, real(1))))
        return taking_part[0] * max(within - between + error, real(0)) ** 2 / more

    @compiled
    def _center(gram, square, M, MG, mean, from_support, alpha, rounding, d):
        """The centre, last of the mixtures, then the products of all, and d = 1/‖x − μ‖ of every row."""
        real, m, Gm = gram.dtype.type, M[-1], MG[-1]
        for j in range(len(m)):
            m[j] = alpha * mean[j] + (real(1) - alpha) * from_support[j]
        MG[:] = 0
        add_weighted(M, gram, len(gram), MG)
        mm = dot(m, Gm)
        for j in range(len(m)):
            d[j] = _inverse_length(square[j], Gm[j], mm, rounding)

    @compiled
    def _inverse_length(square, inner, mean_square, rounding):
        """`normalize.inverse_length` of one row."""
        real = type(square)
        left = square - real(2) * inner + mean_square
        inverse = real(1) / real(math.sqrt(max(left, real(1e-30))))
        return inverse if left > rounding * (square + mean_square) else real(0)

    @compiled
    def _mix(a, t, d, m, keep, rate):
        """a ← keep·a + rate·Σ_i t_i unit(x_i − μ), as mixtures."""
        total = dot(t, d)
        for j in range(len(a)):
            a[j] = keep * a[j] + rate * (t[j] * d[j] - total * m[j])

    @compiled
    def _gaussian(inner, d, pm, p2, lam, size_term, out):
        """λ(2 x·p − ‖p‖²) + ℓ for rows x = unit(x − μ) with inner = p·x before that, and pm = p·μ."""
        two = inner.dtype.type(2)
        for j in range(len(inner)):
            out[j] = lam * (two * d[j] * (inner[j] - pm) - p2) + size_term

    @compiled
    def _answers(rows, index, mixed, M, MG, lam, size_term, rounding):
        """z (W, ·) of rows beside those that pull, from the prototypes and the centre (W + 1, D) themselves."""
        n_way, n_query = len(size_term), len(index)
        inner, z = np.empty((n_way, n_query), rows.dtype), np.empty((n_way, n_query), rows.dtype)
        d, mm = np.empty(n_query, rows.dtype), dot(M[n_way], MG[n_way])
        for j in range(n_query):
            row = rows[index[j]]
            d[j] = _inverse_length(dot(row, row), dot(mixed[n_way], row), mm, rounding)
            for c in range(n_way):
                inner[c, j] = dot(mixed[c], row)
        for c in range(n_way):
            _gaussian(inner[c], d, dot(MG[c], M[n_way]), dot(M[c], MG[c]), lam, size_term[c], z[c])
        softmax(z, d, inner[0])
        return z
