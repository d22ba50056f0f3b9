"""Pickled datasets, read without running code: numpy arrays and builtin containers only.

A pickle is a program that may call any function by name. Here a name leads to one of six harmless functions or to an
error, so that a downloaded file can only yield numbers and text.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core.multiarray import scalar

from protoadapt.core.errors import UserError


def _array(*_: object) -> np.ndarray:
    """numpy writes an empty array first and fills it from the state that follows, whose length it checks."""
    return np.empty(0, np.uint8)


def _from_buffer(buffer: bytes, dtype: np.dtype, shape: tuple[int, ...], order: Any) -> np.ndarray:
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes into a pickle that Python 2 can read."""
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
}
for core in ("numpy.core", "numpy._core"):
    ALLOWED[f"{core}.multiarray", "_reconstruct"] = _array
    ALLOWED[f"{core}.multiarray", "scalar"] = scalar
    ALLOWED[f"{core}.numeric", "_frombuffer"] = _from_buffer


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise UserError(f"it calls {module}.{name}, which no dataset needs: do not trust it")
        return ALLOWED[module, name]


def read_pickled_table(path: Path) -> dict[str, Any]:
    """A pickled dict with text keys, whichever Python wrote it."""
    try:
        with path.open("rb") as file:
            # "bytes": strings of Python 2 stay bytes, so a gigabyte of pixels is not decoded as text and back
            table = _Unpickler(file, encoding="bytes").load()
        return {as_text(key): value for key, value in table.items()}
    except Exception as error:  # a broken pickle may fail in any way
        raise UserError(f"{path} cannot be read as a pickled dataset ({error}): download it again") from error


def as_text(value: str | bytes) -> str:
    """Text of a pickle, which is bytes where Python 2 wrote it."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
