"""Windows of a picture, enlarged to its size: the random crops of training, and the views that `--views` averages."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def draw_windows(
    u: Tensor, scale: tuple[float, float] = (0.35, 1.0), ratio: tuple[float, float] = (3 / 4, 4 / 3), flip: bool = True
) -> dict[str, Tensor]:
    """Turn uniform numbers u (5 or more, n) into one window per picture (Szegedy et al. 2015).

    `scale` bounds its share of the picture's area, `ratio` its width to height. Returns "flip" (n) of 0 or 1, and
    "window" (n, 4): top, left, height and width as shares of the side.
    """
    area = scale[0] + (scale[1] - scale[0]) * u[1]
    # A window no larger than the picture has area ≤ ratio ≤ 1/area: drawn within these bounds, none is rejected.
    low = area.log().clamp_min(math.log(ratio[0]))
    high = (-area.log()).clamp_max(math.log(ratio[1]))
    root = ((low + (high - low) * u[2]) / 2).exp()
    size = (area.sqrt()[:, None] * torch.stack([1 / root, root], 1)).clamp_max(1)
    return {"flip": (u[0] < 0.5 * flip).int(), "window": torch.cat([(1 - size) * u[3:5].T, size], 1)}


def columns(draws: dict[str, Tensor], side: int) -> tuple[Tensor, Tensor]:
    """Output row numbers (S,) and column numbers (B, S), the latter from right to left in flipped images."""
    i = torch.arange(side, dtype=torch.int32, device=draws["flip"].device)
    return i, torch.where(draws["flip"][:, None] > 0, side - 1 - i, i)


def resized(images: Tensor, draws: dict[str, Tensor]) -> Tensor:
    """Enlarge the window of each picture (B, 3, S, S) uint8 to S × S; `draws` as `draw_windows` returns them.

    A window is never larger than the picture, so it needs no antialiasing; beyond the edge the edge is repeated.
    """
    side = images.shape[-1]
    i, j = columns(draws, side)
    top, left, height, width = (w[:, None] for w in draws["window"].unbind(1))
    y, x = 2 * (top + (i + 0.5) / side * height) - 1, 2 * (left + (j + 0.5) / side * width) - 1
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), -1)
    views = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return (views + 0.5).to(torch.uint8)
