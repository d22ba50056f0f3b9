"""Windows of a picture, enlarged to its side: what training crops and what `--views` averages over."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def draw_windows(
    u: Tensor, scale: tuple[float, float] = (0.35, 1.0), ratio: tuple[float, float] = (3 / 4, 4 / 3), flip: bool = True
) -> dict[str, Tensor]:
    """One window per picture, of `scale` of its area and `ratio` of width to height, from uniform u (5 or more, n)."""
    area = scale[0] + (scale[1] - scale[0]) * u[1]
    # A window no larger than the picture has area ≤ ratio ≤ 1/area: drawn within that, none need be rejected.
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
    """draws["window"] (B, 4): top, left, height, width as parts of the side. A window is never larger than the picture,
    so it is only ever enlarged and needs no antialiasing; beyond the edge the edge is repeated."""
    side = images.shape[-1]
    i, j = columns(draws, side)
    top, left, height, width = (w[:, None] for w in draws["window"].unbind(1))
    y, x = 2 * (top + (i + 0.5) / side * height) - 1, 2 * (left + (j + 0.5) / side * width) - 1
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), -1)
    views = F.grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return (views + 0.5).to(torch.uint8)
