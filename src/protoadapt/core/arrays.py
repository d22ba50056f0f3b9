"""Checks of users' arrays and devices: features and labels from numpy, torch, pandas or lists."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.errors import UserError

_LARGEST = {4: 1e15, 8: 1e150}
"""Largest feature by the bytes of its type: squares of larger ones may sum to infinity."""
_SMALLEST = 1e-2
"""Of a table of features the largest: below it the power transform's 1e-6 and rounding in squared distances count."""


def checked_rows(features: Any, labels: Any) -> tuple[Tensor, np.ndarray, list[str] | None]:
    """Features (N, D), float64 or else float32, and what `class_indices` makes of labels (N,)."""
    rows = as_tensor(features, "features")
    if rows.ndim != 2 or not rows.shape[1]:
        raise UserError(f"features have shape {tuple(rows.shape)}: they must be a real (n_rows, n_dims) array")
    indices, names = class_indices(labels)
    if indices.shape != (len(rows),):
        raise UserError(f"features have {len(rows)} rows and labels shape {indices.shape}: give one label per row")
    rows = rows if rows.dtype == torch.float64 else rows.float()
    bad = (~torch.isfinite(rows)).any(1).nonzero()
    if len(bad):
        raise UserError(f"{len(bad)} feature rows hold NaN or infinite values, the first is row {int(bad[0])}")
    check_scale(rows)
    return rows, indices, names


def class_indices(labels: Any) -> tuple[np.ndarray, list[str] | None]:
    """Labels (N,) as whole numbers, −1 for none, and the sorted class names where they were names ("" for none).

    >>> class_indices(["dog", "", "cat"])
    (array([ 1, -1,  0]), ['cat', 'dog'])
    """
    if isinstance(labels, Tensor):
        labels = labels.detach().cpu().to(torch.float64 if labels.is_floating_point() else labels.dtype)
    array = as_array(labels, "labels")
    if array.dtype.kind == "U" or (array.dtype.kind == "O" and all(isinstance(label, str) for label in array.flat)):
        names, places = np.unique(array.astype(str), return_inverse=True)
        unnamed = len(names) and not names[0]  # "" is sorted first
        return places.reshape(array.shape) - int(unnamed), [str(name) for name in names[int(unnamed) :]]
    if array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64)
        if (whole == array).all():
            return whole, None
    raise UserError(f"labels of type {array.dtype} are not all whole numbers (−1 for none) that fit int64, or names")


def as_tensor(values: Any, name: str) -> Tensor:
    """A tensor of real numbers, without its gradient, of an array, list or data frame called `name`."""
    if not isinstance(values, Tensor):
        array = as_array(values, name)
        if array.dtype.kind not in "biuf":
            raise _not_real(name, array.dtype)
        values = torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    if values.is_complex() or values.is_meta or values.layout != torch.strided:
        raise _not_real(name, f"{values.dtype}, {values.layout} on {values.device}")
    return values.detach()


def as_array(values: Any, name: str) -> np.ndarray:
    """A numpy array of an array, list or data frame called `name`."""
    refuse_mask(values, name)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _not_real(name, error) from error


def _not_real(name: str, found: object) -> UserError:
    return UserError(f"{name} are no array of real numbers ({found}): give a numpy array or a dense torch tensor")


def refuse_mask(values: Any, name: str) -> None:
    """Raises UserError for a masked array: the mask would be ignored."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise UserError(f"{name} are partly masked: leave those rows out, or fill them in with .filled(…)")


def check_size(rows: Tensor | np.ndarray, itemsize: int) -> float:
    """The largest absolute feature. Raises UserError where it is too large to compute with in numbers of `itemsize`
    bytes."""
    largest = max(float(rows.max()), -float(rows.min())) if len(rows) else 0.0
    if largest > _LARGEST[itemsize]:
        raise UserError(
            f"the features reach {largest:.3g}, and from {_LARGEST[itemsize]:g} their squares may be infinite: "
            f"scale them down"
        )
    return largest


def check_scale(rows: Tensor | np.ndarray) -> None:
    """Raises UserError where a table of features (N, D) is too large, or too small, to be computed with."""
    if 0 < (largest := check_size(rows, rows.dtype.itemsize)) < _SMALLEST:
        raise UserError(f"the features reach only {largest:.3g}: scale them up, to {_SMALLEST:g} or more")


def checked_device(device: torch.device | str) -> torch.device | str:
    """The device, where torch can compute on it; otherwise raises UserError."""
    try:
        torch.ones((), device=device).item()
    except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError) as error:
        raise UserError(
            f"device is {str(device)!r}, on which torch cannot compute here: give cpu, cuda, cuda:N or mps"
        ) from error
    return device
