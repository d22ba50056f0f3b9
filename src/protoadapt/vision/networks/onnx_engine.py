"""onnxruntime computes a graph, picture by picture. Without torch: loading that takes longer than many pictures."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from protoadapt.core.threads import thread_pool
from protoadapt.vision.networks.quiet_onnxruntime import import_onnxruntime


class OnnxEngine:
    """A graph (`onnx_graph`) in onnxruntime. Every picture is computed by one thread, and threads share pictures.

    So features do not depend on the batch or the number of threads, and no thread waits for another within a picture.
    `mean` and `std` are those of pixels in [0, 1].
    """

    def __init__(self, graph: bytes, threads: int, mean: Sequence[float], std: Sequence[float]):
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4  # it would print its own errors before ours
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.threads = threads
        self.pool = thread_pool(threads)
        self.mean, self.std = (255 * np.array(values, np.float32).reshape(3, 1, 1) for values in (mean, std))

    def maps(self, picture: np.ndarray) -> np.ndarray:
        """(1, 3, H, W), pixels as uint8 or normalised as float32, to the features (1, C, H', W') of all positions."""
        if picture.dtype == np.uint8:
            picture = np.subtract(picture, self.mean, dtype=np.float32)
            picture /= self.std
        return self.session.run(None, {"x": picture})[0]

    def each(self, work: Callable[[np.ndarray], Any], pictures: np.ndarray) -> list[Any]:
        """work(picture (1, 3, H, W)) of each of (B, 3, H, W)."""
        by = map if self.threads == 1 or len(pictures) == 1 else self.pool.map
        return list(by(work, np.split(pictures, len(pictures))))

    def features(self, pictures: np.ndarray) -> np.ndarray:
        """(B, 3, H, W) to (B, C): the mean over all positions."""
        return np.concatenate(self.each(lambda picture: self.maps(picture).mean((2, 3)), pictures))
