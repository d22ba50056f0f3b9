"""ONNX files: the embedding network or, with a fitted classifier, everything from pixels to class probabilities.

Input: `pixels` (N, 3, size, size), uint8, RGB, any N: decoded pictures resized to size × size, which the file
normalises itself. Output: `features` (N, D); with a classifier `probabilities` (N, W) in the order of the metadata's
`classes`, and `density` (N). Metadata, each value JSON: size, mean, std, backbone, dataset, crop, weights; with a
classifier also classes, the groups without a name after them, temperature (already applied to the probabilities) and
threshold: a picture whose density is below it belongs to none of the classes (null where none does).

onnxruntime runs the file beside torch before it gets its name; a file that differs is not kept.
"""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output, written_whole
from protoadapt.core.prototype_model import log_density
from protoadapt.labeling.classifier import Classifier, load_same
from protoadapt.vision import networks
from protoadapt.vision.networks.engines import TORCH, exported
from protoadapt.vision.networks.joined import Joined
from protoadapt.vision.networks.onnx_file import OnnxFeatures, open_onnx

TOLERANCE = 1e-3
"""Largest accepted difference between torch and onnxruntime, relative to the largest output."""
_OURS = re.compile(rb"\n\x08backbone\x12.{,500}\n\x04crop\x12", re.DOTALL)
"""What shows that a file was written here: metadata, as protobuf has them."""
KEPT = ("size", "mean", "std", "backbone", "dataset", "crop", "weights")


class FromPixels(nn.Module):
    """A network behind the normalisation of decoded pixels, and a classifier behind the network, if there is one."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, metadata: Mapping[str, Any], classifier: Classifier | None):
        super().__init__()
        self.network, self.classifier = network, classifier
        for key in ("mean", "std"):
            self.register_buffer(key, 255 * torch.tensor(metadata[key]).view(3, 1, 1))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        rows = self.network((pixels.float() - self.mean) / self.std)
        if self.classifier is None:
            return (rows,)
        logits = self.classifier.logits(rows)
        return (logits / self.classifier.temperature).softmax(1), log_density(logits)


def export(name: str | Path, out: str | Path, classifier: Classifier | None = None) -> dict[str, Any]:
    """Writes a network, or a network with a classifier behind it, as an ONNX file, and checks it against torch.

    Parameters
    ----------
    name : the network: a name that `protoadapt models` lists, or a model file.
    out : the file, ending in .onnx.
    classifier : fitted on features of this network; the file then answers with class probabilities.

    Returns
    -------
    `input` and `output` shapes, `difference` (the largest to torch) and `bytes`.

    Examples
    --------
    >>> export("lite0", "trees.onnx", load_classifier("named/classifier.safetensors"))["output"]
    ('N', 2)
    """
    out = Path(out)
    if check_output(out, name, kind=_OURS).suffix != ".onnx":
        raise UserError(f"{out.name!r} is no name for an ONNX file: end it in .onnx")
    load = partial(networks.load, engine=TORCH)
    if classifier is None:
        network, about = load(name)
    elif (views := classifier.model.get("views", 1)) > 1:
        raise UserError(
            f"the classifier was fitted on features of {views} views per picture and an ONNX file takes one: extract "
            f"with --views 1 and label again"
        )
    else:
        made = classifier.model["name"], classifier.model["weights"]
        network, about = load_same(name, *made, "the classifier was", load)
    if isinstance(network, OnnxFeatures | Joined):
        raise UserError(
            f"{str(name)!r} is an ONNX file already, or joins several networks: export each model that it was made from"
        )
    metadata = {key: about[key] for key in KEPT} | ({"resize": about["resize"]} if about.get("resize") else {})
    outputs = ["features"]
    if classifier is not None:
        classifier, outputs = classifier.to("cpu"), ["probabilities", "density"]
        metadata |= {key: getattr(classifier, key) for key in ("temperature", "threshold")}
        metadata["classes"] = classifier.classes + classifier.groups
    module = FromPixels(network, about, classifier)
    module.eval()
    with written_whole(out) as file:
        pixels = torch.zeros(2, 3, about["size"], about["size"], dtype=torch.uint8)
        free = ({0: torch.export.Dim("N")},)
        file.write_bytes(exported(module, pixels, "pixels", outputs, metadata, free))
        return {**_compared(file, module, about["size"]), "bytes": file.stat().st_size}


@torch.no_grad()
def _compared(file: Path, network: nn.Module, size: int) -> dict[str, Any]:
    """Compares onnxruntime with torch on one picture and on five: noise, and smooth ones as photographs are."""
    session, generator = open_onnx(file), torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (2, 3, size, size), generator=generator, dtype=torch.uint8)
    coarse = torch.rand(3, 3, 4, 4, generator=generator)
    smooth = (255 * nn.functional.interpolate(coarse, (size, size), mode="bilinear")).byte()
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for pixels in (noise[:1], torch.cat([smooth, noise])):
        ours = [part.numpy() for part in network(pixels)]
        pairs += zip(ours, session.run(None, {"pixels": pixels.numpy()}), strict=True)
    difference = float(max(np.abs(ours - theirs).max() for ours, theirs in pairs))
    if not difference <= TOLERANCE * max(np.abs(ours).max() for ours, _ in pairs):  # NaN differs too
        raise UserError(
            f"the ONNX file's answers differ from torch's by {difference:.2g}, so it is not kept: "
            f"try another version of torch, onnxscript or onnxruntime"
        )
    return {"input": ("N", 3, size, size), "output": ("N", pairs[0][0].shape[1]), "difference": difference}
