"""DropBlock (Ghiasi et al. 2018): dropout of squares, as the neighbours of a single zero would reveal it."""

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad


def drop_blocks(h: Tensor, share: float, generator: torch.Generator, side: int = 5) -> Tensor:
    """Set squares of `side` positions of h (B, C, H, W) to 0, others in every channel, and scale the rest to keep the
    mean. A corner is drawn with probability γ, such that about `share` of all positions is hit:

        γ · side² · (H − side + 1)(W − side + 1) = share · H · W

    On maps no larger than a square (ResNet-12's last at 84 pixels) whole channels are dropped. `generator` must be on
    the device of h.
    """
    side = min(side, *h.shape[2:])
    free = [n - side + 1 for n in h.shape[2:]]
    gamma = share * h.shape[2] * h.shape[3] / (side * side * free[0] * free[1])
    corners = torch.rand((*h.shape[:2], *free), generator=generator, device=h.device) < gamma
    hit = max_pool2d(pad(corners.to(h.dtype), [side - 1] * 4), side, stride=1)
    kept = 1 - hit
    return h * kept * (kept.numel() / kept.sum(dtype=torch.float32).clamp_min(1)).to(h.dtype)
