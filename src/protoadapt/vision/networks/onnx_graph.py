"""The stages of a network as an ONNX graph, written directly: nothing but onnxruntime is needed to run it.

torch.fx lists the operations of a network, `write_operation` says what each is in ONNX, and `message` writes protobuf's
wire format, of which ONNX needs three kinds: integers, floats and byte strings. The same network gives the same bytes.
Field numbers are those of onnx.proto; a test parses the result with the onnx package.
"""

import operator
import struct
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx, nn

from protoadapt.vision.networks.lite import Convolution

IR_VERSION, OPSET = 8, 17
FLOAT = 1  # of TensorProto.DataType
Attribute = float | str | list[int]


class UnknownOperation(Exception):
    """An operation of a network that is not in OPERATIONS; the text names it."""


def message(*fields: tuple[int, Any]) -> bytes:
    """A protobuf message: pairs of a field's number and its value, an int, a float, a str or bytes."""
    parts = []
    for number, value in fields:
        match value:
            case int():
                parts += [_varint(number << 3), _varint(value & (1 << 64) - 1)]
            case float():
                parts += [_varint(number << 3 | 5), struct.pack("<f", value)]
            case str() | bytes():
                content = value.encode() if isinstance(value, str) else value
                parts += [_varint(number << 3 | 2), _varint(len(content)), content]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; the eighth says that more follow."""
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def graph_of(stages: Iterable[nn.Module]) -> bytes:
    """Write the stages of a network (`Staged.stages`) as an ONNX file, from `x` (N, 3, H, W) to (N, C, H', W') float32.

    Raises UnknownOperation where a stage computes something that `write_operation` does not know.
    """
    root = nn.Sequential(*stages).eval()
    writer, start = Writer(), "x"
    name_of: dict[fx.Node, str] = {}
    for node in _Tracer().trace(root).nodes:
        inputs = [name_of[argument] for argument in node.args if isinstance(argument, fx.Node)]
        if node.op == "placeholder":
            name_of[node] = start
        elif node.op == "output":
            [end] = inputs
        else:
            operation = root.get_submodule(str(node.target)) if node.op == "call_module" else node.target
            name_of[node] = write_operation(writer, operation, inputs, node.args, node.kwargs)
    batch_of_maps = b"".join(message((1, message((2, axis)))) for axis in "NCHW")
    kind = message((1, message((1, FLOAT), (2, batch_of_maps))))
    ends = [message((1, name), (2, kind)) for name in (start, end)]
    nodes, weights = [(1, node) for node in writer.nodes], [(5, weight) for weight in writer.weights]
    graph = message(*nodes, (2, "protoadapt"), *weights, (11, ends[0]), (12, ends[1]))
    return message((1, IR_VERSION), (2, "protoadapt"), (7, graph), (8, message((1, ""), (2, OPSET))))


class _Tracer(fx.Tracer):
    """A padded convolution computes its padding from the size of its input, which a trace does not know."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Convolution) or super().is_leaf_module(m, module_qualified_name)


class Writer:
    """Collects the nodes and the weights of a graph."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.weights: list[bytes] = []

    def add(self, kind: str, inputs: Iterable[str], **attributes: Attribute) -> str:
        """Add a node; returns the name of its output."""
        output = f"h{len(self.nodes)}"
        described = [(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(message(*((1, name) for name in inputs), (2, output), (4, kind), *described))
        return output

    def weight(self, tensor: Tensor) -> str:
        """Add a constant; returns its name."""
        values = tensor.detach().float().contiguous().numpy().astype("<f4")
        name = f"w{len(self.weights)}"
        sides = ((1, side) for side in values.shape)
        self.weights.append(message(*sides, (2, FLOAT), (8, name), (9, values.tobytes())))
        return name


def _attribute(name: str, value: Attribute) -> bytes:
    match value:  # the last field is the kind of the attribute
        case int():
            return message((1, name), (3, value), (20, 2))
        case float():
            return message((1, name), (2, value), (20, 1))
        case str():
            return message((1, name), (4, value), (20, 3))
        case list():
            return message((1, name), *((8, number) for number in value), (20, 7))


def write_operation(writer: Writer, operation: Any, inputs: list[str], args: tuple, kwargs: dict[str, Any]) -> str:
    """Write one operation, a module or a function that was called with `args`; returns the name of its output."""
    match operation:
        case Convolution():
            conv, *rest = operation
            x = _convolution(writer, conv, inputs[0], {"auto_pad": "SAME_UPPER"})
            for part in rest:
                x = write_operation(writer, part, [x], (), {})
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
        case nn.functional.max_pool2d if len(args) == 2:
            pool = nn.MaxPool2d(args[1], **kwargs)
            return write_operation(writer, pool, inputs, (), {})
    name = getattr(operation, "__name__", type(operation).__name__)
    raise UnknownOperation(f"{name} is not among the operations that are written as ONNX")


def _convolution(writer: Writer, conv: Any, x: str, padding: dict[str, Attribute]) -> str:
    weights = [writer.weight(part) for part in (conv.weight, conv.bias) if part is not None]
    sides = {"kernel_shape": conv.kernel_size, "strides": conv.stride, "dilations": conv.dilation}
    shape: dict[str, Attribute] = {name: [*pair] for name, pair in sides.items()}
    return writer.add("Conv", [x, *weights], group=conv.groups, **shape, **padding)
