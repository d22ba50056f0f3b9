"""Small pictures and small datasets, made on the spot."""

import struct
from pathlib import Path

import numpy as np
from PIL import Image

HEIC = b"\0\0\0\x18ftypheic" + bytes(40)
"""The beginning of a HEIC file."""


def painted(seed: int, width: int = 10, height: int = 8) -> Image.Image:
    """A picture of its own for every seed: smooth, so that JPEG keeps it."""
    coarse = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (2, 2, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC)


def class_folders(root: Path, names: list[str], each: int = 2, suffix: str = "png") -> Path:
    """So many pictures in a folder for each name."""
    for c, name in enumerate(names):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(each):
            painted(1000 * c + i).save(root / name / f"{Path(name).name}_{i:03d}.{suffix}")
    return root


def python2_string(value: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(value)) + value


def python2_array(array: np.ndarray) -> bytes:
    """A uint8 matrix as numpy under Python 2 wrote it, opcode by opcode."""
    rows, columns = array.shape
    integer = lambda value: b"J" + struct.pack("<i", value)  # noqa: E731
    dtype = b"cnumpy\ndtype\n" + b"U\x02u1" + b"K\x00K\x01\x87R" + b"(K\x03U\x01|NNN" + integer(-1) * 2 + b"K\x00tb"
    shape = integer(rows) + integer(columns) + b"\x86"
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return start + b"(K\x01" + shape + dtype + b"\x89" + python2_string(array.tobytes()) + b"tb"


def python2_table(**columns: np.ndarray | list) -> bytes:
    """A dict of lists of ints or byte strings, and matrices, in protocol 2 with Python 2's strings."""
    body = b""
    for key, column in columns.items():
        body += python2_string(key.encode())
        if isinstance(column, np.ndarray):
            body += python2_array(column)
        else:
            items = (b"K" + bytes([v]) if isinstance(v, int) else python2_string(v) for v in column)
            body += b"](" + b"".join(items) + b"e"
    return b"\x80\x02}(" + body + b"u."
