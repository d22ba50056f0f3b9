"""The local engine: parts on one machine, made by the worker processes of torch's DataLoader.

The DataLoader notices when a worker is killed, and its workers end with their parent. On a CPU each worker makes whole
shards. On a GPU workers decode into memory that the GPU reads by itself, and the one network embeds what is there.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from protoadapt.core.errors import UserError, count
from protoadapt.core.threads import ahead, cores, descriptors_left, one_thread
from protoadapt.vision import networks
from protoadapt.vision.embed import IN_FLIGHT
from protoadapt.vision.shards.make import BATCH, Decoded, Job, Made, embed_decoded, embed_shard, make_part

PREFETCH = 2
"""Batches that each worker may be ahead."""


def make_locally(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[Made]:
    """Yields the part of each of these shards when it is done, in order; one worker per core by default."""
    workers = min(workers or cores(), len(numbers))
    if job.device == "cpu":
        yield from _by_workers(partial(_make, job), numbers, workers)
        return
    network, metadata = networks.load(job.model, job.device, job.engine)
    places = [(number, batch) for number in numbers for batch in range(job.batches(number))]
    # One stream of batches through all shards: the GPU has the next one before a shard is whole, and threads write.
    batches = iter(embed_decoded(decoded(job, places, workers), network, metadata, job.views))
    shards = ((number, list(islice(batches, job.batches(number)))) for number in numbers)
    yield from ahead(lambda shard: make_part(job, *shard, metadata), shards, 4, threads=2)


def decoded(job: Job, places: Sequence[tuple[int, int]], workers: int) -> Iterator[Decoded]:
    """The batches at these places (shard, batch), in order, decoded by worker processes.

    Batch i lies in slot i mod S of one block of shared memory, and nothing is copied on the way to the GPU. When the
    loader hands out batch i, a worker begins with batch i + P, P = PREFETCH × workers, and the batches from
    i - IN_FLIGHT on may still be under way to the GPU (`embed_batches`). So S = P + IN_FLIGHT + 1 slots suffice.
    """
    slots = torch.empty(PREFETCH * workers + IN_FLIGHT + 1, BATCH, 3, job.size, job.size, dtype=torch.uint8)
    slots.share_memory_()
    with _read_by_gpu(slots, job.device):
        errors = _by_workers(partial(_decode, job, slots), list(enumerate(places)), workers)
        for position, wrong in enumerate(errors):
            yield Decoded(slots[position % len(slots)], wrong)


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


def _make(job: Job, number: int) -> Made:
    network, metadata = _network(job.model, job.engine)
    with one_thread():
        return make_part(job, number, embed_shard(job, number, network, metadata), metadata)


@cache
def _network(model: Any, engine: str | None) -> tuple[nn.Module, dict[str, Any]]:
    """Each worker process loads it once."""
    return networks.load(model, "cpu", engine)


def _decode(job: Job, slots: torch.Tensor, item: tuple[int, tuple[int, int]]) -> dict[int, str]:
    position, place = item
    return job.decode(*place, slots[position % len(slots)].numpy()).errors


class _Failed(NamedTuple):
    """An error of a worker, as its text: the loader would wrap the error itself in a traceback."""

    text: str


class _Items(Dataset):
    """Item i is function(items[i])."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any]):
        self.function, self.items = function, items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        try:
            return self.function(self.items[place])
        except (UserError, OSError) as error:
            return _Failed(str(error))


def _by_workers(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Iterator[Any]:
    """function(item) of each item, in order, computed by worker processes."""
    if not descriptors_left(16 + 16 * workers):  # halfway into starting them torch would fail without a sentence
        raise UserError(f"{count(workers, 'worker')} need more file descriptors: raise the limit (ulimit -n 1024)")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # the user chose the number
        loader = DataLoader(
            _Items(function, items), None, num_workers=workers, prefetch_factor=PREFETCH, collate_fn=_as_is
        )
        answers = iter(loader)
    try:
        for answer in answers:
            if isinstance(answer, _Failed):
                raise UserError(answer.text)
            yield answer
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        reason = " ".join(str(error).splitlines()[0].split())
        raise UserError(
            f"a worker process was killed ({reason}): give it more memory or use fewer --workers, and run the same "
            f"command again; finished shards are kept"
        ) from error


def _as_is(item: Any) -> Any:
    return item
