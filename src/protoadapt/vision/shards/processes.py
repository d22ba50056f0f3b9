"""One process or several: the group that torchrun starts, and values that all its processes share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist


class Process(NamedTuple):
    """This process's number, the number of processes, and the device that this one computes on."""

    rank: int
    world: int
    device: str


@contextmanager
def process_group(device: str) -> Iterator[Process]:
    """Joins the processes of torchrun, each on a GPU of its own if `device` is a GPU; without torchrun there is one."""
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


def is_first() -> bool:
    """Whether this process is the one that writes the shared files."""
    return not dist.is_initialized() or dist.get_rank() == 0


def of_all(value: Any) -> list[Any]:
    """This value of every process, in the order of their ranks."""
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
