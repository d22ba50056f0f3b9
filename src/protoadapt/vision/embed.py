"""Pictures → features (N, D): one loop over batches and views."""

import csv
import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError
from protoadapt.core.features import Features
from protoadapt.core.files import written_whole
from protoadapt.vision.networks.staged import Staged
from protoadapt.vision.pictures.images import Images
from protoadapt.vision.windows import draw_windows, resized

SMALL = 16
"""Pictures a forward pass on the CPU: with more, memory is asked for and given back faster than it is used."""


def extract(
    backbone: nn.Module,
    about: Mapping[str, Any],
    images: Images,
    base: Images | None = None,
    *,
    views: int = 1,
    pooling: float = 1.0,
    half: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Features:
    """Features of `images`, and the mean of those of `base`. `about` as `models.load` gives it."""
    if views < 1:
        raise UserError(f"views is {views}: at least one is needed")
    rows = check_rows(embed(backbone, about, images.pixels, views, on_progress, pooling=pooling), pooling)
    mean = None
    if base is not None:
        done = len(images) * views
        others = embed(backbone, about, base.pixels, views, lambda n: on_progress(done + n), pooling=pooling)
        mean = check_rows(others, pooling).mean(0)
    told = {key: about.get(key) for key in ("backbone", "width", "weights", "size", "mean", "std")}
    told |= {"trained_on": about.get("dataset"), "dataset": images.name, "split": images.split, "crop": images.crop}
    told |= {
        "views": views,
        "pooling": pooling,
        "rectified": bool((rows >= 0).all()),
        "class_names": list(images.class_names),
    }
    if images.name == "folder":  # one's own: what its folder is called, in text whatever its bytes are
        told["folder"] = os.fsencode(images.root.resolve().name).decode("utf-8", "replace")
    rows = to_half(rows, "store them without --half") if half else rows
    return Features(rows, torch.from_numpy(np.array(images.labels)).long(), mean, told)


@torch.inference_mode()
def embed(
    backbone: nn.Module,
    about: Mapping[str, Any],
    pixels: np.ndarray,
    views: int = 1,
    on_progress: Callable[[int], None] = lambda done: None,
    batch: int = 256,
    pooling: float = 1.0,
) -> Tensor:
    """(N, D) on the CPU: the mean feature of each picture's views. pixels (N, 3, H, H) uint8.

    View 1 is the picture, view 2 its mirror image, further ones are random windows of at least 35 % of its area. Each
    picture is embedded alone: its windows depend on its row number and, in the last batch, on how many rows that has,
    never on other pictures.
    `pooling` is the exponent of the mean over all places (`backbones.staged.generalised_mean`).
    """
    check_pooling(backbone, pooling)
    network = backbone if pooling == 1 else partial(backbone, pooling=pooling)
    device = next(backbone.parameters(), torch.empty(0)).device  # an ONNX file has none and takes any
    step = SMALL if device.type == "cpu" else batch
    mean, std = (255 * torch.tensor(about[key], device=device).view(3, 1, 1) for key in ("mean", "std"))
    out = []
    for start in range(0, len(pixels), batch):
        images = torch.from_numpy(np.array(pixels[start : start + batch])).to(device)
        total = torch.zeros((), device=device)
        for view in range(views):
            seen = images if view == 0 else images.flip(-1) if view == 1 else _window(images, start, view)
            x = ((seen - mean) / std).contiguous(memory_format=torch.channels_last)
            total = total + torch.cat([network(part).float() for part in x.split(step)])
            on_progress(views * start + (view + 1) * len(images))
        out.append((total / views).cpu())
    return torch.cat(out)


def check_pooling(backbone: nn.Module, exponent: float) -> None:
    if not 1 <= exponent <= 8:
        raise UserError(f"pooling is {exponent:g}: give 1 for the mean over all places, up to 8 to favour strong ones")
    if exponent != 1 and not isinstance(backbone, Staged):
        raise UserError("this network pools its features itself: leave pooling at 1, or take one of protoadapt's own")


def check_rows(rows: Tensor, pooling: float = 1.0) -> Tensor:
    """The same rows, if they are finite."""
    if torch.isinf(rows).any() and pooling != 1 and not torch.isnan(rows).any():
        raise UserError(f"the features overflow when they are raised to the power {pooling:g}: lower pooling")
    if not torch.isfinite(rows).all():
        raise UserError("the network gives NaN or infinite features: its weights are damaged, get the model again")
    return rows


def to_half(rows: Tensor, way_out: str = "scale them") -> Tensor:
    """(n, D) float16. Features that it cannot hold are an error, not infinite."""
    answer = check_rows(rows).half()
    if not torch.isfinite(answer).all():
        raise UserError(f"the network gives features up to {rows.abs().max():.3g}, too large for float16: {way_out}")
    return answer


def _window(images: Tensor, start: int, view: int) -> Tensor:
    generator = torch.Generator().manual_seed(start * 1009 + view)
    draws = draw_windows(torch.rand(8, len(images), generator=generator))
    return resized(images, {name: drawn.to(images.device) for name, drawn in draws.items()})


def save_index(path: str | Path, images: Images) -> None:
    """Beside a feature file: which picture each row is. sha256 is of the decoded pixels, whatever the layout."""
    # Names are bytes on some systems: what is no text is written as those bytes again.
    with written_whole(path) as partial, open(partial, "w", newline="", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "sha256", "label", "class"])
        for name, row, label in zip(images.paths, images.pixels, images.labels):
            writer.writerow([name, hashlib.sha256(row.tobytes()).hexdigest(), label, images.class_names[label]])
