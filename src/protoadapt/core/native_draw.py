"""Drawing without replacement, compiled: it leaves Python's lock to the threads that start compiled loops of methods.

The integers are those of `episodes.shuffled`, which draws where numba is missing.
"""

import numpy as np

try:
    from numba import njit
except ImportError:  # pragma: no cover
    njit = None  # type: ignore[assignment]

if njit is not None:

    @njit(nogil=True, cache=True)
    def shuffled(uniform: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """(n, k): the first k places after a Fisher–Yates shuffle of 0 … size − 1, from uniform numbers (k, n)."""
        k, n = uniform.shape
        picked = np.empty((n, k), np.int64)
        target, moved = np.empty(k, np.int64), np.empty(k, np.int64)
        for i in range(n):
            size = sizes[i]
            for j in range(k):
                place = max(min(j + np.int64(uniform[j, i] * (size - j)), size - 1), 0)
                target[j], here, there = place, place, j
                for before in range(j):  # the latest step that wrote to a place counts
                    if target[before] == place:
                        here = moved[before]
                    if target[before] == j:
                        there = moved[before]
                picked[i, j], moved[j] = here, there
        return picked
