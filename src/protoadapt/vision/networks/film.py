"""Networks conditioned on a task: (1 + γ) h + β after every BatchNorm but the shortcuts' (FiLM, Perez et al. 2018).

γ and β are given per channel and episode."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.heads.head import Film
from protoadapt.vision.networks.backbones import Staged, generalised_mean


def layers(backbone: Staged) -> list[nn.BatchNorm2d]:
    """The layers that are conditioned, in order."""
    named = backbone.named_modules()
    return [part for name, part in named if isinstance(part, nn.BatchNorm2d) and "shortcut" not in name]


def conditioned(backbone: Staged, images: Tensor, films: Sequence[Film]) -> Tensor:
    """Features (B, D) of normalised images (B, 3, H, W), which are those of E episodes, one after the other.

    films: γ and β (E, C) of each of `layers`.
    """
    with ExitStack() as hooks:
        for layer, (gamma, beta) in zip(layers(backbone), films, strict=True):
            hooks.callback(layer.register_forward_hook(partial(_modulate, gamma, beta)).remove)
        for stage in backbone.stages:
            images = stage.forward(images)  # not its compiled form, which was traced without the hooks
    return generalised_mean(images, 1.0)


def _modulate(gamma: Tensor, beta: Tensor, module: nn.Module, inputs: Any, h: Tensor) -> Tensor:
    """A hook: (1 + γ) h + β of the output h of a layer."""
    scale, shift = (part.repeat_interleave(len(h) // len(part), 0)[..., None, None] for part in (gamma, beta))
    return (1 + scale) * h + shift


def embedder(
    backbone: Staged, normalise: Callable[[Tensor], Tensor], pixels: Any
) -> Callable[[Tensor, list[Film] | None], Tensor]:
    """The `embed` of `heads.as_method`, for pixels (N, 3, H, H) uint8 and what the network takes of them.

    One episode at a time, so that memory does not grow with their number.
    """
    device = next(backbone.parameters()).device

    def embed(numbers: Tensor, films: list[Film] | None) -> Tensor:
        found = []
        for e, each in enumerate(numbers.cpu().numpy()):
            images = normalise(torch.from_numpy(np.array(pixels[each])).to(device))
            one = None if films is None else [(gamma[e : e + 1], beta[e : e + 1]) for gamma, beta in films]
            found.append(backbone(images) if one is None else conditioned(backbone, images, one))
        return torch.stack(found)

    return embed
