"""Preparation of feature rows: power transform, centre, unit length. The paper on CIPA calls it calibration.

The power transform is Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-based Few-Shot Learning
(ICANN 2021). It works row by row, so it is applied once to the whole table of features.
"""

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import OFFSET, refuse_negative
from protoadapt.core.prototype_model import ROUNDING as ROUNDING
from protoadapt.core.prototype_model import power_transform as power_transform
from protoadapt.core.prototype_model import prepared_rows as prepared_rows


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
            refuse_negative(min(float(lowest[part].min()) for part in index if part is not None))
        power = "auto"  # which is the same for rows without negative entries
    return episodes.each_row(power_transform, beta=beta, power=power)


def _largest(rows: Tensor) -> Tensor:
    return torch.maximum(rows.amax(1), -rows.amin(1))


def _lowest(rows: Tensor) -> Tensor:
    return rows.amin(1)


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
