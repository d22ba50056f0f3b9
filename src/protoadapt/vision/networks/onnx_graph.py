"""The stages of a network as an ONNX graph: torch.fx lists its operations, and each becomes a node.

The same network gives the same bytes. (`torch.onnx` would fold and rearrange them, and takes longer.)
"""

import json
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from protoadapt.vision.networks.lite import Convolution

IR_VERSION, OPSET = 8, 17


class UnknownOperation(Exception):
    """An operation of a network that `write_operation` does not know; the text names it."""


def graph_of(stages: Iterable[nn.Module], metadata: Mapping[str, Any]) -> bytes:
    """The stages of a network (`Staged.stages`) as an ONNX file, from `x` (N, 3, H, W) to (N, C, H', W') float32.

    `metadata` is kept in the file, each value as JSON. Raises UnknownOperation where a stage computes something that
    `write_operation` does not know, and ImportError without the onnx package.
    """
    from onnx import TensorProto, helper

    writer, name_of = Writer(), dict[fx.Node, str]()
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
    raise UnknownOperation(f"{name} is not among the operations that are written as ONNX")


def _convolution(writer: Writer, conv: Any, x: str, padding: dict[str, Any]) -> str:
    weights = [writer.weight(part) for part in (conv.weight, conv.bias) if part is not None]
    sides = {"kernel_shape": conv.kernel_size, "strides": conv.stride, "dilations": conv.dilation}
    shape: dict[str, Any] = {name: [*pair] for name, pair in sides.items()}
    return writer.add("Conv", [x, *weights], group=conv.groups, **shape, **padding)
