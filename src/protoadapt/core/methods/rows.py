"""Row holders: the rows that a method of the prototype family learns from, however many they are.

The family (`family`) asks its rows for sums over all of them only, such as Σ_j z_cj u_j, and blocks of rows add up to
those. So a holder runs through its blocks as often as it is asked and adds up what a function makes of each. `Held` has
its blocks in memory: those of a batch of episodes are one block (E, n, D). `Streamed` makes them again in every pass,
from slices of a table in memory or from the float16 parts of one on disk, so that its memory is bounded by a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.prototype_model import about, power_transform
from protoadapt.core.threads import ahead, one_thread

BLOCK_ROWS = 2048
"""Rows of a table on disk that are worked on at once: 4 MB at 512 dimensions, which stay in a core's cache."""
KEPT_BYTES = 2**26
"""What is made of blocks is kept up to this size; beyond it, it is made again in every pass."""

Sums = tuple[Tensor, ...]


def compiled_loops() -> Any:
    """The module `twin`, or None where numba is missing. It is slow to load, and `predict` needs no loop."""
    try:
        from protoadapt.core.methods import twin
    except ImportError:  # pragma: no cover
        return None
    return twin


@dataclass(frozen=True)
class Held:
    """Blocks in memory."""

    blocks: list[Any]

    def each(self, function: Callable[[Any], Any]) -> Held:
        """The holder of function(block)."""
        return Held([function(block) for block in self.blocks])

    def about(self, center: Tensor, l2: bool) -> Held:
        """The holder of what `prototype_model.about` makes of each block of rows."""
        return self.each(lambda x: about(x, center, l2))

    def sums(self, function: Callable[[Any], Sums], zeros: Sums) -> Sums:
        """Σ function(block) over all blocks, in the types of `zeros`."""
        return _added(map(function, self.blocks), zeros)


@dataclass(frozen=True)
class Streamed:
    """Blocks that are made from arrays in every pass, by as many threads as torch has."""

    arrays: Iterable[Any]
    make: Callable[[Any], Iterable[Any]]  # the blocks of an array
    make_unit: Callable[[Any, Tensor], Iterable[Any]] | None = None  # of unit length about a centre, in one go

    def __iter__(self) -> Iterator[Any]:
        for array in self.arrays:
            yield from self.make(array)

    def each(self, function: Callable[[Any], Any]) -> Streamed:
        """The holder of function(block)."""
        return Streamed(self.arrays, lambda array: map(function, self.make(array)))

    def about(self, center: Tensor, l2: bool) -> Streamed:
        """The holder of what `prototype_model.about` makes of each block of rows."""
        if (make := self.make_unit) and l2:
            return Streamed(self.arrays, lambda array: make(array, center))
        return self.each(lambda x: about(x, center, l2))

    def sums(self, function: Callable[[Any], Sums], zeros: Sums) -> Sums:
        """Σ function(block) over all blocks, in the types of `zeros`."""

        def of_array(array: Any) -> Sums:
            with torch.inference_mode():
                return _added(map(function, self.make(array)), zeros)

        with one_thread() as threads:  # a core per array: threads that share one product wait for each other
            return _added(ahead(of_array, self.arrays, 2 * threads, threads), zeros)


Holder = Held | Streamed


def kept(rows: Holder) -> Holder:
    """The same blocks, held in memory if they are small."""
    if isinstance(rows, Held):
        return rows
    held, n_bytes = [], 0
    for block in rows:
        held.append(block)
        n_bytes += sum(part.nbytes for part in (block if isinstance(block, tuple) else (block,)))
        if n_bytes > KEPT_BYTES:
            return rows
    return Held(held)


def powered_rows(arrays: Iterable[np.ndarray], beta: float, power: str, dtype: torch.dtype, device: str) -> Streamed:
    """The rows of arrays (n, D) of features after the power transform, in blocks."""

    def copies(array: np.ndarray) -> Iterator[Tensor]:
        for rows in torch.from_numpy(array).split(BLOCK_ROWS):
            yield rows.to(device, dtype, copy=True)

    def blocks(array: np.ndarray) -> Iterator[Tensor]:
        for rows in copies(array):
            yield power_transform(rows, beta, power)

    def calibrated(array: np.ndarray, center: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        loops = compiled_loops()
        for rows in copies(array):
            if loops is None:
                yield about(power_transform(rows, beta, power), center, True)
                continue
            factor = torch.empty_like(rows[:, :1])
            loops.powered_about(rows.numpy(), center[0].to(dtype).numpy(), factor[:, 0].numpy())
            yield rows, factor

    return Streamed(arrays, blocks, calibrated if (device, beta, power) == ("cpu", 0.5, "auto") else None)


@dataclass(frozen=True)
class Slices:
    """The rows `index` of a table (·, D) in memory, `size` at a time, as often as one likes."""

    table: np.ndarray
    index: np.ndarray
    size: int = BLOCK_ROWS

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.index), self.size):
            yield self.table[self.index[start : start + self.size]]


def _added(parts: Iterable[Sums], zeros: Sums) -> Sums:
    totals = tuple(zero.clone() for zero in zeros)
    for part in parts:
        for total, more in zip(totals, part, strict=True):
            total += more
    return totals
