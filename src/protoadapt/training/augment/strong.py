"""Strong views (FixMatch, Sohn et al. 2020): a weak view, two RandAugment operations, a gray cutout square.

Operations are drawn per image. FixMatch's public code draws the two with replacement (numpy's `choice`), so one may be
drawn twice. It also skips each with probability 1/2 and has nine levels of magnitude; here, as in its paper, both are
applied, with a magnitude uniform in its range.
"""

import torch
from torch import Tensor

from protoadapt.training.augment.ops import DULL, GRAY, MATRICES, OPS, TABLES, blend, lookup, values, warp
from protoadapt.training.augment.weak import apply_weak, draw_weak

# FixMatch's ranges. Posterize truncates: 4, 5, 6, 7 and 8 bits are equally likely.
RANGES = (
    dict.fromkeys(OPS, (0.0, 0.0))
    | dict.fromkeys(("contrast", "brightness", "color", "sharpness"), (0.05, 0.95))
    | dict.fromkeys(("shear_x", "shear_y", "translate_x", "translate_y"), (-0.3, 0.3))
    | {"solarize": (0.0, 256.0), "posterize": (4.0, 9.0), "rotate": (-30.0, 30.0)}
)
CODES = {name: code for code, name in enumerate(OPS)}


def draw_strong(
    n: int, side: int, generator: torch.Generator, *, stored: int | None = None, **options
) -> dict[str, Tensor]:
    """The draws of `draw_weak`, whose arguments these are, and op (n,2), magnitude (n,2), hole (n,2).

    `side` is that of the views, `stored` (None: the same) that of the images they are cut from.
    """
    draws = draw_weak(n, stored or side, generator, **options)
    u = torch.rand(3, n, 2, generator=generator)
    op = (u[0] * len(OPS)).int()
    low, high = torch.tensor([RANGES[name] for name in OPS]).unbind(1)
    magnitude = low[op] + (high - low)[op] * u[1]
    # The centre of the square is any pixel, so the square may extend beyond the edge (Cutout, DeVries & Taylor 2017).
    hole = (u[2] * side).int() - side // 4
    return draws | {"op": op, "magnitude": magnitude, "hole": hole}


def apply_strong(images: Tensor, draws: dict[str, Tensor], side: int | None = None) -> Tensor:
    """Strong views of images (B,3,S,S) uint8: weak view, two operations, cutout. `side` is that of `apply_weak`."""
    views = apply_weak(images, draws, side)
    operate = one_by_one if images.device.type == "cpu" else all_at_once
    for op, magnitude in zip(draws["op"].unbind(1), draws["magnitude"].unbind(1)):
        views = operate(views, op, magnitude)
    return cutout(views, draws["hole"])


def one_by_one(images: Tensor, op: Tensor, magnitude: Tensor) -> Tensor:
    """Each operation on the images that drew it: least work, but it waits for the device to count them."""
    views = images.clone()
    for name, apply in OPS.items():
        rows = (op == CODES[name]).nonzero()[:, 0]
        if name != "identity" and len(rows):
            views[rows] = apply(images[rows], magnitude[rows])
    return views


def all_at_once(images: Tensor, op: Tensor, magnitude: Tensor) -> Tensor:
    """The same on a GPU without waiting for it: every image is warped, looked up and blended, and what it did not draw
    is an identity. A few kernels once compiled."""
    side = images.shape[-1]
    moves = MATRICES["rotate"](torch.zeros_like(magnitude), side)
    for name, move in MATRICES.items():
        moves = torch.where((op == CODES[name])[:, None], move(magnitude, side), moves)
    table = values(images)
    for name, make in TABLES.items():
        table = torch.where((op == CODES[name])[:, None, None], make(images, magnitude).int(), table)
    views = lookup(warp(images, moves), table)
    op, factor = op[:, None, None, None], magnitude[:, None, None, None]
    for name, dull in DULL.items():
        views = torch.where(op == CODES[name], blend(dull(images), images, factor), views)
    return views


def cutout(images: Tensor, hole: Tensor) -> Tensor:
    """Images with a gray square of half the side whose top left corner is at hole (B, 2), clipped at the edges."""
    side = images.shape[-1]
    i = torch.arange(side, dtype=torch.int32, device=images.device)
    rows, columns = ((i >= k[:, None]) & (i < k[:, None] + side // 2) for k in hole.unbind(1))
    return torch.where((rows[:, :, None] & columns[:, None, :])[:, None], GRAY, images)
