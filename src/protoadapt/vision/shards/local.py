"""The local engine: shards on one machine, made by the worker processes of torch's DataLoader.

The DataLoader notices when a worker is killed, and its workers end with their parent. On a CPU each worker makes whole
shards. On a GPU workers decode, and the one network embeds what they hand over.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from protoadapt.core.errors import UserError
from protoadapt.core.threads import cores
from protoadapt.vision import networks
from protoadapt.vision.shards.make import Decoded, Job, Made, decode_shard, make_shard, one_thread


def make_all(job: Job, numbers: Sequence[int], workers: int | None) -> Iterator[Made]:
    """Yield each of these shards when it is done, in order; one worker per core by default."""
    workers = min(workers or cores(), len(numbers))
    return _on_cpu(job, numbers, workers) if job.device == "cpu" else _on_device(job, numbers, workers)


class _Shards(Dataset):
    """Item i is the i-th shard, made. An error is passed on as its text: the loader would wrap it in a traceback."""

    def __init__(self, job: Job, numbers: Sequence[int]):
        self.job, self.numbers = job, numbers
        self.network: Any = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, item: int) -> Made | str:
        try:
            with one_thread():
                if self.network is None:
                    self.network = networks.load(self.job.model, "cpu")
                number = self.numbers[item]
                return make_shard(self.job, number, decode_shard(self.job, number), *self.network)
        except (UserError, OSError) as error:
            return str(error)


def _on_cpu(job: Job, numbers: Sequence[int], workers: int) -> Iterator[Made]:
    for made in _loaded(_Shards(job, numbers), workers):
        if isinstance(made, str):
            raise UserError(made)
        yield made


class _Batches(Dataset):
    """Item i is the i-th batch of pixels of all these shards."""

    def __init__(self, job: Job, numbers: Sequence[int]):
        self.job = job
        self.places = [(number, batch) for number in numbers for batch in range(job.batches(number))]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, dict[int, str]] | str:
        try:
            pixels, errors = self.job.decode(*self.places[item])
            return torch.from_numpy(pixels), errors  # a tensor passes through shared memory, an array would be copied
        except (UserError, OSError) as error:
            return str(error)


def _on_device(job: Job, numbers: Sequence[int], workers: int) -> Iterator[Made]:
    network, metadata = networks.load(job.model, job.device)
    batches = map(_unwrapped, _loaded(_Batches(job, numbers), workers))
    for number in numbers:
        own = (batch for _, batch in zip(range(job.batches(number)), batches))
        yield make_shard(job, number, own, network, metadata)


def _unwrapped(item: tuple[torch.Tensor, dict[int, str]] | str) -> Decoded:
    if isinstance(item, str):
        raise UserError(item)
    return Decoded(item[0].numpy(), item[1])


def _loaded(items: Dataset, workers: int) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)  # the user chose the number
        made = iter(DataLoader(items, batch_size=None, num_workers=workers, collate_fn=_as_is))
    try:
        yield from made
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
