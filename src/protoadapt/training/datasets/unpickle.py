"""Pickled datasets, read without running code: plain numpy arrays and builtin containers only.

A pickle is a program that may call any function by name and give any object a state. Here a name leads to one of six
harmless things or to an error. None of them is numpy's own: its types follow pointers in a state that a file can make
up. So an array is made from plain bytes, when the file has been read whole.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np


class _Type:
    """In the place of numpy.dtype: truth values, numbers, bytes or text."""

    def __init__(self, code: str | bytes, *_: object):
        self.dtype = np.dtype(as_text(code))
        if self.dtype.kind not in "biufSU":
            raise ValueError(f"it holds values of type {as_text(code)!r:.40}, which no dataset needs: do not trust it")

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(as_text(state[1]))  # type: ignore[arg-type]


class _Array:
    """In the place of numpy.ndarray, which a pickle makes first and fills with a state afterwards."""

    def __init__(self, *_: object):
        self.content: tuple = ()

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, by_column, values = state
        self.content = shape, kind.dtype, bytes(values), "F" if by_column else "C"

    def filled(self) -> np.ndarray:
        shape, dtype, values, order = self.content
        return np.frombuffer(values, dtype).reshape(shape, order=order)


def _from_buffer(values: bytes, kind: _Type, shape: tuple, order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, kind, order == "F", values))
    return array


def _scalar(kind: _Type, value: bytes) -> Any:
    return np.frombuffer(value, kind.dtype, 1)[0].item()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes into a pickle that Python 2 can read."""
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
}
for core in ("numpy.core", "numpy._core"):
    ALLOWED[f"{core}.multiarray", "_reconstruct"] = _Array
    ALLOWED[f"{core}.multiarray", "scalar"] = _scalar
    ALLOWED[f"{core}.numeric", "_frombuffer"] = _from_buffer


class _Unpickler(pickle._Unpickler):  # that in C reserves what a file says, 8 GB for twenty bytes
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise ValueError(f"it calls {module}.{name}, which no dataset needs: do not trust it")
        return ALLOWED[module, name]


def read_pickle(path: Path) -> Any:
    """A pickled dict with text keys, or a list, whichever Python wrote it, with the arrays that are its values.

    A broken one may fail in any way.
    """
    with path.open("rb") as file:
        # "bytes": strings of Python 2 stay bytes, so a gigabyte of pixels is not decoded as text and back
        content = _Unpickler(file, encoding="bytes").load()
    if isinstance(content, list):
        return [_plain(value) for value in content]
    return {as_text(key): _plain(value) for key, value in content.items()}


def _plain(value: Any) -> Any:
    return value.filled() if isinstance(value, _Array) else value


def as_text(value: str | bytes) -> str:
    """Text of a pickle, which is bytes where Python 2 wrote it."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
