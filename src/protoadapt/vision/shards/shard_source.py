"""The rows of a table on disk as a row source: read from disk in every pass, the preparation folded into the products.

With s = (x + 1e-6)^β a power-transformed row is r = s/‖s‖, and no prepared row u = unit(r − μ) is ever formed. One
product of s with vectors P and the centre μ gives

    d = 1/‖r − μ‖ = (‖r‖² − 2 μ·r + ‖μ‖²)^−½,        P·u = d (P·r − P·μ),
    Σ_j z_j u_j = Σ_j (z_j d_j/‖s_j‖) s_j − (Σ_j z_j d_j) μ,

and for β = ½, ‖s‖² is the sum of the features themselves. So a step of CIPA is two products of the rows as they are and
little else. Answers agree with rows in memory to rounding (a law in the tests).

Axes: W classes, D dimensions, n rows of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.methods import native
from protoadapt.core.methods.normalize import inverse_length, power_transform
from protoadapt.core.methods.row_source import Mapped, Source, Sums, add
from protoadapt.core.parts import Part, PartsTable

BLOCK_ROWS = 2048
"""Rows that are worked on at once: 4 MB at 512 dimensions, which stay in a core's cache."""


@dataclass
class FoldedBlock:
    """Rows r = inverse·s about a centre: s (n, D) float32, inverse (n), square (n) = ‖r‖²."""

    s: Tensor
    inverse: Tensor
    square: Tensor
    center: Tensor | None = None
    l2: bool = False
    inverse_lengths: Tensor | None = None  # (n) d, from the first product on

    def about(self, center: Tensor, l2: bool) -> FoldedBlock:
        return replace(self, center=center, l2=l2, inverse_lengths=None)

    def dot(self, vectors: Tensor) -> Tensor:
        if self.center is None:
            return (vectors.float() @ self.s.mT).mul_(self.inverse)
        inner = (torch.cat([vectors, self.center[None]]).float() @ self.s.mT).mul_(self.inverse)
        d = self._set_lengths(inner[-1])
        return inner[:-1].sub_((vectors @ self.center).float()[:, None]).mul_(d if self.l2 else 1)

    def pull(self, weights: Tensor) -> Tensor:
        if self.center is None:
            return (weights * self.inverse) @ self.s
        factor = self.lengths() if self.l2 else torch.ones_like(self.inverse)
        pull = (weights * (factor * self.inverse)) @ self.s
        return pull.double() - (weights @ factor).double()[:, None] * self.center

    def total(self) -> Tensor:
        return self.pull(torch.ones_like(self.inverse)[None])[0]

    def squares(self) -> Tensor:
        if self.center is None:
            return self.square
        d = self.lengths()
        return (d > 0).to(d) if self.l2 else torch.where(d > 0, d.square().reciprocal(), 0)

    def lengths(self) -> Tensor:
        """d (n): 1/‖r − center‖; 0 for a row at the centre."""
        assert self.center is not None
        if self.inverse_lengths is None:
            return self._set_lengths((self.center.float() @ self.s.mT).mul_(self.inverse))
        return self.inverse_lengths

    def _set_lengths(self, inner: Tensor) -> Tensor:
        assert self.center is not None
        self.inverse_lengths = inverse_length(self.square, inner, self.center.square().sum().float())
        return self.inverse_lengths


@dataclass(frozen=True)
class ShardSource:
    """The unlabelled rows of a table on disk.

    >>> source = ShardSource(open_features(folder))                                  # doctest: +SKIP
    >>> model = BAPAClassifier().fit_rows(support, labels, source)                   # doctest: +SKIP
    """

    table: PartsTable
    device: str = "cpu"
    power: str = "off"
    beta: float = 0.5

    def powered(self, beta: float, power: str) -> ShardSource:
        return replace(self, beta=beta, power=power)

    def each(self, function: Callable[[Any], Any]) -> Source:
        return Mapped(self, function)

    def sums(self, part: Callable[[Any], Sums], zeros: Sums) -> Sums:
        def of_rows(_: Part, rows: np.ndarray) -> Sums:
            totals = tuple(torch.zeros_like(zero) for zero in zeros)
            with torch.inference_mode():
                for block in self.blocks(rows):
                    add(totals, part(block))
            return totals

        totals = tuple(zero.clone() for zero in zeros)
        for some in self.table.each(of_rows):  # in the order of the parts, whichever is done first
            add(totals, some)
        return totals

    def blocks(self, table: np.ndarray) -> Iterator[FoldedBlock]:
        """Rows (n, D) float16 after the power transform, BLOCK_ROWS at a time."""
        for rows in torch.from_numpy(table).split(BLOCK_ROWS):
            yield _folded(rows.to(self.device).float(), self.beta, self.power)


def _folded(rows: Tensor, beta: float, power: str) -> FoldedBlock:
    """rows (n, D), which are overwritten."""
    if not (beta == 0.5 and power in ("auto", "strict") and rows.numel() and float(rows.min()) >= 0):
        rows = power_transform(rows, beta, power)
        return FoldedBlock(rows, torch.ones_like(rows[:, 0]), rows.square().sum(1))
    inverse = torch.empty_like(rows[:, 0])
    if native.usable(rows):
        _roots(rows.numpy(), inverse.numpy())
    else:
        torch.rsqrt(rows.add_(1e-6).sum(1), out=inverse)
        rows.sqrt_()
    return FoldedBlock(rows, inverse, torch.ones_like(inverse))


if native.njit is not None:

    @native.compiled
    def _roots(rows, inverse):
        """In place (x + 1e-6)^½, and the inverse length of each row after it: one pass through memory, not four."""
        for i in range(rows.shape[0]):
            total = np.float32(0)
            for j in range(rows.shape[1]):
                lifted = rows[i, j] + np.float32(1e-6)
                total += lifted
                rows[i, j] = np.sqrt(lifted)
            inverse[i] = np.float32(1) / np.sqrt(total)
