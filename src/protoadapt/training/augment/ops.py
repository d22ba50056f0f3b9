"""The 14 operations of RandAugment (Cubuk et al. 2020) that FixMatch (Sohn et al. 2020) draws from, equal to pillow's.

Axes: B images, 3 colours, S×S pixels. An operation is `op(images (B,3,S,S) uint8, magnitude (B,)) -> (B,3,S,S) uint8`
with one magnitude per image; OPS holds them in a fixed order. There are three kinds: point operations look up a table
of 256 values, colour and sharpness blend the image with a duller copy of itself, geometric operations move pixels. So
`strong` can apply all 14 at once.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

# Fills the pixels that a geometric operation leaves empty, and the cutout square. FixMatch's public code paints both
# mid-gray: RandAugment on CIFAR sets transparent pixels to 0 in [-1, 1], and its ImageNet operations use 128.
GRAY = 128


# Point operations: tables of the new value of each of the 256 values, (B, 3 or 1, 256).


def values(images: Tensor) -> Tensor:
    """0 … 255 on the device of the images, (1, 1, 256)."""
    return torch.arange(256, dtype=torch.int32, device=images.device).view(1, 1, 256)


def lookup(images: Tensor, table: Tensor) -> Tensor:
    """Every value of images (B,3,S,S) replaced by its entry in table (B, 3 or 1, 256)."""
    table = table.to(torch.uint8).expand(len(images), 3, 256)
    return table.gather(2, images.flatten(2).long()).view_as(images)


def autocontrast_table(images: Tensor, magnitude: Tensor) -> Tensor:
    """Stretch each colour to 0…255. float64, because pillow truncates what Python's floats give."""
    pixels = images.flatten(2).int()  # torch 2.13's compiler returns 0 for the minimum of uint8 values
    low, high = pixels.amin(2, keepdim=True).double(), pixels.amax(2, keepdim=True).double()
    scale = torch.full_like(low, 255) / (high - low)  # 255 / tensor would be a rounded reciprocal times 255
    stretched = (values(images) * scale + -low * scale).clamp(0, 255)
    return torch.where(high > low, stretched, values(images).double()).int()


def equalize_table(images: Tensor, magnitude: Tensor) -> Tensor:
    """Cumulative histogram per colour in steps of 1/255 of its pixels, those of the highest value not counted."""
    pixels = images.flatten(2)
    counts = torch.zeros(len(images), 3, 256, dtype=torch.int32, device=images.device)
    counts = counts.scatter_add(2, pixels.long(), torch.ones_like(pixels, dtype=torch.int32))
    highest = counts.gather(2, pixels.amax(2, keepdim=True).long())
    step = (pixels.shape[2] - highest) // 255
    below = counts.cumsum(2, dtype=torch.int32) - counts
    equal = ((step // 2 + below) // step.clamp_min(1)).clamp_max(255)
    return torch.where(step > 0, equal, values(images))


def solarize_table(images: Tensor, magnitude: Tensor) -> Tensor:
    v = values(images)
    return torch.where(v < magnitude[:, None, None], v, 255 - v)


def posterize_table(images: Tensor, magnitude: Tensor) -> Tensor:
    """Keep the highest bits; a magnitude of 4.7 keeps 4."""
    dropped = (8 - magnitude.int()).clamp_min(0)[:, None, None]
    return values(images) >> dropped << dropped


def contrast_table(images: Tensor, magnitude: Tensor) -> Tensor:
    """Blend with the mean of the gray picture, rounded (in integers: (2·sum + n) / 2n)."""
    n = images.shape[2] * images.shape[3]
    mean = (2 * gray(images).sum((2, 3), dtype=torch.int64) + n) // (2 * n)
    return blend(mean[..., None], values(images), magnitude[:, None, None])


def brightness_table(images: Tensor, magnitude: Tensor) -> Tensor:
    return blend(torch.zeros_like(values(images)), values(images), magnitude[:, None, None])


# Blends.


def blend(dull: Tensor, bright: Tensor, factor: Tensor) -> Tensor:
    """dull + factor·(bright − dull), clipped and truncated: pillow's Image.blend, float32 as there. Takes integers."""
    return (dull + factor.float() * (bright.int() - dull)).clamp(0, 255).to(torch.uint8)


def gray(images: Tensor) -> Tensor:
    """(B,1,S,S) int32: ITU-R 601 luma in 16-bit fixed point, rounded, as pillow's convert("L")."""
    red, green, blue = images.int().split(1, 1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16


def smooth(images: Tensor) -> Tensor:
    """(B,3,S,S) int32: 3×3 mean whose centre counts five times, rounded; the border stays, as pillow's SMOOTH.

    Thirteenths are never half-way between integers, so the order of the float sums cannot change the rounding.
    """
    x = images.float()
    total = F.avg_pool2d(x, 3, stride=1, padding=1, divisor_override=1) + 4 * x
    i = torch.arange(x.shape[-1], device=x.device)
    inner = (i > 0) & (i < x.shape[-1] - 1)
    return torch.where(inner[:, None] & inner, total / 13 + 0.5, x).int()


# Geometric operations: six coefficients per image in 16.16 fixed point, (B, 6) int32.


def matrix(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor) -> Tensor:
    """Output pixel (x, y) takes input pixel (ax + by + c, dx + ey + f), both at their centres; rounded as in pillow."""
    c, f = c + a * 0.5 + b * 0.5, f + d * 0.5 + e * 0.5
    return (torch.stack([a, b, c, d, e, f], -1) * 65536 + 0.5).floor().int()


def rotate_matrix(magnitude: Tensor, side: int) -> Tensor:
    """Rotation by degrees, anticlockwise about the centre."""
    angle = -torch.deg2rad(magnitude.double())
    cos, sin = angle.cos(), angle.sin()
    half = side / 2
    return matrix(cos, sin, half - half * (cos + sin), -sin, cos, half - half * (cos - sin))


def _one_coefficient(index: int) -> Callable[[Tensor, int], Tensor]:
    """The identity with one coefficient replaced: b or d shears by the magnitude, c or f shifts by a share of the side
    (positive to the left or up, since the matrix maps output to input pixels)."""

    def make(magnitude: Tensor, side: int) -> Tensor:
        m = magnitude.double()
        one, zero = torch.ones_like(m), torch.zeros_like(m)
        coefficients = [one, zero, zero, zero, one, zero]
        coefficients[index] = m * side if index in (2, 5) else m
        return matrix(*coefficients)

    return make


def warp(images: Tensor, coefficients: Tensor) -> Tensor:
    """Images warped without interpolation, gray where the source lies outside. coefficients (B, 6) of `matrix`."""
    side = images.shape[-1]
    i = torch.arange(side, dtype=torch.int32, device=images.device)
    a, b, c, d, e, f = (k[:, None, None] for k in coefficients.unbind(1))
    x = (a * i + (b * i[:, None] + c)) >> 16
    y = (d * i + (e * i[:, None] + f)) >> 16
    inside = (x >= 0) & (x < side) & (y >= 0) & (y < side)
    source = (y.clamp(0, side - 1) * side + x.clamp(0, side - 1)).long()
    moved = images.flatten(2).gather(2, source.flatten(1)[:, None].expand(-1, 3, -1)).view_as(images)
    return torch.where(inside[:, None], moved, GRAY)


# The operations by name.

Operation = Callable[[Tensor, Tensor], Tensor]

TABLES: dict[str, Operation] = {
    "autocontrast": autocontrast_table,
    "equalize": equalize_table,
    "solarize": solarize_table,
    "posterize": posterize_table,
    "contrast": contrast_table,
    "brightness": brightness_table,
}
DULL: dict[str, Callable[[Tensor], Tensor]] = {"color": gray, "sharpness": smooth}
MATRICES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "rotate": rotate_matrix,
    "shear_x": _one_coefficient(1),
    "shear_y": _one_coefficient(3),
    "translate_x": _one_coefficient(2),
    "translate_y": _one_coefficient(5),
}


def operate(name: str, images: Tensor, magnitude: Tensor) -> Tensor:
    """One operation on all images."""
    if name in TABLES:
        return lookup(images, TABLES[name](images, magnitude))
    if name in DULL:
        return blend(DULL[name](images), images, magnitude[:, None, None, None])
    return warp(images, MATRICES[name](magnitude, images.shape[-1])) if name in MATRICES else images


OPS: dict[str, Operation] = {name: partial(operate, name) for name in ("identity", *TABLES, *DULL, *MATRICES)}
