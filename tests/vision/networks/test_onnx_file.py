"""ONNX files of others: the mean over places of each channel."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from protoadapt import UserError
from protoadapt.vision import networks
from protoadapt.vision.embed import embed

SIZE = 16
FINE = {"mean": [0, 0, 0], "std": [1, 1, 1]}
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 3, SIZE, SIZE), dtype=np.uint8)


def foreign(path, shape=("N", 3, SIZE, SIZE), kind=TensorProto.FLOAT, inputs=1, **metadata):
    given = [helper.make_tensor_value_info(f"x{i}", kind, shape) for i in range(inputs)]
    nodes = [helper.make_node("GlobalAveragePool", ["x0"], ["y"])]
    answer = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_model(
        helper.make_graph(nodes, "g", given, [answer]), opset_imports=[helper.make_opsetid("", 18)]
    )
    graph.ir_version = 9
    helper.set_model_props(graph, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.save(graph, path)
    return path


@pytest.mark.parametrize("batch", ["N", 1])
def test_a_foreign_file_that_says_how_pictures_are_made(tmp_path, batch):
    file = foreign(tmp_path / "f.onnx", (batch, 3, "H", "W"), size=SIZE, mean=[0.5, 0.5, 0.5], std=[0.25, 0.5, 1])
    network, about = networks.load(file)
    want = (PIXELS.mean((2, 3)) / 255 - 0.5) / [0.25, 0.5, 1]
    np.testing.assert_allclose(embed(network, about, PIXELS), want, rtol=1e-4, atol=1e-5)
    assert about["dim"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "size, mean and std into its metadata"),
        ({"mean": [0, 0, 0], "std": [1, 0, 1]}, "size, mean and std into its metadata"),
        ({"mean": [10**400] * 3, "std": [1, 1, 1]}, "size, mean and std into its metadata"),
        ({"mean": [0, 0], "std": [1, 1]}, "size, mean and std into its metadata"),
        (FINE | {"shape": ("N", 3, 9000, 9000)}, "8 to 1024"),
        (FINE | {"shape": ("N", 1, SIZE, SIZE)}, "fails on 1 picture of 16 pixels"),
        (FINE | {"inputs": 2}, "fails on 1 picture of 16 pixels"),
        (FINE | {"shape": (4, 3, SIZE, SIZE)}, "a free batch size"),
    ],
)
def test_foreign_files_that_cannot_be_fed_are_named(tmp_path, arguments, said):
    with pytest.raises(UserError, match=said):
        networks.load(foreign(tmp_path / "f.onnx", **arguments))


@pytest.mark.parametrize("shape", [(1, 5), (3, 5), (2, 5), (3, 0)])
def test_a_network_whose_rows_are_not_its_pictures_is_named(tmp_path, shape):
    """Its answer has one shape, whatever it is given."""
    file = foreign(tmp_path / "f.onnx", size=SIZE, **FINE)
    graph = onnx.load(file)
    answer = helper.make_tensor("c", TensorProto.FLOAT, shape, np.zeros(shape, np.float32).ravel())
    graph.graph.node[0].CopyFrom(helper.make_node("Constant", [], ["y"], value=answer))
    onnx.save(graph, file)
    with pytest.raises(UserError, match="one row per picture"):
        networks.load(file)


def test_words_of_a_file_are_text_that_can_be_written(tmp_path):
    about = networks.load(foreign(tmp_path / "f.onnx", size=SIZE, **FINE, dataset="\ud800", crop=[1]))[1]
    assert (about["dataset"], about["crop"]) == ("?", "[1]")


def test_a_file_that_is_no_onnx_is_named(tmp_path):
    (tmp_path / "f.onnx").write_bytes(b"hello, this is no network at all")
    with pytest.raises(UserError, match="cannot be read as ONNX"):
        networks.load(tmp_path / "f.onnx")


def test_weights_in_another_file_are_refused_which_its_hash_would_not_cover(tmp_path):
    file = foreign(tmp_path / "f.onnx", size=SIZE, **FINE)
    graph = onnx.load(file)
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    graph.graph.node.append(helper.make_node("Identity", ["w"], ["z"]))
    onnx.save(graph, file, save_as_external_data=True, location="w.bin", size_threshold=0)
    with pytest.raises(UserError, match=r"keeps weights in another file.*onnx\.save\(onnx\.load"):
        networks.load(file)
    onnx.save(onnx.load(file), file)
    networks.load(file)
