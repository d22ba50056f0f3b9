"""onnxruntime computes a network, picture by picture. Without torch: loading that takes longer than many pictures.

The graph of a network that was loaded once is kept in the user's cache folder, an ONNX file under the hash of its
weights and the versions that wrote it, and the next time it is loaded from there (`kept_network`).
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import protoadapt
from protoadapt.core.errors import UserError, clean_json
from protoadapt.core.files import cache_folder, written_whole
from protoadapt.core.threads import cores, thread_pool
from protoadapt.vision.networks.cards import network_metadata

ONNXRUNTIME = "onnxruntime"
_MOST = 16
"""Networks that are kept; the one that was written first goes first."""
NOWHERE = "/dev/null/nowhere"
"""A folder that cannot exist, where onnxruntime looks for other files of a network."""


def import_onnxruntime() -> ModuleType:
    """Imports onnxruntime, which otherwise reports its use to its maker.

    Its wheels of version 1.31 do so from the moment of import, also on Linux: they leave a session file `.ses` in the
    temporary folder and know an address to send events to. Only this variable keeps them from it;
    `disable_telemetry_events` comes too late. Who has set it keeps their choice. Raises ImportError.

    >>> import_onnxruntime().__name__
    'onnxruntime'
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def onnx_session(model: str | bytes, threads: int) -> Any:
    """A session of onnxruntime on the CPU for the path or the bytes of an ONNX model.

    It fails where weights are in other files: a network is known by the hash of this one.
    """
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # it would print its own errors before ours
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", NOWHERE)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)


def stored_metadata(session: Any) -> dict[str, Any]:
    """The metadata of an ONNX file: values that are JSON parsed, others as text."""
    values = {}
    for key, value in session.get_modelmeta().custom_metadata_map.items():
        try:
            values[key] = clean_json(value)
        except (ValueError, RecursionError):
            values[key] = value
    return values


class OnnxEngine:
    """A graph (`engines.graph_of`) in onnxruntime. Every picture is computed by one thread, and threads share pictures.

    So features do not depend on the batch or the number of threads, and no thread waits for another within a picture.
    """

    def __init__(self, graph: str | bytes, threads: int):
        self.session = onnx_session(graph, 1)
        self.threads = threads
        self.pool = thread_pool(threads)
        self.metadata = stored_metadata(self.session)
        mean, std = (255 * np.array(self.metadata[key], np.float32).reshape(3, 1, 1) for key in ("mean", "std"))
        self.mean, self.std = mean, std

    def maps(self, pictures: np.ndarray) -> np.ndarray:
        """(B, 3, H, W), pixels as uint8 or normalised as float32, to the features (B, C, H', W') of all positions."""
        return self._each(self._maps, pictures)

    def features(self, pictures: np.ndarray, pooling: float = 1.0) -> np.ndarray:
        """(B, 3, H, W) to (B, C): the generalised mean over all positions, as `backbones.generalised_mean`."""

        def pooled(picture: np.ndarray) -> np.ndarray:
            maps = self._maps(picture)
            return maps.mean((2, 3)) if pooling == 1 else (maps**pooling).mean((2, 3)) ** (1 / pooling)

        return self._each(pooled, pictures)

    def _maps(self, picture: np.ndarray) -> np.ndarray:
        if picture.dtype == np.uint8:
            picture = np.subtract(picture, self.mean, dtype=np.float32)
            picture /= self.std
        return self.session.run(None, {"x": picture})[0]

    def _each(self, work: Callable[[np.ndarray], np.ndarray], pictures: np.ndarray) -> np.ndarray:
        """work(picture (1, 3, H, W)) of each of (B, 3, H, W), joined."""
        by = map if self.threads == 1 or len(pictures) == 1 else self.pool.map
        return np.concatenate(list(by(work, np.split(pictures, len(pictures)))))


def graph_folder() -> Path:
    """Where graphs are kept."""
    return cache_folder() / "networks"


def keep_graph(graph: bytes, key: str) -> None:
    """Writes a graph into the cache folder, unless it is there. Where that is impossible, nothing is kept."""
    with suppress(OSError, UserError, RuntimeError):  # RuntimeError: there is no home
        path = _graph_file(key)
        if not (path.is_file() and path.stat().st_size == len(graph)):
            with written_whole(path, again=True) as partial:
                partial.write_bytes(graph)
        for old in sorted(graph_folder().glob("*.onnx"), key=lambda path: path.lstat().st_mtime_ns)[:-_MOST]:
            old.unlink(missing_ok=True)


def kept_network(key: str) -> tuple[OnnxEngine, dict[str, Any]] | None:
    """The network whose graph is kept under this key, and its metadata; None without one. A broken one is removed."""
    try:
        path = _graph_file(key)
    except (ImportError, RuntimeError):  # no onnxruntime, no home
        return None
    if not path.is_file():
        return None
    from protoadapt.vision.pictures.decode import stored_resize  # needs pillow, which listing networks does without

    try:
        engine = OnnxEngine(str(path), _threads())
        about = network_metadata("a kept graph", "", **engine.metadata)
        own_resize = {"resize": stored_resize(about["resize"])} if "resize" in about else {}
        return engine, about | {"engine": ONNXRUNTIME, **own_resize}
    except Exception:  # a damaged file may fail in any way
        path.unlink(missing_ok=True)
        return None


def _graph_file(key: str) -> Path:
    return graph_folder() / f"{key}-{protoadapt.__version__}-{import_onnxruntime().__version__}.onnx"


def _threads() -> int:
    """As many as torch would take: OMP_NUM_THREADS, of which the first number counts, if it is one."""
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(int(stated), cores()) if stated.isdecimal() and int(stated) else cores()
