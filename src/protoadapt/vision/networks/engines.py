"""Engines: which program computes a network. On a CPU onnxruntime is up to three times as fast as torch.

The networks of this package and the Lite networks are handed to onnxruntime as a graph that is written in memory when
they are loaded. Its features must agree with torch's on a test picture, or torch computes them; then it is kept for
commands that only embed files (`onnx_engine`). docs/speed.md has the measurements.
"""

import json
import logging
import operator
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from protoadapt.core.errors import UserError, install
from protoadapt.vision.networks.backbones import Drop, Staged
from protoadapt.vision.networks.lite import Convolution
from protoadapt.vision.networks.onnx_engine import ONNXRUNTIME, OnnxEngine, keep_graph

TORCH = "torch"
IR_VERSION, OPSET = 8, 17
AGREE = 0.99999
"""Least cosine of the features of two engines."""


class OnnxNetwork(Staged):
    """A network in onnxruntime. Beside normalised float32 it takes pixels, uint8, and normalises them itself.

    Nothing here wakes the threads of torch: for some milliseconds after a piece of work they wait actively for the
    next, on the cores that compute pictures. That took a fifth of all time.
    """

    def __init__(self, engine: OnnxEngine, dim: int):
        super().__init__([], dim)
        self.engine = engine

    def maps_from(self, h: Tensor, layer: int = 0, drop: Drop | None = None) -> Tensor:
        """(B, 3, H, W) to (B, C, H', W')."""
        return torch.from_numpy(self.engine.maps(h.contiguous().numpy()))

    def forward(self, x: Tensor, pooling: float = 1.0) -> Tensor:
        """(B, 3, H, W) to (B, C)."""
        return torch.from_numpy(self.engine.features(x.contiguous().numpy(), pooling))


class OnnxPooled(OnnxNetwork):
    """Of a network that pools its features itself: its maps have one position."""


def engine_threads(network: nn.Module) -> int:
    """Pictures that onnxruntime computes at once; 0 where torch computes."""
    return next((part.engine.threads for part in network.modules() if isinstance(part, OnnxNetwork)), 0)


def chosen_engine(
    network: nn.Module, metadata: Mapping[str, Any], device: str, engine: str | None, keep: str | None = None
) -> tuple[nn.Module, str]:
    """A network as its engine computes it, and the engine's name.

    engine : TORCH, ONNXRUNTIME (UserError where that cannot be), or None for the faster one on this device: onnxruntime
        on a CPU, if it is installed and agrees with torch.
    metadata : as of `networks.load`.
    keep : what to keep a graph under that agrees with torch, for the next time (`onnx_engine.kept_network`).
    """
    on_cpu = torch.device(device).type == "cpu"
    if engine == ONNXRUNTIME and not on_cpu:
        raise UserError(f"onnxruntime computes on the CPU, not on {device!r}: use --device cpu")
    if engine != TORCH and on_cpu:
        try:
            if isinstance(network, Staged):
                graph, kind, dim = graph_of(network.stages, metadata), OnnxNetwork, network.dim
            else:
                graph, kind, dim = pooled_graph(network, metadata), OnnxPooled, metadata["dim"]
            fast = kind(OnnxEngine(graph, torch.get_num_threads()), dim).eval()
            cosine = agreement(network, fast, metadata["size"])
            if not cosine >= AGREE:  # NaN does not agree
                raise UserError(f"its features differ from torch's, cosine {cosine:.6f}")
            if keep:
                keep_graph(graph, keep)
            return fast, ONNXRUNTIME
        except Exception as error:  # not installed, too old, out of memory: torch computes the same features
            if engine == ONNXRUNTIME:
                raise UserError(f"onnxruntime does not compute this network ({error}): {install('label')}") from error
    return network.to(device=device, memory_format=torch.channels_last).eval(), TORCH  # type: ignore[call-overload]


@torch.inference_mode()
def agreement(one: nn.Module, other: nn.Module, size: int, pictures: int = 1) -> float:
    """The least cosine of two networks' features of the same pictures: noise over smooth shapes, always the same."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(pictures, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, (size, size), mode="bilinear")
    x = smooth + 0.5 * torch.randn(pictures, 3, size, size, generator=generator)
    return float(nn.functional.cosine_similarity(one(x), other(x)).min())


def graph_of(stages: Iterable[nn.Module], metadata: Mapping[str, Any]) -> bytes:
    """The stages of a network (`Staged.stages`) as an ONNX file, from `x` (N, 3, H, W) to (N, C, H', W') float32.

    torch.fx lists the operations, and each becomes a node: the same network gives the same bytes. (`torch.onnx` would
    fold and rearrange them, and takes longer.) `metadata` is kept in the file, each value as JSON. Raises
    NotImplementedError where a stage computes something that `write_operation` does not know, and ImportError without
    the onnx package.
    """
    from onnx import TensorProto, helper

    writer = Writer()
    name_of: dict[fx.Node, str] = {}
    root = nn.Sequential(*stages).eval()
    end = "x"
    for node in _Tracer().trace(root).nodes:
        inputs = [name_of[argument] for argument in node.args if isinstance(argument, fx.Node)]
        if node.op == "placeholder":
            name_of[node] = "x"
        elif node.op == "output":
            [end] = inputs
        else:
            operation = root.get_submodule(str(node.target)) if node.op == "call_module" else node.target
            name_of[node] = write_operation(writer, operation, inputs)
    start, stop = (helper.make_tensor_value_info(name, TensorProto.FLOAT, list("NCHW")) for name in ("x", end))
    graph = helper.make_graph(writer.nodes, "protoadapt", [start], [stop], initializer=writer.weights)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, producer_name="protoadapt", ir_version=IR_VERSION, opset_imports=opset)
    helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
    return model.SerializeToString(deterministic=True)


def exported(
    module: nn.Module,
    example: Tensor,
    inputs: str,
    outputs: list[str],
    metadata: Mapping[str, Any],
    dynamic: Any = None,
) -> bytes:
    """A module as torch exports it to ONNX, with metadata, each value as JSON. Needs onnx and onnxscript.

    example: an input; dynamic: which of its axes are of free size.
    """
    import onnx
    import onnxscript  # noqa: F401  (what torch's exporter needs)

    # The exporter warns of torchvision, which is not needed, and of deprecated code of its own.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            verbose=False,
            input_names=[inputs],
            output_names=outputs,
            dynamic_shapes=dynamic,
        )
    assert program is not None
    graph = program.model_proto
    onnx.helper.set_model_props(graph, {key: json.dumps(value) for key, value in metadata.items()})
    return graph.SerializeToString()


class _AsMaps(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        """(1, 3, H, W) to (1, D, 1, 1)."""
        return super().forward(x)[..., None, None]


def pooled_graph(network: nn.Module, metadata: Mapping[str, Any]) -> bytes:
    """A network that pools its features itself as an ONNX file for one picture, of the same form as `graph_of`."""
    size = metadata["size"]
    return exported(_AsMaps(network).eval(), torch.zeros(1, 3, size, size), "x", ["features"], metadata)


class _Tracer(fx.Tracer):
    """A padded convolution computes its padding from the size of its input, which a trace does not know."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Convolution) or super().is_leaf_module(m, module_qualified_name)


class Writer:
    """Collects the nodes and the weights of a graph."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, kind: str, inputs: Iterable[str], **attributes: Any) -> str:
        """Adds a node; returns the name of its output."""
        from onnx import helper

        output = f"h{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def weight(self, tensor: Tensor) -> str:
        """Adds a constant; returns its name."""
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(tensor.detach().float().contiguous().numpy(), name))
        return name


def write_operation(writer: Writer, operation: Any, inputs: list[str]) -> str:
    """Writes one operation, a module or a function of `inputs`; returns the name of its output."""
    match operation:
        case Convolution():
            conv, *rest = operation
            x = _convolution(writer, conv, inputs[0], {"auto_pad": "SAME_UPPER"})
            for part in rest:
                x = write_operation(writer, part, [x])
            return x
        case nn.Conv2d(padding=tuple() as around, padding_mode="zeros"):
            return _convolution(writer, operation, inputs[0], {"pads": [*around, *around]})
        case nn.BatchNorm2d(weight=Tensor(), running_mean=Tensor(), running_var=Tensor()):
            values = (operation.weight, operation.bias, operation.running_mean, operation.running_var)
            weights = [writer.weight(value) for value in values if value is not None]
            return writer.add("BatchNormalization", [*inputs, *weights], epsilon=operation.eps)
        case nn.MaxPool2d(kernel_size=int() as side, stride=int() as step, padding=0, dilation=1, ceil_mode=False):
            return writer.add("MaxPool", inputs, kernel_shape=[side, side], strides=[step, step])
        case nn.ReLU6():
            return writer.add("Clip", [*inputs, writer.weight(torch.tensor(0.0)), writer.weight(torch.tensor(6.0))])
        case nn.ReLU() | torch.relu:
            return writer.add("Relu", inputs)
        case nn.Identity():
            return inputs[0]
        case operator.add if len(inputs) == 2:
            return writer.add("Add", inputs)
    name = getattr(operation, "__name__", type(operation).__name__)
    raise NotImplementedError(f"{name} is not among the operations that are written as ONNX")


def _convolution(writer: Writer, conv: Any, x: str, padding: dict[str, Any]) -> str:
    weights = [writer.weight(part) for part in (conv.weight, conv.bias) if part is not None]
    sides = {"kernel_shape": conv.kernel_size, "strides": conv.stride, "dilations": conv.dilation}
    shape: dict[str, Any] = {name: [*pair] for name, pair in sides.items()}
    return writer.add("Conv", [x, *weights], group=conv.groups, **shape, **padding)
