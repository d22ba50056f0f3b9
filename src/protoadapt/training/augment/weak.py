"""Weak views: a random crop and a flip per image.

Drawing random numbers (`draw_weak`, on the CPU) is separate from applying them (`apply_weak`, pure tensor code for any
device and for torch.compile). Views are uint8 like the images: a quarter of the memory traffic of float, and the cast
costs nothing in the normalisation of the training module.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from protoadapt.training.augment.ops import OPS
from protoadapt.vision.windows import columns, draw_windows, resized

CROPS = ("pad", "resized")
PAD = 1 / 8
JITTER = ("brightness", "contrast", "color")  # the order in which they are applied


def draw_weak(
    n: int,
    side: int,
    generator: torch.Generator,
    *,
    crop: str = "pad",
    scale: tuple[float, float] = (0.35, 1.0),
    jitter: float = 0.0,
    flip: bool = True,
) -> dict[str, Tensor]:
    """Random parameters of n weak views of images that are stored with this side, drawn with a CPU generator.

    crop "pad": pad by mirroring PAD of the side at each edge, then cut out a window of the original size (as FixMatch;
    our paper says only that it crops).
    crop "resized": cut out a window with `scale` of the area and a ratio of 3/4 to 4/3, resize it bilinearly.
    Either is then brought to the side of the view, where images are stored larger (see `apply_weak`).
    jitter: brightness, contrast and saturation are multiplied, in this order, by factors uniform in 1 ± jitter.
    flip: mirror every view with probability 1/2.

    Returns draws for `apply_weak`, each (n, …).
    """
    u = torch.rand(8, n, generator=generator)
    if crop == "pad":
        reach = int(PAD * side)
        draws = {"flip": (u[0] < 0.5 * flip).int(), "shift": (u[1:3].T * (2 * reach + 1)).int() - reach}
    else:
        draws = draw_windows(u, scale, flip=flip)
    if jitter:
        draws["jitter"] = (1 - jitter + 2 * jitter * u[5:8]).T.contiguous()
    return draws


def apply_weak(images: Tensor, draws: dict[str, Tensor], side: int | None = None) -> Tensor:
    """Weak views (B,3,side,side) uint8 of images (B,3,S,S) uint8: crop, flip and jitter with the draws of `draw_weak`.

    `side` (None: S) is that of the network's input. Views are cut from larger images straight to it, so that a small
    window keeps the detail it has there.
    """
    if "window" in draws:
        views = resized(images, draws, side)
    else:
        views = shifted(images, draws)
        if side not in (None, images.shape[-1]):
            shrunk = F.interpolate(views.float(), (side, side), mode="bilinear", antialias=True)
            views = (shrunk + 0.5).to(torch.uint8)
    if "jitter" in draws:
        for name, factor in zip(JITTER, draws["jitter"].unbind(1)):
            views = OPS[name](views, factor)
    return views


def shifted(images: Tensor, draws: dict[str, Tensor]) -> Tensor:
    """Images moved by draws["shift"] (B, 2) rows and columns; reflected at the edges, the edge itself not repeated."""
    last = images.shape[-1] - 1
    i, j = columns(draws, last + 1)
    y, x = (last - (last - (k + d[:, None]).abs()).abs() for k, d in zip((i, j), draws["shift"].unbind(1)))
    source = (y[:, :, None] * (last + 1) + x[:, None, :]).flatten(1).long()
    return images.flatten(2).gather(2, source[:, None].expand(-1, 3, -1)).view_as(images)
