"""Row holders: the rows that a method of the prototype family learns from, however many they are.

The family (`family`) asks its rows for sums over all of them only, such as Σ_j z_cj u_j, and blocks of rows add up to
those. So a `Holder` runs through its blocks as often as it is asked and adds up what a function makes of each. Its
blocks are in memory, as those of a batch of episodes, one block (E, n, D); or they are made again in every pass, from
slices of a table in memory or from the float16 parts of one on disk, so that its memory is bounded by a block.
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
"""Rows of a table that are worked on at once: 4 MB at 512 dimensions, which stay in a core's cache."""
KEPT_BYTES = 2**26
"""What is made of blocks is kept up to this size; beyond it, it is made again in every pass."""

Sums = tuple[Tensor, ...]


@dataclass(frozen=True)
class Holder:
    """Blocks in memory; or with `make` arrays, whose blocks are made in every pass, by as many threads as torch has."""

    parts: Iterable[Any]
    make: Callable[[Any], Iterable[Any]] | None = None  # the blocks of an array
    make_unit: Callable[[Any, Tensor], Iterable[Any]] | None = None  # of unit length about a centre, in one go

    def each(self, function: Callable[[Any], Any]) -> Holder:
        """The holder of function(block)."""
        if (make := self.make) is None:
            return Holder([function(block) for block in self.parts])
        return Holder(self.parts, lambda array: map(function, make(array)))

    def about(self, center: Tensor, l2: bool) -> Holder:
        """The holder of what `prototype_model.about` makes of each block of rows."""
        if (make_unit := self.make_unit) and l2:
            return Holder(self.parts, lambda array: make_unit(array, center))
        return self.each(lambda x: about(x, center, l2))

    def sums(self, function: Callable[[Any], Sums], zeros: Sums) -> Sums:
        """Σ function(block) over all blocks, in the types of `zeros`."""
        if (make := self.make) is None:
            return _added(map(function, self.parts), zeros)

        def of_array(array: Any) -> Sums:
            with torch.inference_mode():
                return _added(map(function, make(array)), zeros)

        with one_thread() as threads:  # a core per array: threads that share one product wait for each other
            return _added(ahead(of_array, self.parts, 2 * threads, threads), zeros)


def _added(parts: Iterable[Sums], zeros: Sums) -> Sums:
    totals = tuple(zero.clone() for zero in zeros)
    for part in parts:
        for total, more in zip(totals, part, strict=True):
            total += more
    return totals


def kept(rows: Holder) -> Holder:
    """The same blocks, held in memory if they are small."""
    if rows.make is None:
        return rows
    held, n_bytes = [], 0
    for array in rows.parts:
        for block in rows.make(array):
            held.append(block)
            n_bytes += sum(part.nbytes for part in (block if isinstance(block, tuple) else (block,)))
            if n_bytes > KEPT_BYTES:
                return rows
    return Holder(held)


def powered_rows(arrays: Iterable[np.ndarray], beta: float, power: str, dtype: torch.dtype, device: str) -> Holder:
    """The rows of arrays (n, D) of features after the power transform, in blocks."""

    def copies(array: np.ndarray) -> Iterator[Tensor]:
        for rows in torch.from_numpy(array).split(BLOCK_ROWS):
            yield rows.to(device, dtype, copy=True)

    def blocks(array: np.ndarray) -> Iterator[Tensor]:
        for rows in copies(array):
            yield power_transform(rows, beta, power)

    def calibrated(array: np.ndarray, center: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        from protoadapt.core.methods.kernels import powered_about

        for rows in copies(array):
            factor = torch.empty_like(rows[:, :1])
            powered_about(rows.numpy(), center[0].to(dtype).numpy(), factor[:, 0].numpy())
            yield rows, factor

    return Holder(arrays, blocks, calibrated if (device, beta, power) == ("cpu", 0.5, "auto") else None)


@dataclass(frozen=True)
class Slices:
    """The rows `index` of a table (·, D) in memory, `size` at a time, as often as one likes."""

    table: np.ndarray
    index: np.ndarray
    size: int = BLOCK_ROWS

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.index), self.size):
            yield self.table[self.index[start : start + self.size]]


def sampled(arrays: Iterable[np.ndarray], most: int, none: np.ndarray) -> np.ndarray:
    """At most so many of the rows of all arrays (·, D), any of them alike, in their order; none (0, D), of their type.

    Each row draws a number, and the smallest stay: so one pass is enough, and the rows need not be counted before.
    """
    rng, drawn, rows = np.random.default_rng(0), np.empty(0), none
    for array in arrays:
        drawn = np.concatenate([drawn, rng.random(len(array))])
        chosen = np.sort(np.argsort(drawn)[:most])
        rows, drawn = np.concatenate([rows, array.astype(none.dtype, copy=False)])[chosen], drawn[chosen]
    return rows
