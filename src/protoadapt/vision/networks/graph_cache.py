"""Graphs of networks in the user's cache folder: a network that was loaded once is loaded again without torch.

A file is a line of JSON, with the network's metadata and the versions that wrote it, and the graph (`onnx_graph`). It
is written after its features were compared with torch's (`engines`), completely or not at all, under the hash of the
network's weights. One that is damaged, too large, of other weights or of another version, or no file at all, is not
read, and made again. It is data: no code runs on load.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import protoadapt
from protoadapt.core.errors import UserError
from protoadapt.core.files import cleared, sha256_of, written_whole
from protoadapt.core.threads import cores
from protoadapt.core.untrusted import clean_json
from protoadapt.vision.network_metadata import network_metadata
from protoadapt.vision.networks.onnx_engine import OnnxEngine
from protoadapt.vision.networks.quiet_onnxruntime import import_onnxruntime

SCHEMA = "protoadapt-graph/1"
ENGINE = "onnxruntime"
HEADER_LIMIT = 1 << 16
LARGEST = 1 << 31
"""Bytes of a file that is read; onnxruntime takes no larger graphs."""
MOST = 16
"""Networks that are kept; the one that was written first goes first."""
STATED = ("backbone", "width", "dim", "weights", "rectified", "size", "mean", "std", "crop", "dataset")
"""Metadata that belongs to the weights. The rest is that of the card, which may change."""


def folder() -> Path:
    """Where graphs are kept."""
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = stated if stated.is_absolute() else Path.home() / ".cache"  # by the standard, relative paths do not count
    return home / "protoadapt" / "networks"


def cached_network(file: Path) -> tuple[OnnxEngine, dict[str, Any]] | None:
    """The network of a file of weights and its metadata; None where its graph is not in the cache."""
    try:
        found = _read(sha256_of(file)[:16])
        if found is None:
            return None
        graph, metadata = found
        return OnnxEngine(graph, _threads(), metadata["mean"], metadata["std"]), metadata | {"engine": ENGINE}
    except Exception:  # a file that passes for a graph, no onnxruntime, no memory: `load` says what is wrong
        return None


def _threads() -> int:
    """As many as torch would take: OMP_NUM_THREADS, of which the first number counts, if it is one."""
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(int(stated), cores()) if stated.isdecimal() and int(stated) else cores()


def keep(graph: bytes, metadata: Mapping[str, Any]) -> None:
    """Write a graph into the cache, unless it is there. Where that is impossible, nothing is kept."""
    with suppress(OSError, UserError, RuntimeError):  # RuntimeError: there is no home
        path = _path(metadata["weights"])
        if _read(metadata["weights"]) is not None:
            return
        if os.path.lexists(path) and not path.is_file() and not cleared(path):
            warnings.warn(
                f"the folder {str(path)!r} is where a network is kept for a quick start: remove it", stacklevel=2
            )
            return
        stated = {key: metadata[key] for key in STATED if key in metadata}
        header = {"schema": SCHEMA, "versions": _versions(), "metadata": stated, "sha256": _digest(graph, stated)}
        with written_whole(path) as partial:
            partial.write_bytes(json.dumps(header).encode() + b"\n" + graph)
        for old in sorted(folder().glob("*.graph"), key=lambda path: path.lstat().st_mtime_ns)[:-MOST]:
            cleared(old)


def _read(weights: str) -> tuple[bytes, dict[str, Any]] | None:
    try:
        if not _path(weights).is_file():  # a pipe would never end
            return None
        with open(_path(weights), "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                return None
            header = clean_json(file.readline(HEADER_LIMIT))
            graph = file.read()
        metadata = network_metadata("a cached graph", "", **header["metadata"])
        same = header["schema"] == SCHEMA and header["versions"] == _versions() and metadata["weights"] == weights
        return (graph, metadata) if same and header["sha256"] == _digest(graph, metadata) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _path(weights: str) -> Path:
    return folder() / f"{weights}.graph"


def _versions() -> dict[str, str]:
    return {"protoadapt": protoadapt.__version__, "onnxruntime": import_onnxruntime().__version__}


def _digest(graph: bytes, metadata: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode() + graph).hexdigest()
