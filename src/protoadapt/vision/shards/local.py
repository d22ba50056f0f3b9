"""The local engine: shards on one machine, made by the worker processes of torch's DataLoader.

The DataLoader notices when a worker is killed, and its workers end with their parent. On a CPU each worker makes whole
shards. On a GPU workers decode, and the one network embeds what they hand over.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from protoadapt.core.errors import UserError, count
from protoadapt.core.threads import ahead, cores, descriptors_left
from protoadapt.vision import networks
from protoadapt.vision.shards.make import (
    Decoded,
    Job,
    Made,
    decode_shard,
    embedded,
    make_shard,
    one_thread,
    rows_of,
    write_made,
)


def make_all(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[Made]:
    """Yield each of these shards when it is done, in order; one worker per core by default."""
    workers = min(workers or cores(), len(numbers))
    if job.device == "cpu":
        yield from _by_workers(partial(_make, job), numbers, workers)
        return
    network, metadata = networks.load(job.model, job.device, job.engine)
    places = [(number, batch) for number in numbers for batch in range(job.batches(number))]
    decoded = _by_workers(partial(_decode, job), places, workers)
    # One stream of batches through all shards: the GPU has the next one before a shard is whole, and a thread writes.
    batches = embedded((Decoded(pixels.numpy(), errors) for pixels, errors in decoded), network, metadata, job.views)
    shards = (
        (number, *rows_of(islice(batches, job.batches(number)), job.manifest.shards[number].pictures))
        for number in numbers
    )
    yield from ahead(lambda shard: write_made(job, *shard, metadata), shards, 1, threads=1)


def _make(job: Job, number: int) -> Made:
    with one_thread():
        return make_shard(job, number, decode_shard(job, number), *_network(job.model, job.engine))


@cache
def _network(model: Any, engine: str | None) -> tuple[nn.Module, dict[str, Any]]:
    """Each worker process loads it once."""
    return networks.load(model, "cpu", engine)


def _decode(job: Job, place: tuple[int, int]) -> tuple[torch.Tensor, dict[int, str]]:
    pixels, errors = job.decode(*place)
    return torch.from_numpy(pixels), errors  # a tensor passes through shared memory, an array would be copied


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
        answers = iter(DataLoader(_Items(function, items), batch_size=None, num_workers=workers, collate_fn=_as_is))
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
