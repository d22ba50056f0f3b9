"""Weak views: a random crop and a flip, one draw an image.

The random numbers are drawn (`draw_weak`, on the CPU) apart from the work (`apply_weak`, pure tensor code for any
device and for torch.compile). Views are uint8 as the images are: a quarter of float's memory traffic, and the cast is
free in the training module's normalisation.
"""

import torch
from torch import Tensor

from protoadapt.core.errors import UserError, unknown
from protoadapt.training.augment.ops import OPS, check
from protoadapt.vision.windows import columns, draw_windows, resized

CROPS = ("pad", "resized")
JITTER = ("brightness", "contrast", "color")  # the order in which they are applied


def weak(images: Tensor, generator: torch.Generator, **options) -> Tensor:
    """Weak views (B,3,S,S) uint8 of images (B,3,S,S) uint8; options as in `draw_weak`."""
    return apply_weak(images, draw_weak(len(images), check(images), generator, images.device, **options))


def draw_weak(
    n: int,
    side: int,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
    *,
    crop: str = "pad",
    pad: float = 1 / 8,
    scale: tuple[float, float] = (0.35, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    jitter: float = 0.0,
    flip: bool = True,
) -> dict[str, Tensor]:
    """What `apply_weak` does to each of n images, drawn with a CPU generator and sent to the device in one copy.

    crop "pad": mirror `pad` of the side beyond each edge, cut the side out again anywhere (as FixMatch; our paper
    says only that it crops).
    crop "resized": cut out a window of `scale` of the area and `ratio` of width to height, enlarge it bilinearly.
    jitter: brightness, contrast and saturation change, in this order, by factors uniform in 1 ± jitter.
    """
    if crop not in CROPS:
        raise unknown("crop", crop, CROPS)
    if not 0 <= pad < 1:
        raise UserError(f"the padding is a part of the side in [0, 1), not {pad}: the default is 1/8")
    if not 0 < scale[0] <= scale[1] <= 1:
        raise UserError(f"the crop's share of the area must be two growing numbers in (0, 1], not {scale}")
    if not 0 < ratio[0] <= 1 <= ratio[1]:
        raise UserError(f"the crop's ratio of sides must be a range around 1, not {ratio}: the default is (3/4, 4/3)")
    if not 0 <= jitter <= 1:
        raise UserError(f"the colour jitter must lie in [0, 1], not {jitter}: 0 is none, 0.4 is usual")
    u = torch.rand(8, n, generator=generator)
    if crop == "pad":
        reach = int(pad * side)
        draws = {
            "flip": (u[0] < 0.5 * flip).int(),
            "shift": (u[1:3].T * (2 * reach + 1)).int() - reach,
        }
    else:
        draws = draw_windows(u, scale, ratio, flip)
    if jitter:
        draws["jitter"] = (1 - jitter + 2 * jitter * u[5:8]).T.contiguous()
    return send(draws, device)


def apply_weak(images: Tensor, draws: dict[str, Tensor]) -> Tensor:
    """Weak views (B,3,S,S) uint8: crop, flip, jitter, as drawn."""
    check(images)
    views = shifted(images, draws) if "shift" in draws else resized(images, draws)
    if "jitter" in draws:
        for name, factor in zip(JITTER, draws["jitter"].unbind(1)):
            views = OPS[name](views, factor)
    return views


def shifted(images: Tensor, draws: dict[str, Tensor]) -> Tensor:
    """draws["shift"] (B, 2): rows and columns to move by; beyond its edge the picture is mirrored, edge not twice."""
    last = images.shape[-1] - 1
    i, j = columns(draws, last + 1)
    y, x = (last - (last - (k + d[:, None]).abs()).abs() for k, d in zip((i, j), draws["shift"].unbind(1)))
    source = (y[:, :, None] * (last + 1) + x[:, None, :]).flatten(1).long()
    return images.flatten(2).gather(2, source[:, None].expand(-1, 3, -1)).view_as(images)


def send(draws: dict[str, Tensor], device: torch.device | str) -> dict[str, Tensor]:
    """Draws on a device by one asynchronous copy: each is 4 bytes wide, so they travel end to end as int32."""
    if torch.device(device).type == "cpu":
        return draws
    flat = torch.cat([d.flatten().view(torch.int32) for d in draws.values()])
    if torch.device(device).type == "cuda":
        flat = flat.pin_memory()
    parts = flat.to(device, non_blocking=True).split([d.numel() for d in draws.values()])
    return {name: part.view(d.dtype).view(d.shape) for (name, d), part in zip(draws.items(), parts)}
