"""Arithmetic compiled for the CPU: products, sums and functions whose loops vectorise. They know no method.

numba compiles on first use and keeps the result.
"""

import math

import numpy as np
from numba import njit

from protoadapt.core.prototype_model import OFFSET, ROUNDING

TAYLOR = tuple(1 / math.factorial(k) for k in range(14))

# Sums may be reordered (that is what vectorises them), but NaN and infinity keep their meaning. Divisions are not
# checked for zero, which would stop a loop from being vectorised: whoever divides by what may be zero guards it.
compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})


@compiled
def powered_about(rows, center, factor):
    """In place: rows (n, D) after the power transform (β = ½, "auto"), about a centre, unit length; factor (n):
    their length before that. One pass through memory, where single operations take nine."""
    real = rows.dtype.type
    for i in range(len(rows)):
        row, total, square = rows[i], real(0), real(0)
        for d in range(len(row)):
            lifted = row[d] + real(OFFSET) if row[d] >= 0 else -row[d]
            total += lifted
            row[d] = np.sqrt(lifted) if row[d] >= 0 else -np.sqrt(lifted)
        inverse = real(1) / np.sqrt(total) if total > 0 else real(0)
        for d in range(len(row)):
            row[d] = row[d] * inverse - center[d]
            square += row[d] * row[d]
        factor[i] = np.sqrt(square)
        inverse = real(1) / factor[i] if factor[i] > ROUNDING else real(0)
        for d in range(len(row)):
            row[d] *= inverse


@compiled
def add_weighted(weights, x, n, out):
    """out += weights (even number, n) @ x (n, ·), four rows and two sums at a time: what is read serves both."""
    for c in range(0, len(weights), 2):
        v, w, a, b = weights[c], weights[c + 1], out[c], out[c + 1]
        for i in range(0, n, 4):
            v0, v1, v2, v3 = v[i], v[i + 1], v[i + 2], v[i + 3]
            w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
            for j in range(len(a)):
                x0, x1, x2, x3 = x[i, j], x[i + 1, j], x[i + 2, j], x[i + 3, j]
                a[j] += (v0 * x0 + v1 * x1) + (v2 * x2 + v3 * x3)
                b[j] += (w0 * x0 + w1 * x1) + (w2 * x2 + w3 * x3)


@compiled
def gram_tiles(x, gram, first):
    """gram = x xᵀ in the columns from `first` on, and on the diagonal.

    A tile of 4 × 2 products reads 6 rows for 8 sums, which keeps the arithmetic units busy.
    """
    n, zero = len(x), x.dtype.type(0)
    for i in range(0, n, 4):
        for j in range(i, n, 2):
            if j >= i + 4 and j + 2 <= first:
                continue
            s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = zero
            for d in range(x.shape[1]):
                s, t = x[j, d], x[j + 1, d]
                s0 += x[i, d] * s
                s1 += x[i + 1, d] * s
                s2 += x[i + 2, d] * s
                s3 += x[i + 3, d] * s
                t0 += x[i, d] * t
                t1 += x[i + 1, d] * t
                t2 += x[i + 2, d] * t
                t3 += x[i + 3, d] * t
            gram[i, j], gram[i + 1, j], gram[i + 2, j], gram[i + 3, j] = s0, s1, s2, s3
            gram[i, j + 1], gram[i + 1, j + 1], gram[i + 2, j + 1], gram[i + 3, j + 1] = t0, t1, t2, t3
    for i in range(n):
        for j in range(i):
            gram[i, j] = gram[j, i]


@compiled
def aligned(n, width, like):
    """Zeros (n, width) of the type of `like`, from a multiple of 64 bytes on: the loops take a fifth less there."""
    flat = np.zeros(n * width + 64 // like.itemsize, like.dtype)
    start = np.int64(-flat.ctypes.data % 64) // like.itemsize
    return flat[start : start + n * width].reshape(n, width)


@compiled
def dot(a, b):
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def fast_exp(x):
    """exp(x) of x ≤ 0 without a call, so that a loop of it vectorises: exp(x/128) by a series and seven squarings.

    Right to 1e-5 of itself in float32, to 2e-11 in float64; below −80 it stays near 2e-35.
    """
    real = type(x)
    single = real(16777217) == real(16777216)  # known to the compiler
    x = max(x, real(-80)) * real(1 / 128)
    series = real(0)
    for k in range(7 if single else 13, -1, -1):
        series = series * x + real(TAYLOR[k])
    for _ in range(7):
        series *= series
    return series


@compiled
def digamma(x):
    """ψ(x) of x > 0, by its asymptotic series from 8 on."""
    steps = 0.0
    while x < 8:
        steps += 1 / x
        x += 1
    y = 1 / (x * x)
    return math.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132)))) - steps
