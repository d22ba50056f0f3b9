"""Row sources: how the rows of one task are held, apart from what is computed with them.

A learner (`row_learner`) asks unlabelled rows for sums only, such as Σ_j z_cj u_j, and blocks of rows add up to those.
So a *source* runs through its blocks as often as it is asked and adds up what a function makes of each; a *block*
offers the products that the algorithms need. How it holds its rows is its own affair: `DenseBlock` has them in memory,
`vision.shards.shard_source` reads float16 rows from disk in every pass and folds the preparation into the products,
and several processes each run through their own rows and add up their sums.

Axes: W classes, D dimensions, n rows of a block. What belongs to rows has the classes first: (W, n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.methods.normalize import power_transform, prepared_rows

BLOCK_NUMBERS = 2**21
"""Numbers in a block of rows and its class probabilities together: 8 MB in float32."""
KEPT_BYTES = 2**26
"""Blocks are computed once and kept up to this size; beyond it they are computed again in every pass."""

Sums = tuple[Tensor, ...]


class RowBlock(Protocol):
    """n rows u (n, D)."""

    def about(self, center: Tensor, l2: bool) -> RowBlock:
        """The rows u − center (D), scaled to unit length if `l2`; a row at the centre becomes zero."""

    def dot(self, vectors: Tensor) -> Tensor:
        """(W, n): the inner products of vectors (W, D) with the rows."""

    def pull(self, weights: Tensor) -> Tensor:
        """(W, D): Σ_j weights_cj u_j for weights (W, n)."""

    def total(self) -> Tensor:
        """(D): Σ_j u_j."""

    def squares(self) -> Tensor:
        """(n): ‖u‖²."""


class Source(Protocol):
    """Blocks that can be run through again and again."""

    def sums(self, part: Callable[[Any], Sums], zeros: Sums) -> Sums:
        """Σ part(block) over all blocks, and over all processes, in the float64 of `zeros`."""

    def each(self, function: Callable[[Any], Any]) -> Source:
        """The source of function(block)."""


class RowSource(Protocol):
    """Unlabelled rows of features as they were extracted. Implement this to fit an estimator from rows held elsewhere
    (`PrototypeClassifier.fit_rows`)."""

    def powered(self, beta: float, power: str) -> Source:
        """The rows after `normalize.power_transform`."""


@dataclass(frozen=True)
class DenseBlock:
    """Rows (n, D) that are held as they are."""

    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def about(self, center: Tensor, l2: bool) -> DenseBlock:
        return DenseBlock(prepared_rows(self.rows, center.to(self.rows), l2))

    def dot(self, vectors: Tensor) -> Tensor:
        return vectors.to(self.rows) @ self.rows.mT

    def pull(self, weights: Tensor) -> Tensor:
        return weights @ self.rows

    def total(self) -> Tensor:
        return self.rows.sum(0, dtype=torch.float64)

    def squares(self) -> Tensor:
        return self.rows.square().sum(1)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


@dataclass(frozen=True)
class Blocks:
    """A source of blocks in memory: a list of them, or an iterable that makes them again in every pass."""

    blocks: Iterable[Any]

    def sums(self, part: Callable[[Any], Sums], zeros: Sums) -> Sums:
        totals = tuple(zero.clone() for zero in zeros)
        for block in self.blocks:
            add(totals, part(block))
        return totals

    def each(self, function: Callable[[Any], Any]) -> Source:
        return Blocks(kept(Computed(self.blocks, function)))


@dataclass(frozen=True)
class Mapped:
    """function(block) of another source's blocks, computed again in every pass."""

    source: Source
    function: Callable[[Any], Any]

    def sums(self, part: Callable[[Any], Sums], zeros: Sums) -> Sums:
        return self.source.sums(lambda block: part(self.function(block)), zeros)

    def each(self, function: Callable[[Any], Any]) -> Source:
        return Mapped(self, function)


@dataclass(frozen=True)
class MemorySource:
    """The rows `index` of a table (·, D) in memory, block by block, as tensors of one type on one device."""

    table: np.ndarray
    index: np.ndarray
    block_size: int
    dtype: torch.dtype
    device: torch.device | str = "cpu"

    def __iter__(self) -> Iterator[Tensor]:
        for start in range(0, len(self.index), self.block_size):
            rows = torch.from_numpy(self.table[self.index[start : start + self.block_size]])  # a copy of those rows
            yield rows.to(self.device, self.dtype)

    def powered(self, beta: float, power: str) -> Source:
        return Blocks(self.powered_blocks(beta, power))

    def powered_blocks(self, beta: float, power: str) -> Iterable[DenseBlock]:
        return kept(Computed(self, lambda rows: DenseBlock(power_transform(rows, beta, power))))


@dataclass(frozen=True)
class Computed:
    """function(item) of each item, computed whenever it is iterated over."""

    items: Iterable[Any]
    function: Callable[[Any], Any]

    def __iter__(self) -> Iterator[Any]:
        return map(self.function, self.items)


def kept(blocks: Iterable[Any]) -> Iterable[Any]:
    """The same blocks, held in memory if they are small."""
    held, n_bytes = [], 0
    for block in blocks:
        held.append(block)
        n_bytes += block.nbytes
        if n_bytes > KEPT_BYTES:
            return blocks
    return held


def block_size(n_way: int, dim: int) -> int:
    """How many rows make a block."""
    return max(256, BLOCK_NUMBERS // (n_way + dim))


def add(totals: Sums, parts: Sums) -> None:
    """Adds each part to its total, in place."""
    for total, part in zip(totals, parts, strict=True):
        total += part


def over_processes(totals: Sums) -> Sums:
    """The sums of all processes, where torchrun started several."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return totals
    flat = torch.cat([total.flatten() for total in totals])
    torch.distributed.all_reduce(flat)
    pieces = flat.split([total.numel() for total in totals])
    return tuple(piece.view_as(total) for piece, total in zip(pieces, totals, strict=True))
