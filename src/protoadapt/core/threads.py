"""Threads: how many cores there are, and work done ahead."""

import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
STACK = 16 << 20
"""Bytes that a thread may take before it computes anything: twice the usual stack."""


def cores() -> int:
    """CPU cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_pool(threads: int) -> ThreadPoolExecutor:
    """A pool of so many threads. Raises MemoryError where there is no room for them.

    Python waits forever for a thread that dies for lack of memory while it starts, so the room is asked for first.
    """
    try:
        mmap.mmap(-1, threads * STACK).close()
    except OSError as error:
        raise MemoryError(f"no room for {threads} threads") from error
    return ThreadPoolExecutor(threads)


def ahead(function: Callable[[T], R], items: Iterable[T], distance: int, threads: int | None = None) -> Iterator[R]:
    """Yields function(item) per item, in order; threads compute up to `distance` items ahead."""
    pool = thread_pool(threads or cores())
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > distance:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def one_thread() -> Iterator[int]:
    """Lets torch compute with one thread, and with as many as before afterwards; gives their number."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)
