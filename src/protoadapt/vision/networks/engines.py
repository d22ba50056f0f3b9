"""Engines: which program computes a network. On a CPU onnxruntime is up to three times as fast as torch.

The networks of this package and the Lite networks are handed to onnxruntime as a graph that is written in memory when
they are loaded. Its features must agree with torch's on a test picture, or torch computes them; then it is kept for
commands that only embed files (`onnx_engine`). docs/speed.md has the measurements.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, install
from protoadapt.vision.networks.onnx_engine import ENGINE, STATED, OnnxEngine, keep_graph
from protoadapt.vision.networks.onnx_graph import graph_of
from protoadapt.vision.networks.staged import Noise, Staged, generalised_mean

TORCH, ONNXRUNTIME = "torch", ENGINE
AGREE = 0.99999
"""Least cosine of the features of two engines."""
SHARED_FROM = 32768
"""Numbers from which on torch shares a piece of work among its threads."""


class OnnxNetwork(Staged):
    """A network in onnxruntime. Beside normalised float32 it takes pixels, uint8, and normalises them itself.

    Nothing here wakes the threads of torch: for some milliseconds after a piece of work they wait actively for the
    next, on the cores that compute pictures. That took a fifth of all time.
    """

    def __init__(self, engine: OnnxEngine, dim: int):
        super().__init__([], dim)
        self.engine = engine

    def maps_from(self, h: Tensor, layer: int = 0, noise: Noise | None = None) -> Tensor:
        """(B, 3, H, W) to (B, C, H', W')."""
        return torch.from_numpy(np.concatenate(self.engine.each(self.engine.maps, h.contiguous().numpy())))

    def forward(self, x: Tensor, pooling: float = 1.0) -> Tensor:
        """(B, 3, H, W) to (B, C)."""
        engine = self.engine
        return torch.cat(engine.each(lambda picture: _pooled(engine.maps(picture), pooling), x.contiguous().numpy()))


def _pooled(maps: np.ndarray, pooling: float) -> Tensor:
    """The generalised mean of (1, C, H, W), so few channels at a time that torch does not share them among threads."""
    places = maps.shape[2] * maps.shape[3]
    parts = torch.from_numpy(maps).split(max(1, SHARED_FROM // places), 1)
    return torch.cat([generalised_mean(part, pooling) for part in parts], 1)


def engine_threads(network: nn.Module) -> int:
    """Pictures that onnxruntime computes at once; 0 where torch computes."""
    return next((part.engine.threads for part in network.modules() if isinstance(part, OnnxNetwork)), 0)


def chosen_engine(
    network: nn.Module, metadata: Mapping[str, Any], device: str, engine: str | None, keep: bool = False
) -> tuple[nn.Module, str]:
    """A network as its engine computes it, and the engine's name.

    engine : TORCH, ONNXRUNTIME (UserError where that cannot be), or None for the faster one on this device: onnxruntime
        on a CPU, if it is installed and agrees with torch.
    metadata : as of `networks.load`.
    keep : keep a graph that agrees with torch for the next time (`onnx_engine.kept_network`).
    """
    on_cpu = torch.device(device).type == "cpu"
    if engine == ONNXRUNTIME and not on_cpu:
        raise UserError(f"onnxruntime computes on the CPU, not on {device!r}: use --device cpu")
    if engine != TORCH and on_cpu and isinstance(network, Staged):
        try:
            return _on_onnxruntime(network, metadata, keep), ONNXRUNTIME
        except Exception as error:  # not installed, too old, out of memory: torch computes the same features
            if engine == ONNXRUNTIME:
                raise UserError(f"onnxruntime does not compute this network ({error}): {install('label')}") from error
    return network.to(device=device, memory_format=torch.channels_last).eval(), TORCH  # type: ignore[call-overload]


def _on_onnxruntime(network: Staged, metadata: Mapping[str, Any], keep: bool) -> Staged:
    graph = graph_of(network.stages, {key: metadata[key] for key in STATED if key in metadata})
    fast = OnnxNetwork(OnnxEngine(graph, torch.get_num_threads()), network.dim).eval()
    cosine = agreement(network, fast, metadata["size"])
    if not cosine >= AGREE:  # NaN does not agree
        raise UserError(f"its features differ from torch's, cosine {cosine:.6f}")
    if keep:
        keep_graph(graph, metadata)
    return fast


@torch.inference_mode()
def agreement(one: nn.Module, other: nn.Module, size: int, pictures: int = 1) -> float:
    """The least cosine of two networks' features of the same pictures: noise over smooth shapes, always the same."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(pictures, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, (size, size), mode="bilinear")
    x = smooth + 0.5 * torch.randn(pictures, 3, size, size, generator=generator)
    return float(nn.functional.cosine_similarity(one(x), other(x)).min())
