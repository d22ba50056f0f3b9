"""The embedding loop: pictures become features. Everything that embeds goes through `embed_batches`.

torch is imported where it is used: a network of the cache (`networks.load_for_files`) embeds files without it, as
loading torch takes longer than many pictures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.prototype_model import Array, as_numpy
from protoadapt.core.threads import ahead
from protoadapt.vision.feature_store import Store, stamp
from protoadapt.vision.networks.onnx_engine import OnnxEngine
from protoadapt.vision.pictures.decode import decode_bytes
from protoadapt.vision.pictures.formats import quiet_pillow, reason
from protoadapt.vision.pictures.read import read_file

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

K = TypeVar("K")
FORWARD = 16
"""Pictures per forward pass of torch on a CPU: with more, memory is allocated and freed faster than it is used."""
CPU_BATCH, GPU_BATCH = 8, 128
"""Files per batch: for each thread of a CPU, as small batches fit into the caches and reuse memory (a fifth faster than
64), and on a GPU."""
IN_FLIGHT = 3
"""Batches that a GPU has and is not done with, at most: it has work while this process does something else."""
_AHEAD = 64
"""Decoded pictures that wait for the network, at most; on a GPU three batches."""


def embed_batches(
    network: OnnxEngine | nn.Module,
    metadata: Mapping[str, Any],
    batches: Iterable[tuple[K, Any]],
    *,
    views: int = 1,
    pooling: float = 1.0,
    maps: bool = False,
) -> Iterator[tuple[K, Any]]:
    """Embeds batches of pictures, one after the other: the one loop under all others.

    View 1 is the picture, view 2 its mirror image, and each further view is a window of at least 35 % of its area that
    depends on the number of the view alone. So a picture has the same features in every batch and every command.

    Parameters
    ----------
    network, metadata : as `networks.load` returns them, or `networks.load_for_files` for one view.
    batches : pairs of anything (such as the names of the pictures) and pixels (n, 3, H, W) uint8.
    views : how many views of each picture are averaged.
    pooling : exponent of the mean over all positions (`networks.backbones.generalised_mean`).
    maps : the features of all positions instead of their mean, D · H · W per picture.

    Yields
    ------
    Pairs of what came with the batch and its features, (n, D) float32 on the CPU: a tensor; of an OnnxEngine an array.

    Examples
    --------
    >>> ((names, rows),) = embed_batches(network, metadata, [(["a.jpg"], pixels)])    # doctest: +SKIP
    """
    if isinstance(network, OnnxEngine):
        return ((key, network.features(pixels)) for key, pixels in batches)
    check_pooling(network, pooling, maps)
    forward: Callable[[Tensor], Tensor] = network if pooling == 1 else partial(network, pooling=pooling)
    if maps:
        forward = lambda x: network.maps_from(x, 0).flatten(1)  # type: ignore[operator]  # noqa: E731
    launched = _launched(network, forward, metadata, batches, views)
    if (device := device_of(network)).type != "cuda":
        return launched
    import torch

    def awaited(batch: tuple[K, Tensor, torch.cuda.Event]) -> tuple[K, Tensor]:
        key, rows, done = batch
        done.synchronize()
        return key, rows

    events = ((key, rows, torch.cuda.current_stream(device).record_event()) for key, rows in launched)
    return ahead(awaited, events, IN_FLIGHT, 1)


def _launched(
    network: nn.Module,
    forward: Callable[[Tensor], Tensor],
    metadata: Mapping[str, Any],
    batches: Iterable[Any],
    views: int,
) -> Iterator[tuple[Any, Tensor]]:
    """Features of each batch; from a GPU they may still be under way."""
    import torch

    from protoadapt.vision.networks.engines import OnnxNetwork, engine_threads

    device = device_of(network)
    mean, std = (255 * torch.tensor(metadata[key], device=device).view(3, 1, 1) for key in ("mean", "std"))
    threads = engine_threads(network)
    for key, pixels in batches:
        with torch.inference_mode():
            images = pixels if isinstance(pixels, torch.Tensor) else torch.from_numpy(np.array(pixels))
            if device.type == "cuda":  # its own copier reads pinned memory while this process goes on
                images = images.pin_memory()
            images = images.to(device, non_blocking=True)
            total = torch.zeros((), device=device)
            for number in range(views):
                x = view(images, number)
                if not isinstance(network, OnnxNetwork):  # which normalises by itself
                    x = (x - mean) / std
                if not threads:
                    x = x.contiguous(memory_format=torch.channels_last)
                step = FORWARD if device.type == "cpu" and not threads else len(x)
                total = total + torch.cat([forward(part).float() for part in x.split(step)])
            rows = (total / views).to("cpu", non_blocking=device.type == "cuda")
        yield key, rows


def view(images: Tensor, number: int) -> Tensor:
    """View `number` (from 0) of pictures (B, 3, H, W) uint8: themselves, mirrored, or the same window of each."""
    import torch

    from protoadapt.vision.windows import draw_windows, resized

    if number < 2:
        return images.flip(-1) if number else images
    draws = draw_windows(torch.rand(8, 1, generator=torch.Generator().manual_seed(number)))
    draws = {key: drawn.to(images.device).expand(len(images), *drawn.shape[1:]) for key, drawn in draws.items()}
    return resized(images, draws)


def embed(
    network: nn.Module,
    metadata: Mapping[str, Any],
    pixels: np.ndarray,
    views: int = 1,
    on_progress: Callable[[int], None] = lambda done: None,
    batch: int = 256,
    pooling: float = 1.0,
    maps: bool = False,
) -> Tensor:
    """Embeds pictures in an array (N, 3, H, W) uint8, a memory-map for one, to features (N, D) float32 on the CPU.

    `batch` pictures are on the network's device at once; `on_progress` is called with the views embedded, of N × views.
    `views`, `pooling` and `maps` as in `embed_batches`; maps, which take H · W times the memory, are float16.

    >>> embed(network, metadata, pixels).shape                                        # doctest: +SKIP
    torch.Size([100, 512])
    """
    import torch

    rows = []
    batches = ((start, pixels[start : start + batch]) for start in range(0, len(pixels), batch))
    for start, part in embed_batches(network, metadata, batches, views=views, pooling=pooling, maps=maps):
        rows.append(to_half(part) if maps else part)
        on_progress(views * (start + len(part)))
    return torch.cat(rows)


def embed_files(
    files: Sequence[str],
    network: OnnxEngine | nn.Module,
    metadata: Mapping[str, Any],
    store: Store,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    views: int = 1,
) -> tuple[list[bytes | None], dict[int, str]]:
    """Embeds picture files into a feature store; threads read and decode while the network computes.

    A content that the store holds is not computed again, and a file that has not changed is not even read. Returns the
    sha256 of each file (None where it cannot be read), and the reasons by the position of the file.

    >>> contents, errors = embed_files(["a.jpg"], network, metadata, store)           # doctest: +SKIP
    >>> store.rows(contents).shape                                                    # doctest: +SKIP
    (1, 1280)
    """
    contents = [_remembered(file, store) for file in files]
    errors: dict[int, str] = {}
    batches = _decoded(files, contents, errors, metadata, store, batch_size(network), on_progress)
    try:
        with quiet_pillow():
            for keys, rows in embed_batches(network, metadata, batches, views=views):
                store.add(keys, as_numpy(check_rows(rows)))
    finally:
        store.flush()
    on_progress(len(files), len(files))
    return contents, errors


def _decoded(
    files: Sequence[str],
    contents: list[bytes | None],
    errors: dict[int, str],
    metadata: Mapping[str, Any],
    store: Store,
    size: int,
    on_progress: Callable[[int, int], None],
) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Batches of contents that the store lacks, with their pixels; fills in `contents` and `errors` on the way."""

    def read(place: int) -> tuple[bytes, bytes, np.ndarray | None] | str:
        """The stamp and the content of a file and, where the store lacks it, pixels; or why it cannot be read."""
        try:
            before = stamp(files[place])
            content = read_file(files[place])
            digest = hashlib.sha256(content).digest()
            pixels = None if digest in store else decode_bytes(content, metadata["size"], metadata.get("resize"))
            return before, digest, pixels
        except Exception as error:  # a broken file may fail in any way
            return reason(error, files[place])

    todo = [place for place, content in enumerate(contents) if content is None]
    batch: dict[bytes, np.ndarray] = {}
    for done, (place, answer) in enumerate(zip(todo, ahead(read, todo, max(_AHEAD, 3 * size)))):
        if done % size == 0:
            on_progress(len(files) - len(todo) + done, len(files))
        if isinstance(answer, str):
            errors[place] = answer
            continue
        before, digest, pixels = answer
        contents[place] = digest
        store.note(before, digest)
        if pixels is not None and digest not in store:
            batch[digest] = pixels
        if len(batch) == size:
            yield list(batch), np.stack(list(batch.values()))
            batch = {}
    if batch:
        yield list(batch), np.stack(list(batch.values()))


def _remembered(file: str, store: Store) -> bytes | None:
    """The content of a file that has not changed since its features were stored."""
    try:
        content = store.content_of.get(stamp(file))
    except OSError:
        return None
    return content if content is not None and content in store else None


def device_of(network: nn.Module) -> torch.device:
    """Where a network computes. An ONNX file has no parameters, computes on the CPU and takes any input."""
    import torch

    return next(network.parameters(), torch.empty(0)).device


def batch_size(network: OnnxEngine | nn.Module) -> int:
    """Files per batch for the device of this network: threads that share a batch seldom wait for its last picture."""
    if isinstance(network, OnnxEngine):
        return CPU_BATCH * max(1, network.threads)
    from protoadapt.vision.networks.engines import engine_threads

    return GPU_BATCH if device_of(network).type != "cpu" else CPU_BATCH * max(1, engine_threads(network))


def check_rows(rows: Array) -> Array:
    """The same rows. Raises UserError where they are not finite."""
    if not np.isfinite(as_numpy(rows)).all():
        raise UserError("the network gives NaN or infinite features: its weights are damaged, download it again")
    return rows


def check_pooling(network: nn.Module, exponent: float, maps: bool = False) -> None:
    """Raises UserError unless this network can pool with this exponent, and give the features of places if asked."""
    from protoadapt.vision.networks.backbones import Staged
    from protoadapt.vision.networks.engines import OnnxPooled

    if not 1 <= exponent <= 8:
        raise UserError(
            f"pooling is {exponent:g}: give 1 for the mean over all positions, up to 8 to favour strong ones"
        )
    if (maps or exponent != 1) and (isinstance(network, OnnxPooled) or not isinstance(network, Staged)):
        raise UserError(
            "this network pools its features itself: leave pooling at 1 and leave out --maps, or use one of "
            "protoadapt's own"
        )


def to_half(rows: Tensor) -> Tensor:
    """(n, D) as float16. Features that it cannot hold are an error, not infinite."""
    import torch

    answer = rows.half()
    if not torch.isfinite(answer).all():
        check_rows(rows)
        raise UserError(f"the network gives features up to {rows.abs().max():.3g}, too large for float16: scale them")
    return answer
