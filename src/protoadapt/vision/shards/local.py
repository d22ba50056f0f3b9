"""The local engine: parts on one machine, made by worker processes.

On a CPU each worker makes whole shards. On a GPU workers decode into memory that the GPU reads by itself, and the one
network embeds what is there.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch import nn

from protoadapt.core.errors import UserError, count
from protoadapt.core.threads import ahead, cores, descriptors_left
from protoadapt.vision.embed import IN_FLIGHT, embed_batches
from protoadapt.vision.shards.make import BATCH, Decoded, Job

PREFETCH = 2
"""Batches or shards that each worker may be ahead."""
_own: dict[str, Any] = {}
"""Of a worker process: its `job`, and the `slots` that it decodes into."""


def make_locally(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[int]:
    """Yields the number of each of these shards when its part is written, in order; one worker per core by default."""
    workers = min(workers or cores(), len(numbers))
    if job.device == "cpu":
        yield from _by_workers(_make, numbers, workers, job)
        return
    network = job.network()
    places = [(number, batch) for number in numbers for batch in range(job.batches(number))]
    # One stream of batches through all shards: the GPU has the next one before a shard is whole, and threads write.
    batches = embed_batches(network, job.metadata, decoded(job, places, workers), views=job.views)
    shards = ((number, list(islice(batches, job.batches(number)))) for number in numbers)
    yield from ahead(lambda shard: job.write(*shard), shards, 4, threads=2)


def decoded(job: Job, places: Sequence[tuple[int, int]], workers: int) -> Iterator[Decoded]:
    """The batches at these places (shard, batch), in order, decoded by worker processes.

    Batch i lies in slot i mod S of one block of shared memory, and nothing is copied on the way to the GPU. When batch
    i is handed out, workers may have begun with batch i + P, P = PREFETCH × workers, and the batches from i - IN_FLIGHT
    on may still be under way to the GPU (`embed_batches`). So S = P + IN_FLIGHT + 1 slots suffice.
    """
    size = job.metadata["size"]
    slots = torch.empty(PREFETCH * workers + IN_FLIGHT + 1, BATCH, 3, size, size, dtype=torch.uint8)
    slots.share_memory_()
    with _read_by_gpu(slots, job.device):
        items = [(position % len(slots), place) for position, place in enumerate(places)]
        for (slot, _), errors in zip(items, _by_workers(_decode, items, workers, job, slots)):
            yield Decoded(errors, slots[slot])


@contextmanager
def _read_by_gpu(memory: torch.Tensor, device: str) -> Iterator[None]:
    """Let a CUDA device copy from this memory by itself. Where it refuses, pixels are copied once more on the way."""
    if torch.device(device).type != "cuda":
        yield
        return
    runtime = torch.cuda.cudart()
    refused = runtime.cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)
    try:
        yield
    finally:
        torch.cuda.synchronize()
        if not int(refused):
            runtime.cudaHostUnregister(memory.data_ptr())


def _by_workers(function: Callable[[Any], Any], items: Sequence[Any], workers: int, *own: Any) -> Iterator[Any]:
    """function(item) of each item, in order, computed by worker processes, which begin with `own` (`_begin`)."""
    if not descriptors_left(16 + 16 * workers):  # halfway into starting them it would fail without a sentence
        raise UserError(f"{count(workers, 'worker')} need more file descriptors: raise the limit (ulimit -n 1024)")
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=own)
    try:
        yield from ahead(function, items, PREFETCH * workers, pool)
    except BrokenProcessPool as error:
        raise UserError(
            "a worker process was killed: give it more memory or use fewer --workers, and run the same command again; "
            "finished shards are kept"
        ) from error


def _begin(job: Job, slots: torch.Tensor | None = None) -> None:
    """In a new worker. It ends at once when it is interrupted, and when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _own.update(job=job, slots=slots)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make(number: int) -> int:
    job = _own["job"]
    return job.write(number, job.embed(_network(), number))


@cache
def _network() -> nn.Module:
    """Each worker process loads it once."""
    return _own["job"].network()


def _decode(item: tuple[int, tuple[int, int]]) -> dict[int, str]:
    slot, place = item
    return _own["job"].decode(*place, _own["slots"][slot].numpy()).errors
