"""Cache of features by content: a picture is embedded once, whatever its name and wherever it is moved.

A store is a folder for one network at one input size. It holds pieces, each written completely or not at all, so the
next run finds what an interrupted one has done:

    content (n, 32)   sha256 of the files' bytes
    features (n, D)   float32
    files (m, 48)     hash of a file's path, size and time of writing (16), and the content it had (32): an unchanged
                      file is not read again

and in its metadata the sha256 of the features. Rows stay on disk until they are needed, and are compared with it then.
"""

import hashlib
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from protoadapt.core.errors import UserError
from protoadapt.core.files import write_bytes

_FORMAT = 6  # raised when the pieces or the decoding of pictures change
SAVE_ROWS, SAVE_SECONDS = 1024, 15.0
"""New features are written after so many rows, or so long."""


def stamp(file: str) -> bytes:
    """A hash of what shows that a file has not changed: its path, size, time of writing and inode. Raises OSError."""
    status = os.stat(file)
    identity = f"{os.path.realpath(file)}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()[:16]


class Store:
    """Features of one network by the sha256 of the picture files; `content_of` maps the stamps of files to contents.

    `cache` is the folder of all stores (None: memory only), `weights` the hash of the network, `size` its input side.

    >>> store = Store(None, "abc", 84)
    >>> store.add([b"sha256"], np.ones((1, 4), np.float32))
    >>> b"sha256" in store, store.rows([b"sha256"]).shape
    (True, (1, 4))
    """

    def __init__(self, cache: str | Path | None, weights: str, size: int):
        self.folder = Path(cache, f"{weights}-{size}-{_FORMAT}") if cache else None
        self.content_of: dict[bytes, bytes] = {}
        self._place: dict[bytes, tuple[Path, int]] = {}
        self._new: dict[bytes, np.ndarray] = {}
        self._new_stamps: dict[bytes, bytes] = {}
        self._saved = time.monotonic()
        if self.folder:
            for piece in sorted(self.folder.glob("*.safetensors")):
                self._enter(piece)

    def __contains__(self, content: bytes) -> bool:
        return content in self._place or content in self._new

    def note(self, stamp: bytes, content: bytes) -> None:
        """Remember the content of the file with this stamp."""
        self.content_of[stamp] = self._new_stamps[stamp] = content

    def add(self, contents: Sequence[bytes], rows: np.ndarray) -> None:
        """Add the features (n, D) of these contents. They are written now and then: an interruption loses few."""
        self._new.update(zip(contents, rows))
        if len(self._new) >= SAVE_ROWS or time.monotonic() - self._saved > SAVE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is new as a piece, named by its checksum."""
        if self.folder is None or not (self._new or self._new_stamps):
            return
        piece = {
            "files": _table((stamp + content for stamp, content in self._new_stamps.items()), 48),
            "content": _table(self._new, 32),
            "features": np.array([*self._new.values()], np.float32).reshape(len(self._new), -1 if self._new else 1),
        }
        content = save(piece, {"features": _checksum(piece["features"])})
        path = self.folder / f"{hashlib.sha256(content).hexdigest()[:24]}.safetensors"
        write_bytes(path, content, again=True)
        self._place |= {content: (path, row) for row, content in enumerate(self._new)}
        self._new = {}
        self._new_stamps = {}
        self._saved = time.monotonic()

    def rows(self, contents: Sequence[bytes]) -> np.ndarray:
        """The features (n, D) float32 of these contents, read piece by piece."""
        if self.folder is None:
            return np.stack([self._new[content] for content in contents])
        wanted: dict[Path, list[tuple[int, int]]] = {}
        for row, content in enumerate(contents):
            piece, place = self._place[content]
            wanted.setdefault(piece, []).append((row, place))
        answer = np.empty(0, np.float32)
        for piece, pairs in wanted.items():
            with safe_open(piece, framework="numpy") as file:
                table = file.get_tensor("features")
                checksum = file.metadata()["features"]
            if _checksum(table) != checksum:
                piece.unlink(missing_ok=True)
                raise UserError(f"{piece.name} of the feature cache was broken and is removed: run this again")
            if not answer.size:
                answer = np.empty((len(contents), table.shape[1]), np.float32)
            into, out_of = np.array(pairs).T
            answer[into] = table[out_of]
        return answer

    def _enter(self, piece: Path) -> None:
        """Read the index of a piece. A broken one is removed: its pictures are embedded again."""
        try:
            with safe_open(piece, framework="numpy") as file:
                files, contents = file.get_tensor("files"), file.get_tensor("content")
                n, _ = file.get_slice("features").get_shape()
                if (files.shape[1:], contents.shape, *(file.metadata() or {})) != ((48,), (n, 32), "features"):
                    raise ValueError("its rows, or their checksum, are not there")
        except (OSError, ValueError, SafetensorError) as error:
            warnings.warn(f"{piece.name} of the feature cache is broken ({error}): embedding again", stacklevel=4)
            with suppress(OSError):
                piece.unlink()
            return
        self.content_of |= {bytes(file[:16]): bytes(file[16:]) for file in files}
        self._place |= {bytes(content): (piece, row) for row, content in enumerate(contents)}


def _checksum(table: np.ndarray) -> str:
    return hashlib.sha256(table.tobytes()).hexdigest()


def _table(keys: Iterable[bytes], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, width)
