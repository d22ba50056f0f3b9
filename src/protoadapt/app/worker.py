"""One thread for everything that the page computes with tensors.

Requests are answered by many threads. If each of them computed, each would start torch's threads for itself and keep
memory of its own for the next time, hundreds of megabytes with thousands of pictures.

A step of BAPA is a dozen short operations. Split over all cores, each of them waits for the slowest core, and the
browser needs one of them: beside another program, naming a thousand pictures took seconds in place of 0.2. So half of
the cores take part. The two large products of a naming are numpy's, which has threads of its own.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from protoadapt.core.threads import cores, thread_pool

P = ParamSpec("P")
R = TypeVar("R")
_starting = threading.Lock()


def computed(function: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
    """function(…), computed by the one thread after what others asked for before. Must not be called by that thread."""
    with _starting:  # `cache` alone would start two for two who ask at once
        worker = _worker()
    return worker.submit(function, *arguments, **more).result()


@cache
def _worker() -> ThreadPoolExecutor:
    pool = thread_pool(1)
    pool.submit(_limit).result()
    return pool


def _limit() -> None:
    """Half of the cores for torch in this thread; others, such as those that run a network, keep theirs."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.get_num_threads()  # which sets this thread's number the first time
    threadpool_limits(max(1, cores() // 2), user_api="openmp")
