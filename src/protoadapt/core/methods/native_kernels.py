"""Products and exponentials of the compiled loops, shaped so that the compiler turns them into vector instructions.

numba compiles them on first use and keeps the result, so no compiler is needed on the user's machine. Arrays are padded
to a multiple of LANES rows, which are zero or have zero weights.

numba's cache notices a change of the file that a function is in, not of functions that it calls: after a change here,
remove the `__pycache__` of this folder.
"""

from math import factorial

import numpy as np

try:
    from numba import njit
except ImportError:  # pragma: no cover
    njit = None  # type: ignore[assignment]

TAYLOR = tuple(1 / factorial(k) for k in range(14))
LANES = 4
"""Rows that `gram_tiles`, `products` and `add_weighted` take at once."""


def padded(n: int) -> int:
    """n, rounded up to a multiple of LANES."""
    return -(-n // LANES) * LANES


if njit is not None:
    # Sums may be reordered (that is what vectorises them), but NaN and infinity keep their meaning. numba's own sums of
    # arrays are not reordered, so loops are written out. Divisions are not checked for zero, which would stop a loop
    # from being vectorised: whoever divides by what may be zero guards it.
    compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})

    @compiled
    def add_rows(rows, index, total):
        """total += the rows of the index, eight at a time: as many streams from memory, and few sums stored."""
        n = len(index) // 8 * 8
        for j in range(0, n, 8):
            a, b, c, d = index[j], index[j + 1], index[j + 2], index[j + 3]
            e, f, g, h = index[j + 4], index[j + 5], index[j + 6], index[j + 7]
            for k in range(len(total)):
                first = (rows[a, k] + rows[b, k]) + (rows[c, k] + rows[d, k])
                total[k] += first + ((rows[e, k] + rows[f, k]) + (rows[g, k] + rows[h, k]))
        for j in range(n, len(index)):
            for k in range(len(total)):
                total[k] += rows[index[j], k]

    @compiled
    def copy_rows(rows, index, out):
        """The rows of the index into out, four streams from memory at a time."""
        n = len(index) // 4 * 4
        for j in range(0, n, 4):
            a, b, c, d = index[j], index[j + 1], index[j + 2], index[j + 3]
            for k in range(rows.shape[1]):
                out[j, k], out[j + 1, k], out[j + 2, k], out[j + 3, k] = rows[a, k], rows[b, k], rows[c, k], rows[d, k]
        for j in range(n, len(index)):
            for k in range(rows.shape[1]):
                out[j, k] = rows[index[j], k]

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
    def aligned(n, width, like):
        """Zeros (n, width) of the type of `like`, from a multiple of 64 bytes on.

        Elsewhere every second vector lies in two lines of the cache, and the loops below take a fifth longer.
        """
        flat = np.zeros(n * width + 64 // like.itemsize, like.dtype)
        start = np.int64(-flat.ctypes.data % 64) // like.itemsize
        return flat[start : start + n * width].reshape(n, width)

    @compiled
    def add_weighted(weights, x, n, out):
        """out (W, ·) += weights (W, n) @ x (n, ·). Up to the next multiple of LANES weights are zero.

        Three classes at a time keep all weights of four rows in registers; more would not fit, fewer read x more often.
        """
        n_way = len(out)
        for c in range(0, n_way, 3):
            if c + 3 <= n_way:
                _add_three(weights[c:], x, n, out[c], out[c + 1], out[c + 2])
            elif c + 2 == n_way:
                _add_two(weights[c:], x, n, out[c], out[c + 1])
            else:
                _add_one(weights[c], x, n, out[c])

    @compiled
    def _add_three(weights, x, n, a, b, c):
        """Four rows at a time store a sum once. The compiler knows that weights, as variables, are apart from sums."""
        for i in range(0, n, 4):
            f, g, h = i + 1, i + 2, i + 3
            a0, a1, a2, a3 = weights[0, i], weights[0, f], weights[0, g], weights[0, h]
            b0, b1, b2, b3 = weights[1, i], weights[1, f], weights[1, g], weights[1, h]
            c0, c1, c2, c3 = weights[2, i], weights[2, f], weights[2, g], weights[2, h]
            for j in range(len(a)):
                x0, x1, x2, x3 = x[i, j], x[f, j], x[g, j], x[h, j]
                a[j] += (a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3)
                b[j] += (b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3)
                c[j] += (c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3)

    @compiled
    def _add_two(weights, x, n, a, b):
        for i in range(0, n, 4):
            f, g, h = i + 1, i + 2, i + 3
            a0, a1, a2, a3 = weights[0, i], weights[0, f], weights[0, g], weights[0, h]
            b0, b1, b2, b3 = weights[1, i], weights[1, f], weights[1, g], weights[1, h]
            for j in range(len(a)):
                x0, x1, x2, x3 = x[i, j], x[f, j], x[g, j], x[h, j]
                a[j] += (a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3)
                b[j] += (b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3)

    @compiled
    def _add_one(w, x, n, out):
        for i in range(0, n, 4):
            f, g, h = i + 1, i + 2, i + 3
            w0, w1, w2, w3 = w[i], w[f], w[g], w[h]
            for j in range(len(out)):
                out[j] += (w0 * x[i, j] + w1 * x[f, j]) + (w2 * x[g, j] + w3 * x[h, j])

    @compiled
    def products(a, x, out):
        """out (W, ·) = a (W, D) @ xᵀ, in tiles as in `gram_tiles`: four rows by two classes, or one at the end."""
        n_way, zero = len(a), x.dtype.type(0)
        for i in range(0, len(x), 4):
            for c in range(0, n_way - 1, 2):
                s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = zero
                for k in range(x.shape[1]):
                    s, t = a[c, k], a[c + 1, k]
                    s0 += s * x[i, k]
                    s1 += s * x[i + 1, k]
                    s2 += s * x[i + 2, k]
                    s3 += s * x[i + 3, k]
                    t0 += t * x[i, k]
                    t1 += t * x[i + 1, k]
                    t2 += t * x[i + 2, k]
                    t3 += t * x[i + 3, k]
                out[c, i], out[c, i + 1], out[c, i + 2], out[c, i + 3] = s0, s1, s2, s3
                out[c + 1, i], out[c + 1, i + 1], out[c + 1, i + 2], out[c + 1, i + 3] = t0, t1, t2, t3
            if n_way % 2:
                s0 = s1 = s2 = s3 = zero
                for k in range(x.shape[1]):
                    s = a[n_way - 1, k]
                    s0 += s * x[i, k]
                    s1 += s * x[i + 1, k]
                    s2 += s * x[i + 2, k]
                    s3 += s * x[i + 3, k]
                last = out[n_way - 1]
                last[i], last[i + 1], last[i + 2], last[i + 3] = s0, s1, s2, s3

    @compiled
    def dot(a, b):
        total = a.dtype.type(0)
        for j in range(len(a)):
            total += a[j] * b[j]
        return total

    @compiled
    def total_of(a):
        total = a.dtype.type(0)
        for j in range(len(a)):
            total += a[j]
        return total

    @compiled
    def softmax(logits, top, total):
        """Softmax (W, ·) over the classes, in place; `top` and `total` (·) are scratch.

        Loops run along the rows, so that they vectorise. `total` ends as 1 over the largest share of each row.
        """
        n_way, width = logits.shape
        real = logits.dtype.type
        for j in range(width):
            top[j] = logits[0, j]
            total[j] = 0
        for c in range(1, n_way):
            for j in range(width):
                top[j] = max(top[j], logits[c, j])
        for c in range(n_way):
            for j in range(width):
                logits[c, j] = fast_exp(logits[c, j] - top[j])
                total[j] += logits[c, j]
        for j in range(width):
            top[j] = real(1) / total[j]  # exp(0) / total, where the logit is largest
        for c in range(n_way):
            for j in range(width):
                logits[c, j] *= top[j]

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
