"""DropBlock (Ghiasi et al. 2018): dropout for hidden features, whose neighbours would tell what single zeros hide."""

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad


def drop_blocks(h: Tensor, share: float, generator: torch.Generator, side: int = 5) -> Tensor:
    """h (B, C, H, W) with squares of `side` places set to 0, in every channel others, and the rest scaled up so that
    the mean stays. A corner is drawn with probability γ, such that about `share` of all places is hit:

        γ · side² · (H − side + 1)(W − side + 1) = share · H · W

    On maps no larger than a square (ResNet-12's last at 84 pixels) whole channels go. `generator` is on h's device.
    """
    side = min(side, *h.shape[2:])
    free = [n - side + 1 for n in h.shape[2:]]
    gamma = share * h.shape[2] * h.shape[3] / (side * side * free[0] * free[1])
    corners = torch.rand((*h.shape[:2], *free), generator=generator, device=h.device) < gamma
    hit = max_pool2d(pad(corners.to(h.dtype), [side - 1] * 4), side, stride=1)
    kept = 1 - hit
    return h * kept * (kept.numel() / kept.sum(dtype=torch.float32).clamp_min(1)).to(h.dtype)
