"""One thread for everything that the page computes with tensors.

Requests are answered by many threads. If each of them computed, each would start torch's threads for itself, which get
in each other's way, and keep memory of its own for the next time, hundreds of megabytes with thousands of pictures. A
computation uses all cores by itself, so that nothing is gained by a second one beside it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

from protoadapt.core.threads import thread_pool

P = ParamSpec("P")
R = TypeVar("R")


def computed(function: Callable[P, R], *arguments: P.args, **more: P.kwargs) -> R:
    """function(…), computed by the one thread after what others asked for before. Must not be called by that thread."""
    return _worker().submit(function, *arguments, **more).result()


@cache
def _worker() -> ThreadPoolExecutor:
    return thread_pool(1)
