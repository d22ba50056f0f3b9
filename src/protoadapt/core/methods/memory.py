"""How much memory an episode takes, so that the number of episodes computed at once can be chosen by it."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Copies(NamedTuple):
    """How many tensors of each shape a method holds at its peak, per episode."""

    rows: float = 6  # (N, D)
    gram: float = 3  # (N, N), where there are no more rows than dimensions
    scores: float = 12  # (W, N)
    prototypes: float = 8  # (W, D)
    always_gram: bool = False  # of large episodes too


COPIES = {
    "bd_cspn": Copies(rows=2, gram=6, always_gram=True),
    "laplacian_shot": Copies(rows=2, gram=8, always_gram=True),
    "bavardage": Copies(rows=10, gram=0),
    "embedding_propagation": Copies(rows=4, gram=10, always_gram=True),
    "ridge": Copies(rows=4, gram=2),
}
"""By the function's name; `Copies()` for all others, a user's own methods too."""


def episode_bytes(function: Callable[..., Tensor], n_rows: int, n_way: int, dim: int, itemsize: int = 4) -> int:
    """An upper estimate of the bytes that one episode of N = S + Q + U rows takes in a method, in torch on any device.

    Compiled loops on the CPU take far less.
    """
    copies = COPIES.get(getattr(function, "__name__", ""), Copies())
    numbers = copies.rows * n_rows * dim
    if copies.always_gram or n_rows <= dim + n_way:
        numbers += copies.gram * n_rows**2
    numbers += copies.scores * n_way * n_rows + copies.prototypes * n_way * dim
    if more := getattr(function, "episode_numbers", None):  # a trained head knows its own
        numbers += more(n_rows, n_way)
    return int(numbers * itemsize)
