"""ONNX files: the embedding network, or with a fitted classifier all the way from pixels to class probabilities.

Input `pixels` (N, 3, size, size), uint8, RGB, any N: pictures as they are decoded, resized to size × size, which the
file normalises itself, so that nobody else gets it wrong. Output `features` (N, D), or `probabilities` (N, W) in the
order of the metadata's `classes` and `familiarity` (N). Metadata, each value JSON: size, mean, std, backbone, dataset,
crop, weights; of a classifier also classes, temperature (already in the probabilities) and threshold, below which
familiarity says that a picture is of no class (null where the model is not calibrated).

The file is run by onnxruntime beside torch before it gets its name; one that differs is not left behind.
"""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError, install
from protoadapt.core.files import check_output, written_whole
from protoadapt.core.methods.adaptation import Adaptation
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.many import calibrated, logits
from protoadapt.labeling.classifier import Classifier, familiarity
from protoadapt.vision import networks
from protoadapt.vision.networks.onnx_file import OnnxFeatures, open_session

TOLERANCE = 1e-3
"""Largest difference between torch and onnxruntime, relative to the largest answer."""
TOLD = ("size", "mean", "std", "backbone", "dataset", "crop", "weights")


class FromPixels(nn.Module):
    """Pixels as they are decoded, normalised for the network."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, about: Mapping[str, Any]):
        super().__init__()
        self.network = network
        for key in ("mean", "std"):
            self.register_buffer(key, 255 * torch.tensor(about[key]).view(3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.network((pixels.float() - self.mean) / self.std)


class Head(nn.Module):
    """Features (N, D) to the fitted classifier's probabilities (N, W) and familiarity (N)."""

    center: Tensor
    prototypes: Tensor
    class_bias: Tensor
    means: Tensor

    def __init__(self, fitted: Classifier):
        super().__init__()
        for key in ("center", "prototypes", "class_bias", "means"):
            self.register_buffer(key, getattr(fitted, key))
        self.how = Adaptation(fitted.rule, fitted.scale, n_iter=0, l2=fitted.l2)
        self.power, self.beta, self.temperature = fitted.power, fitted.beta, fitted.temperature

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        [calm] = calibrated([powered(rows, self.beta, self.power)], self.center, self.how)
        scores = logits(calm, self.prototypes, self.class_bias, self.how)
        return (scores / self.temperature).softmax(1), familiarity(calm, self.means)


def powered(rows: Tensor, beta: float, power: str) -> Tensor:
    """`cipa.power_transform` for a graph, which cannot look at the rows' signs first: "auto" chooses entry by entry
    anyway, and "strict" is for networks that give no negative features."""
    if power == "off":
        return rows
    negative = -(rows.abs() ** beta)
    positive = rows.abs() ** beta if power == "signed" else (rows.clamp_min(0) + 1e-6) ** beta
    return unit(torch.where(rows < 0, negative, positive))


def export(name: str | Path, out: str | Path, classifier: Classifier | None = None) -> dict[str, Any]:
    """Write the model `name`, and with a classifier the whole way to its answers, as the ONNX file `out`.

    Returns what was written and checked: input and output (shapes), difference (the largest to torch), bytes.
    """
    out = Path(out)
    if check_output(out, name).suffix != ".onnx":
        raise UserError(f"{out.name!r} is no name for an ONNX file: end it in .onnx")
    network, about = networks.load(name)
    if isinstance(network, OnnxFeatures):
        raise UserError(f"{str(name)!r} is an ONNX file already: export the model it was made from")
    metadata = {key: about[key] for key in TOLD}
    if about.get("resize"):
        metadata["resize"] = about["resize"]
    whole: nn.Module = FromPixels(network, about)
    outputs = ["features"]
    if classifier is not None:
        if classifier.model.get("views", 1) > 1:
            raise UserError(
                f"the classifier was fitted on features of {classifier.model['views']} views a picture, an ONNX file "
                f"knows one: extract with --views 1 and label again"
            )
        if classifier.model["weights"] != about["weights"]:
            raise UserError(
                f"the classifier was fitted on features of {classifier.model['name']!r} with other weights than "
                f"{str(name)!r}: export it with its own model"
            )
        whole, outputs = nn.Sequential(whole, Head(classifier)), ["probabilities", "familiarity"]
        metadata |= {key: getattr(classifier, key) for key in ("classes", "temperature", "threshold")}
    whole.eval()
    with written_whole(out) as partial:
        partial.write_bytes(_onnx(whole, about["size"], outputs, metadata))
        return {**_compared(partial, whole, about["size"]), "bytes": partial.stat().st_size}


def _onnx(network: nn.Module, size: int, outputs: list[str], metadata: Mapping[str, Any]) -> bytes:
    """The network as a serialised graph with a free batch size."""
    try:
        import onnx
        import onnxscript  # noqa: F401  (what torch's exporter needs)
    except ImportError as error:
        raise UserError(f"export needs onnx and onnxscript: {install('onnx')}") from error
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            network,
            (torch.zeros(2, 3, size, size, dtype=torch.uint8),),
            dynamo=True,
            verbose=False,
            input_names=["pixels"],
            output_names=outputs,
            dynamic_shapes=({0: torch.export.Dim("N")},),
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, {key: json.dumps(value) for key, value in metadata.items()})
    return graph.SerializeToString()


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of torchvision, which is not needed, and of its own old habits."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@torch.no_grad()
def _compared(file: Path, network: nn.Module, size: int) -> dict[str, Any]:
    """onnxruntime beside torch on one picture and on five: noise, and smooth ones as photographs are."""
    session = open_session(file)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (3, 3, size, size), generator=generator, dtype=torch.uint8)
    coarse = torch.rand(3, 3, 4, 4, generator=generator)
    smooth = (255 * nn.functional.interpolate(coarse, (size, size), mode="bilinear")).byte()
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for pixels in (noise[:1], torch.cat([smooth, noise[1:]])):
        ours = network(pixels)
        ours = (ours,) if isinstance(ours, Tensor) else ours
        pairs += zip((part.numpy() for part in ours), session.run(None, {"pixels": pixels.numpy()}), strict=True)
    difference = max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)
    if not difference <= TOLERANCE * max(np.abs(ours).max() for ours, _ in pairs):  # NaN differs too
        raise UserError(
            f"the ONNX file's answers differ from torch's by {difference:.2g}, so it was not kept: "
            f"try another version of torch, onnxscript or onnxruntime"
        )
    return {"input": ("N", 3, size, size), "output": ("N", pairs[0][0].shape[1]), "difference": difference}
