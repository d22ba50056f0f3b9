"""Inner loops, compiled: products, exponentials and the preparation of rows, shaped so that the compiler turns them
into vector instructions. Arrays of products are padded to a multiple of LANES rows with zeros.

numba's cache notices a change of the file that a function is in, not of functions that it calls: after a change here,
remove the `__pycache__` of this folder.
"""

from math import factorial

import numpy as np

from protoadapt.core.prototype_model import OFFSET, ROUNDING

try:
    from numba import njit
except ImportError:  # pragma: no cover
    njit = None  # type: ignore[assignment]

LANES = 4
TAYLOR = tuple(1 / factorial(k) for k in range(14))

if njit is not None:
    # Sums may be reordered (that is what vectorises them), but NaN and infinity keep their meaning. Divisions are not
    # checked for zero, which would stop a loop from being vectorised: whoever divides by what may be zero guards it.
    compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})

    @compiled
    def calibrate(rows, center, factor):
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
        """exp(x) of x ≤ 0 without a call, so that a loop of it vectorises: (exp(x/64))⁶⁴ by a series and six squarings.

        Right to 1e-5 of itself from −15 on in float32, to 2e-12 in float64; below −40 it stays near 4e-18.
        """
        real = type(x)
        single = real(16777217) == real(16777216)  # known to the compiler
        x = max(x, real(-40)) * real(1 / 64)
        series = real(0)
        for k in range(7 if single else 13, -1, -1):
            series = series * x + real(TAYLOR[k])
        for _ in range(6):
            series *= series
        return series
