"""The embedding loop: pictures become features. Everything that embeds goes through `embed_batches`."""

import csv
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.features import Features, base_statistics
from protoadapt.core.files import written_whole
from protoadapt.vision.file_embedding import check_rows as check_rows
from protoadapt.vision.file_embedding import cpu_batch
from protoadapt.vision.file_embedding import embed_files as embed_files
from protoadapt.vision.network_metadata import MOST_VIEWS
from protoadapt.vision.networks.engines import OnnxNetwork, engine_threads
from protoadapt.vision.networks.staged import Staged
from protoadapt.vision.pictures.split import Images
from protoadapt.vision.windows import draw_windows, resized

K = TypeVar("K")
FORWARD = 16
"""Pictures per forward pass on a CPU: with more, memory is allocated and freed faster than it is used."""
GPU_BATCH = 128
"""Files per batch on a GPU."""
IN_FLIGHT = 3
"""Batches that a GPU has and is not done with, at most: it has work while this process does something else."""


def embed_batches(
    network: nn.Module,
    metadata: Mapping[str, Any],
    batches: Iterable[tuple[K, np.ndarray | Tensor] | tuple[K, np.ndarray, np.ndarray]],
    *,
    views: int = 1,
    pooling: float = 1.0,
    maps: bool = False,
) -> Iterator[tuple[K, Tensor]]:
    """Embed batches of pictures, one after the other: the one loop under all others.

    View 1 is the picture, view 2 its mirror image, and each further view is a window of at least 35 % of its area that
    depends on the number of the view alone. So a picture has the same features in every batch and every command.

    Parameters
    ----------
    network, metadata : as `networks.load` returns them.
    batches : pairs of anything (such as the names of the pictures) and pixels (n, 3, H, W) uint8; a third array, the
        same pictures with larger sides, is what windows are cut from. Pixels in pinned memory are read by a GPU itself,
        and must stay until IN_FLIGHT more batches were asked for.
    views : how many views of each picture are averaged.
    pooling : exponent of the mean over all positions (`networks.staged.generalised_mean`).
    maps : the features of all positions instead of their mean, D · H · W per picture.

    Yields
    ------
    Pairs of what came with the batch and its features, (n, D) float32 on the CPU.
    """
    check_pooling(network, pooling)
    forward = network if pooling == 1 else partial(network, pooling=pooling)
    if maps:
        forward = partial(_all_places, network)
    device = device_of(network)
    launched = _launched(network, forward, metadata, batches, views, device)
    return _finished(launched, device) if device.type == "cuda" else launched


def _launched(
    network: nn.Module,
    forward: Callable[[Tensor], Tensor],
    metadata: Mapping[str, Any],
    batches: Iterable[Any],
    views: int,
    device: torch.device,
) -> Iterator[tuple[Any, Tensor]]:
    """Features of each batch; from a GPU they may still be under way."""
    mean, std = (255 * torch.tensor(metadata[key], device=device).view(3, 1, 1) for key in ("mean", "std"))
    for key, pixels, *wide in batches:
        with torch.inference_mode():
            images, *wider = (_to_device(part, device) for part in (pixels, *wide))
            total = torch.zeros((), device=device)
            for number in range(views):
                x = view(images, number, *wider)
                if not isinstance(network, OnnxNetwork):  # which normalises by itself
                    x = (x - mean) / std
                if engine_threads(network):
                    parts = [x]
                else:
                    x = x.contiguous(memory_format=torch.channels_last)
                    parts = x.split(FORWARD if device.type == "cpu" else len(x))
                total = total + torch.cat([forward(part).float() for part in parts])
            rows = (total / views).to("cpu", non_blocking=device.type == "cuda")
        yield key, rows


def _to_device(pixels: np.ndarray | Tensor, device: torch.device) -> Tensor:
    """A copy of uint8 pixels. To a GPU it goes through memory that its own copier reads while this process goes on."""
    if device.type != "cuda":
        return (pixels.clone() if isinstance(pixels, Tensor) else torch.from_numpy(np.array(pixels))).to(device)
    if isinstance(pixels, Tensor) and pixels.is_pinned():
        return pixels.to(device, non_blocking=True)
    pinned = torch.empty(pixels.shape, dtype=torch.uint8, pin_memory=True)
    pinned.numpy()[...] = pixels
    return pinned.to(device, non_blocking=True)


def _finished(launched: Iterator[tuple[K, Tensor]], device: torch.device) -> Iterator[tuple[K, Tensor]]:
    """The same batches, each when a GPU is done with it. Others are launched before, so that the GPU never waits."""
    waiting: deque[tuple[K, Tensor, torch.cuda.Event]] = deque()
    for key, rows in launched:
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(device))
        waiting.append((key, rows, done))
        if len(waiting) > IN_FLIGHT:
            yield _waited(*waiting.popleft())
    while waiting:
        yield _waited(*waiting.popleft())


def _waited(key: K, rows: Tensor, done: torch.cuda.Event) -> tuple[K, Tensor]:
    done.synchronize()
    return key, rows


def _all_places(network: nn.Module, x: Tensor) -> Tensor:
    return network.maps_from(x, 0).flatten(1)  # type: ignore[operator]


def view(images: Tensor, number: int, wide: Tensor | None = None) -> Tensor:
    """View `number` (from 0) of pictures (B, 3, H, W) uint8: themselves, mirrored, or the same window of each.

    Windows are cut from `wide`, the same pictures with larger sides, where it is given.
    """
    if number < 2:
        return images.flip(-1) if number else images
    draws = draw_windows(torch.rand(8, 1, generator=torch.Generator().manual_seed(number)))
    n, device = len(images), images.device
    draws = {key: drawn.to(device).expand(n, *drawn.shape[1:]) for key, drawn in draws.items()}
    return resized(images if wide is None else wide, draws, images.shape[-1])


def embed(
    network: nn.Module,
    metadata: Mapping[str, Any],
    pixels: np.ndarray,
    views: int = 1,
    on_progress: Callable[[int], None] = lambda done: None,
    batch: int = 256,
    pooling: float = 1.0,
    wide: np.ndarray | None = None,
) -> Tensor:
    """Embed pictures in an array (N, 3, H, W) uint8, a memory-map for one, to features (N, D) float32 on the CPU.

    `batch` pictures are on the network's device at once; `on_progress` is called with the views embedded, of N × views.
    `wide`: the same pictures with larger sides, from which windows are cut; None: from the pictures themselves.
    """
    rows = []
    batches = _batches(pixels, wide if views > 2 else None, batch)
    for start, part in embed_batches(network, metadata, batches, views=views, pooling=pooling):
        rows.append(part)
        on_progress(views * (start + len(part)))
    return torch.cat(rows)


def _batches(pixels: np.ndarray, wide: np.ndarray | None, batch: int) -> Any:
    """(first row, pictures, and the same with larger sides where given) of each batch."""
    arrays = [pixels] if wide is None else [pixels, wide]
    return ((start, *(part[start : start + batch] for part in arrays)) for start in range(0, len(pixels), batch))


def extract(
    network: nn.Module,
    metadata: Mapping[str, Any],
    images: Images,
    base: Images | None = None,
    *,
    views: int = 1,
    pooling: float = 1.0,
    half: bool = False,
    maps: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Features:
    """Embed one split of a dataset into a feature table, with metadata about the network and the pictures.

    `base`, the base classes, adds the means and the covariance that some methods use; `half` stores float16; `maps`
    adds the features of every place, float16, in a second pass. `on_progress` is called with the number of views
    embedded so far, those of `base` included.
    """
    whole_number("views", views, 1, MOST_VIEWS)

    def embedded(part: Images, before: int) -> Tensor:
        counted = lambda n: on_progress(before + n)  # noqa: E731
        rows = embed(network, metadata, part.pixels, views, counted, pooling=pooling, wide=part.wide)
        return check_rows(rows, pooling)

    rows = embedded(images, 0)
    statistics: dict[str, Any] = {}
    if base is not None:
        others = embedded(base, len(images) * views)
        statistics = base_statistics(others, torch.from_numpy(np.array(base.labels)))
    table = {key: metadata.get(key) for key in ("backbone", "width", "weights", "engine", "size", "mean", "std")}
    table |= {"trained_on": metadata.get("dataset"), "dataset": images.name, "split": images.split, "crop": images.crop}
    table |= {
        "views": views,
        "pooling": pooling,
        "rectified": bool((rows >= 0).all()),
        "class_names": list(images.class_names),
    }
    if images.wide is not None:
        table["store"] = images.wide.shape[-1]
    if images.name == "folder":  # a user's own: the name of the folder, as text whatever its bytes are
        table["folder"] = os.fsencode(images.root.resolve().name).decode("utf-8", "replace")
    rows = to_half(rows, "store them without --half") if half else rows
    labels = torch.from_numpy(np.array(images.labels)).long()
    places = _maps(network, metadata, images, views) if maps else None
    return Features(rows, labels, metadata=table, maps=places, **statistics)


def _maps(network: nn.Module, metadata: Mapping[str, Any], images: Images, views: int, batch: int = 256) -> Tensor:
    """(N, D · H · W) float16: converted batch by batch, since they take H · W times the memory of features."""
    batches = _batches(images.pixels, images.wide if views > 2 else None, batch)
    parts = embed_batches(network, metadata, batches, views=views, maps=True)
    return torch.cat([to_half(rows, "they cannot be stored as maps") for _, rows in parts])


def device_of(network: nn.Module) -> torch.device:
    """Where a network computes. An ONNX file has no parameters, computes on the CPU and takes any input."""
    return next(network.parameters(), torch.empty(0)).device


def batch_size(network: nn.Module) -> int:
    """Files per batch for the device of this network."""
    return GPU_BATCH if device_of(network).type != "cpu" else cpu_batch(engine_threads(network))


def check_pooling(network: nn.Module, exponent: float) -> None:
    """Raise UserError unless this network can pool with this exponent."""
    if not 1 <= exponent <= 8:
        raise UserError(
            f"pooling is {exponent:g}: give 1 for the mean over all positions, up to 8 to favour strong ones"
        )
    if exponent != 1 and not isinstance(network, Staged):
        raise UserError("this network pools its features itself: leave pooling at 1, or use one of protoadapt's own")


def check_maps(network: nn.Module, pooling: float) -> None:
    """Raise UserError unless this network gives the features of every place."""
    if not isinstance(network, Staged):
        raise UserError("this network gives no features of single places: leave out --maps, or use one you trained")
    if pooling != 1:
        raise UserError(f"maps belong to features that are their plain mean, and pooling is {pooling:g}: leave one out")


def to_half(rows: Tensor, way_out: str = "scale them") -> Tensor:
    """(n, D) as float16. Features that it cannot hold are an error, not infinite."""
    answer = rows.half()
    if not torch.isfinite(answer).all():
        check_rows(rows)
        raise UserError(f"the network gives features up to {rows.abs().max():.3g}, too large for float16: {way_out}")
    return answer


INDEX = ["path", "sha256", "label", "class"]


def save_index(path: str | Path, images: Images) -> None:
    """Write a csv beside a feature file: path, sha256 of the decoded pixels, label and class of each row."""
    # Names are bytes on some systems: what is not text is written as those bytes again.
    with written_whole(path) as partial_file, open(partial_file, "w", newline="", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(INDEX)
        for name, row, label in zip(images.paths, images.pixels, images.labels):
            writer.writerow([name, hashlib.sha256(row.tobytes()).hexdigest(), label, images.class_names[label]])
