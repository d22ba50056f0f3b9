"""Preparation of feature rows: power transform, centre, unit length. The paper on CIPA calls it calibration.

The power transform is Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-based Few-Shot Learning
(ICANN 2021). It works row by row, so it is applied once to the whole table of features.
"""

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import unit

ROUNDING = 1e-6
"""A centred row no longer than this share of its length before centring is *at the centre*: what is left is rounding,
not a direction, and becomes zero. Where lengths come from inner products instead of differences (`inverse_length`),
their squares are rounded too, and in float32 the share is 2e-3."""


OFFSET = 1e-6
"""What the power transform adds to features of at least 0."""


def check_offset(largest: float, power: str) -> None:
    """Raises UserError where the largest absolute feature is so small that the transform's offset hides it."""
    if power in ("strict", "auto") and 0 < largest < 100 * OFFSET:
        raise UserError(
            f"the features reach only {largest:.3g}, and the power transform adds {OFFSET:g} to them: scale them up, "
            f"or set power=signed, which does not depend on their scale"
        )


def powered(episodes: Episodes, beta: float, power: str) -> Episodes:
    """The same episodes over the power-transformed table; "strict" refuses episodes that use a negative row."""
    if power == "off":
        return episodes
    check_offset(float(episodes.each_row(_largest).rows.max()), power)
    if power == "strict":
        lowest = episodes.each_row(_lowest).rows
        if bool((lowest < 0).any()):
            index = (episodes.support_index, episodes.query_index, episodes.unlabeled_index)
            _refuse_negative(min(lowest[part].min() for part in index if part is not None))
        power = "auto"  # which is the same for rows without negative entries
    return episodes.each_row(power_transform, beta=beta, power=power)


def power_transform(rows: Tensor, beta: float, power: str) -> Tensor:
    """Each entry of rows (n, D) raised to the power β, then rows of unit length.

    "strict" takes (x + 1e-6)^β and refuses negative features; "signed" takes sign(x)·|x|^β; "auto" takes the first for
    entries of at least 0 and the second for the others; "off" returns the rows unchanged.
    """
    if power == "off":
        return rows
    if power == "signed":
        return unit(rows.sign() * rows.abs() ** beta)
    if not torch.compiler.is_exporting():  # an exported graph cannot branch on values, and takes the general form
        if not rows.numel() or (lowest := rows.min()) >= 0:
            return unit((rows + 1e-6) ** beta)
        if power == "strict":
            _refuse_negative(lowest)
    return unit(torch.where(rows < 0, -(rows.abs() ** beta), (rows.clamp_min(0) + 1e-6) ** beta))


def _largest(rows: Tensor) -> Tensor:
    return rows.abs().amax(1)


def _lowest(rows: Tensor) -> Tensor:
    return rows.amin(1)


def _refuse_negative(lowest: Tensor) -> None:
    if lowest < 0:
        raise UserError(
            f"the power transform needs non-negative features but the lowest is {lowest:.3g}: use features after a "
            f"ReLU, or set power=signed (or power=auto)"
        )


def prepared_rows(rows: Tensor, mean: Tensor, l2: bool) -> Tensor:
    """rows − mean, of unit length if `l2`; a row at the centre becomes zero."""
    centred = rows - mean
    if not l2:
        return centred
    length = centred.norm(dim=-1, keepdim=True)
    floor = ROUNDING * rows.norm(dim=-1, keepdim=True)
    return centred / torch.where(length > floor, length, torch.inf)  # one pass through the rows, not three


def inverse_length(square: Tensor, inner: Tensor, mean_square: Tensor) -> Tensor:
    """1/‖x − μ‖ from ‖x‖², x·μ and ‖μ‖², for forms that never hold x − μ; 0 for a row at the centre."""
    left = square - 2 * inner + mean_square
    floor = rounding_of_products(left.dtype) * (square + mean_square)
    return torch.where(left > floor, left.clamp_min(torch.finfo(left.dtype).tiny).rsqrt(), 0)


def rounding_of_products(dtype: torch.dtype) -> float:
    """The share of ‖x‖² + ‖μ‖² up to which ‖x − μ‖², computed from inner products, counts as rounding."""
    return max(ROUNDING**2 / 2, 32 * torch.finfo(dtype).eps)


def cl2n(episodes: Episodes, name: str) -> Episodes:
    """Rows centred by the mean of the BASE features, then of unit length (SimpleShot's CL2N)."""
    if episodes.base_mean is None:
        raise UserError(
            f"{name} centres by the mean of the base classes' features, which is missing: give it with --base FILE "
            f"(for your own pictures, features of other pictures by the same network; in Python base_mean), "
            f"or leave {name} out"
        )
    return episodes.each_row(prepared_rows, mean=episodes.base_mean, l2=True)
