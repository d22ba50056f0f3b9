"""One process or several: what torchrun started, and values that all of them share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist


class Process(NamedTuple):
    rank: int
    world: int
    device: str


@contextmanager
def joined(device: str) -> Iterator[Process]:
    """This process among those of torchrun, on a GPU of its own if it asks for one; or alone."""
    if dist.is_initialized():
        yield Process(dist.get_rank(), dist.get_world_size(), device)
        return
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Process(0, 1, device)
        return
    on_gpu = device.startswith("cuda")
    if on_gpu:
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Process(dist.get_rank(), world, device)
    finally:
        dist.destroy_process_group()


def of_all(value: Any) -> list[Any]:
    """This value of every process, in their order."""
    if not dist.is_initialized():
        return [value]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found
