"""Engines: which program computes a network. On a CPU onnxruntime is up to three times as fast as torch.

The networks of this package and the Lite networks are handed to onnxruntime as a graph that is written in memory when
they are loaded, so there is no exported file that could be old, half-written or damaged. Its features must agree with
torch's on a test picture, or torch computes them. docs/speed.md has the measurements.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, install
from protoadapt.core.threads import thread_pool
from protoadapt.vision.networks.onnx_graph import graph_of
from protoadapt.vision.networks.quiet_onnxruntime import import_onnxruntime
from protoadapt.vision.networks.staged import Staged

TORCH, ONNXRUNTIME = "torch", "onnxruntime"
AGREE = 0.99999
"""Least cosine of the features of two engines."""


class OnnxStages(nn.Module):
    """All stages of a network in onnxruntime. Every picture is computed by one thread, and threads share pictures.

    So features do not depend on the batch or the number of threads, and no thread waits for another within a picture.
    """

    def __init__(self, session: Any, threads: int):
        super().__init__()
        self.session, self.threads = session, threads
        self.pool = thread_pool(threads)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, C, H', W')."""
        pictures = np.split(x.contiguous().numpy(), len(x))
        by = map if self.threads == 1 or len(x) == 1 else self.pool.map
        return torch.from_numpy(np.concatenate(list(by(self._one, pictures))))

    def _one(self, picture: np.ndarray) -> np.ndarray:
        return self.session.run(None, {"x": picture})[0]


def engine_threads(network: nn.Module) -> int:
    """Pictures that onnxruntime computes at once; 0 where torch computes."""
    return next((part.threads for part in network.modules() if isinstance(part, OnnxStages)), 0)


def chosen_engine(network: nn.Module, size: int, device: str, engine: str | None) -> tuple[nn.Module, str]:
    """A network as its engine computes it, and the engine's name.

    engine : TORCH, ONNXRUNTIME (UserError where that cannot be), or None for the faster one on this device: onnxruntime
        on a CPU, if it is installed and agrees with torch.
    size : pixels per side of the network's input.
    """
    on_cpu = torch.device(device).type == "cpu"
    if engine == ONNXRUNTIME and not on_cpu:
        raise UserError(f"onnxruntime computes on the CPU, not on {device!r}: use --device cpu")
    if engine != TORCH and on_cpu and isinstance(network, Staged):
        try:
            return _on_onnxruntime(network, size), ONNXRUNTIME
        except Exception as error:  # not installed, too old, out of memory: torch computes the same features
            if engine == ONNXRUNTIME:
                raise UserError(f"onnxruntime does not compute this network ({error}): {install('label')}") from error
    return network.to(device=device, memory_format=torch.channels_last).eval(), TORCH  # type: ignore[call-overload]


def _on_onnxruntime(network: Staged, size: int) -> Staged:
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # it would print its own errors before ours
    session = onnxruntime.InferenceSession(graph_of(network.stages), options, providers=["CPUExecutionProvider"])
    fast = Staged([OnnxStages(session, torch.get_num_threads())], network.dim).eval()
    cosine = agreement(network, fast, size)
    if not cosine >= AGREE:  # NaN does not agree
        raise UserError(f"its features differ from torch's, cosine {cosine:.6f}")
    return fast


@torch.inference_mode()
def agreement(one: nn.Module, other: nn.Module, size: int, pictures: int = 1) -> float:
    """The least cosine of two networks' features of the same pictures: noise over smooth shapes, always the same."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(pictures, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, (size, size), mode="bilinear")
    x = smooth + 0.5 * torch.randn(pictures, 3, size, size, generator=generator)
    return float(nn.functional.cosine_similarity(one(x), other(x)).min())
