"""CIPA and BAPA over rows that are read from disk in every step: the calibration is folded into the products.

`methods.many` forms calibrated rows u = unit(r − μ) of r = s/‖s‖, s = (x + 1e-6)^β, and passes over them half a dozen
times. Here no such row is formed. One product of s with the prototypes P and the centre μ gives

    d = 1/‖r − μ‖ = (1 − 2 μ·r + ‖μ‖²)^−½,        P·u = d (P·r − P·μ),
    Σ_j z_j u_j = Σ_j (z_j d_j/‖s_j‖) s_j − (Σ_j z_j d_j) μ,

and for β = ½, ‖s‖² is the sum of the features themselves. So a step is two products of the rows as they are and little
else. BAPA's centre takes a third, Σ_j z_j r_j, where class sizes differ; where they do not (g ≤ 0), all rows count the
same in it and it stays. Answers agree with `many` to rounding (a law in the tests).

Axes: W classes, D dimensions, n rows of a piece. What belongs to rows has the classes first: (W, n).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.methods import native
from protoadapt.core.methods.adaptation import Adaptation
from protoadapt.core.methods.bapa import class_sizes, pulls
from protoadapt.core.methods.common import TINY
from protoadapt.core.methods.many import Learned, bapa_center, bapa_step
from protoadapt.core.methods.normalize import calibrated_rows, inverse_length, power_transform
from protoadapt.vision.shards.shard_files import Header
from protoadapt.vision.shards.stream import Rows, summed

PIECE = 2048
"""Rows that are worked on at once: 4 MB at 512 dimensions."""


class Power(NamedTuple):
    """The power transform before centring: β, and "strict", "signed", "auto" or "off"."""

    beta: float
    power: str


class Lifted(NamedTuple):
    """Rows r = inverse·s: s (n, D) float32, inverse (n), and ‖r‖² (n)."""

    s: Tensor
    inverse: Tensor
    square: Tensor


def lifted(x: Tensor, how: Power, rectified: bool) -> Lifted:
    """x (n, D) float16 as it comes from disk."""
    rows = x.float()
    if how.power == "off":
        return Lifted(rows, torch.ones_like(rows[:, 0]), rows.square().sum(1))
    if how.beta == 0.5 and rectified and how.power in ("auto", "strict"):
        inverse = torch.empty_like(rows[:, 0])
        if native.usable(rows):
            _roots(rows.numpy(), inverse.numpy())
        else:
            torch.rsqrt(rows.add_(1e-6).sum(1), out=inverse)
            rows.sqrt_()
        return Lifted(rows, inverse, torch.ones_like(inverse))
    rows = power_transform(rows, how.beta, how.power)
    return Lifted(rows, torch.ones_like(rows[:, 0]), rows.square().sum(1))


class Scorer(NamedTuple):
    """What a pass multiplies the rows by, in their type: worked out once a pass."""

    M: Tensor  # (W + 1, D): P, scaled, and the centre
    shift: Tensor  # (W, 1): P·μ
    offset: Tensor  # (W, 1)
    square: Tensor  # ‖μ‖²

    @classmethod
    def of(cls, learned: Learned, how: Adaptation) -> "Scorer":
        center, prototypes, bias = learned
        if how.rule == "cosine":
            P, offset = how.scale * prototypes / prototypes.norm(dim=1, keepdim=True).clamp_min(TINY), bias
        else:
            P, offset = 2 * how.scale * prototypes, bias - how.scale * prototypes.square().sum(1)
        return cls.linear(P, offset, center)

    @classmethod
    def linear(cls, P: Tensor, offset: Tensor, center: Tensor) -> "Scorer":
        """P·u + offset; P (W, D), offset (W), center (D)."""
        parts = (torch.cat([P, center[None]]), (P @ center)[:, None], offset[:, None], center.square().sum())
        return cls(*(part.float() for part in parts))

    def __call__(self, rows: Lifted) -> tuple[Tensor, Tensor]:
        """Logits (W, n), and d (n), the inverse length of the centred rows."""
        t = (self.M @ rows.s.mT).mul_(rows.inverse)
        d = inverse_length(rows.square, t[-1], self.square)
        return t[:-1].sub_(self.shift).mul_(d).add_(self.offset), d


def pieces(header: Header, rows: np.ndarray, how: Power, device: str) -> Iterator[Lifted]:
    """The rows of a shard, lifted, so many at a time that they stay in a core's cache."""
    rectified = header.metadata["lowest"] >= 0
    for part in torch.from_numpy(rows).split(PIECE):
        yield lifted(part.to(device), how, rectified)


def learn_cipa(rows: Rows, support: Tensor, labels: Tensor, n_way: int, how: Adaptation, power: Power) -> Learned:
    """`many.learn` with center="separate" and l2; support (S, D) float64 after the power, labels (S)."""
    zero = support.new_zeros(n_way, support.shape[1])
    total, _, count = _totals(rows, zero, power)
    center = total / count if count else support.mean(0)
    shots = torch.bincount(labels, minlength=n_way).to(zero)[:, None]
    sums = zero.index_add(0, labels, calibrated_rows(support, support.mean(0), True))
    learned = Learned(center, sums / shots.clamp_min(TINY), zero[:, 0])

    def part(u: Lifted) -> tuple[Tensor, ...]:
        logits, d = scores(u)
        z = logits.softmax(0)
        return (z * (d * u.inverse)) @ u.s, z.sum(1), z @ d

    for _ in range(how.n_iter if count else 0):
        scores = Scorer.of(learned, how)
        pull, mass, shift = _over(rows, part, (zero, zero[:, 0], zero[:, 0]), power)
        pull = pull - shift[:, None] * center
        estimate = (sums + pull) / (shots + mass[:, None]).clamp_min(TINY)
        learned = learned._replace(prototypes=how.sigma * estimate + (1 - how.sigma) * learned.prototypes)
    return learned


def learn_bapa(
    rows: Rows,
    support: Tensor,
    labels: Tensor,
    n_way: int,
    how: Adaptation,
    power: Power,
    kappa: float,
    k_s: float,
) -> Learned:
    """`many.learn_bapa`, steps numbered as in `methods.bapa`; support (S, D) float64 after the power, labels (S)."""
    zero = support.new_zeros(n_way, support.shape[1])
    shots = torch.bincount(labels, minlength=n_way).to(zero)[:, None]
    support_mean = (zero.index_add(0, labels, support) / shots).mean(0)
    total, squares, count = _totals(rows, zero, power)
    support_squares = (zero[:, 0].index_add(0, labels, support.square().sum(1)) / shots[:, 0]).mean()
    alpha, center = bapa_center(total, squares, count, support_mean, support_squares, shots, k_s)  # 0, 1
    sums = zero.index_add(0, labels, calibrated_rows(support, center, True))
    learned = Learned(center, sums / (shots + kappa), zero[:, 0])

    def part(u: Lifted) -> tuple[Tensor, ...]:
        logits, d = scores(u)
        z = logits.softmax(0)  # 2
        h = pulls(z, 0)
        sums = h.sum(1), z.sum(1), h @ d, h.mul_(d * u.inverse) @ u.s
        return (*sums, z.mul_(u.inverse) @ u.s) if uneven else sums

    step, uneven = 0, False
    while step < (how.n_iter if count else 0):
        scores = Scorer.of(learned, how)
        zeros = (*[zero[:, 0]] * 3, zero, zero)
        mass, n, shift, pull, *raw = _over(rows, part, zeros if uneven else zeros[:-1], power)
        if not uneven and (class_sizes(n[:, None], count, kappa)[1] != 1).any():
            uneven = True  # from this step on, which is done again: a row counts in the centre by its class
            continue
        sums = zero.index_add(0, labels, calibrated_rows(support, learned.center, True))
        estimate = (sums + pull - shift[:, None] * learned.center) / (shots + kappa + mass[:, None])
        of_class = raw[0] if uneven else total / n_way  # whatever adds up to the total, where all rows count the same
        learned = bapa_step(learned, estimate, of_class, n[:, None], alpha, support_mean, count, how.sigma, kappa)
        step += 1  # 3 to 5
    return learned


def _totals(rows: Rows, zero: Tensor, power: Power) -> tuple[Tensor, Tensor, int]:
    """Σ r (D), Σ ‖r‖² and the number of rows, in all processes."""

    def part(u: Lifted) -> tuple[Tensor, ...]:
        return u.inverse @ u.s, u.square.sum(), u.square.new_tensor(len(u.s))

    total, squares, count = _over(rows, part, (zero[0], zero[0, 0], zero[0, 0]), power)
    return total, squares, round(float(count))


def _over(
    rows: Rows, part: Callable[[Lifted], tuple[Tensor, ...]], zeros: tuple[Tensor, ...], power: Power
) -> tuple[Tensor, ...]:
    """The sums of `part` over all pieces of all shards, in float64."""
    device = str(zeros[0].device)

    def of_shard(header: Header, table: np.ndarray) -> tuple[Tensor, ...]:
        totals = tuple(torch.zeros_like(zero) for zero in zeros)
        with torch.inference_mode():
            for piece in pieces(header, table, power, device):
                for total, more in zip(totals, part(piece)):
                    total += more
        return totals

    return summed(rows.each(of_shard), zeros)


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
