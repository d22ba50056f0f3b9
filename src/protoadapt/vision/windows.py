"""Windows of a picture, brought to the network's input: training's random crops, and the views of `--views`."""

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


def resized(images: Tensor, draws: dict[str, Tensor], side: int | None = None) -> Tensor:
    """Bring the window of each picture (B, 3, S, S) uint8 to `side` × `side` pixels (None: S × S).

    `draws` as `draw_windows` returns them; their first axis is B, or 1 for the same window of all pictures. A window is
    never larger than the picture, so bringing it to S × S needs no antialiasing; beyond the edge the edge is repeated.
    """
    stored = images.shape[-1]
    side = stored if side is None else side
    i, j = columns(draws, side)
    top, left, height, width = (w[:, None] for w in draws["window"].unbind(1))
    if side != stored:
        rows, across = (
            triangles(start + (k + 0.5) / side * length, length / side, stored)
            for start, length, k in ((top, height, i), (left, width, j))
        )
        views = rows[:, None] @ images.float() @ across[:, None].mT
        return (views + 0.5).to(torch.uint8)
    y = 2 * (top + (i + 0.5) / side * height) - 1
    x = 2 * (left + (j + 0.5) / side * width) - 1
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), -1)
    views = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return (views + 0.5).to(torch.uint8)


def triangles(centres: Tensor, step: Tensor, stored: int) -> Tensor:
    """Weights (B, side, stored) of pillow's bilinear filter: which stored pixels make up each pixel of the output.

    centres (B, side) and step (B, 1), the distance between them, are shares of the picture's side. A triangle reaches
    one step to either side, so that shrinking averages over the pixels it drops, and one stored pixel at least, which
    is linear interpolation. Weights beyond the picture's edge are left out and the others sum to 1.
    """
    pixels = torch.arange(stored, device=centres.device) + 0.5
    reach = (step * stored).clamp_min(1)[..., None]
    weights = (1 - (pixels - stored * centres[..., None]).abs() / reach).clamp_min(0)
    return weights / weights.sum(-1, keepdim=True)
