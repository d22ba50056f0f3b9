"""onnxruntime and torch: the same features, and torch wherever onnxruntime fails."""

import os
import subprocess
import sys
import types
from functools import partial

import onnx
import pytest
import torch
from helpers.networks import random_network
from torch import nn

from protoadapt import UserError
from protoadapt.vision import networks
from protoadapt.vision.networks import cards, engines
from protoadapt.vision.networks.backbones import BACKBONES, Stage, Staged, generalised_mean
from protoadapt.vision.networks.engines import AGREE, agreement, chosen_engine, graph_of

INSTALLED = [name for name in networks.names() if cards.weights_file(name)]


def about(side: int) -> dict:
    return {"size": side, "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3]}


@pytest.mark.parametrize("name", INSTALLED)
def test_onnxruntime_and_torch_agree_on_every_named_network(name):
    (slow, own), (fast, metadata) = networks.load(name, engine="torch"), networks.load(name)
    assert (own["engine"], metadata["engine"]) == ("torch", "onnxruntime")
    assert agreement(slow, fast, metadata["size"], pictures=3) >= AGREE


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("side", [33, 40])
def test_they_agree_on_every_backbone(name, side):
    network = random_network(name)
    fast, engine = chosen_engine(network, about(side), "cpu", None)
    assert engine == "onnxruntime"
    x = torch.randn(3, 3, side, side)
    with torch.inference_mode():
        torch.testing.assert_close(fast(x), network(x), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fast(x, pooling=3.0), network(x, pooling=3.0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_the_graph_is_valid_and_always_the_same(name):
    network = random_network(name)
    content = graph_of(network.stages, about(32))
    onnx.checker.check_model(onnx.load_model_from_string(content), full_check=True)
    assert content == graph_of(network.stages, about(32))


def test_features_depend_neither_on_the_batch_nor_on_the_threads(monkeypatch):
    """To the last bit."""
    network, x = random_network("resnet12"), torch.randn(7, 3, 32, 32)
    rows = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        fast, _ = chosen_engine(network, about(32), "cpu", "onnxruntime")
        rows += [fast(x), torch.cat([fast(part) for part in x.split(2)])]
    assert all(torch.equal(other, rows[0]) for other in rows[1:])


def test_pixels_are_normalised_to_the_last_bit_as_torch_does():
    metadata = about(32)
    fast, _ = chosen_engine(random_network("resnet12"), metadata, "cpu", "onnxruntime")
    pixels = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    mean, std = (255 * torch.tensor(metadata[key]).view(3, 1, 1) for key in ("mean", "std"))
    x = (pixels - mean) / std
    assert torch.equal(fast(pixels), fast(x))
    for pooling in (1.0, 2.0):
        torch.testing.assert_close(fast(x, pooling), generalised_mean(fast.maps_from(x), pooling))


def failing(*args, **kwargs):
    raise RuntimeError("no room")


@pytest.mark.parametrize("trouble", ["not installed", "too old", "no session", "another answer", "NaN"])
def test_torch_computes_where_onnxruntime_cannot(trouble, monkeypatch):
    if trouble == "not installed":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    elif trouble == "too old":
        monkeypatch.setitem(sys.modules, "onnxruntime", types.ModuleType("onnxruntime"))
    elif trouble == "no session":
        monkeypatch.setattr("onnxruntime.InferenceSession", failing)
    else:
        wrong = {"another answer": partial(torch.add, 0.5), "NaN": partial(torch.mul, torch.nan)}[trouble]
        right = engines.OnnxNetwork.forward
        monkeypatch.setattr(engines.OnnxNetwork, "forward", lambda self, x: wrong(right(self, x)))
    network = random_network("conv4")
    assert chosen_engine(network, about(32), "cpu", None) == (network, "torch")
    with pytest.raises(UserError, match=r"onnxruntime does not compute this network"):
        chosen_engine(network, about(32), "cpu", "onnxruntime")


def test_a_network_with_an_unknown_operation_stays_in_torch():
    network = Staged([Stage(nn.Conv2d(3, 4, 3), nn.Softplus())], 4)
    with pytest.raises(match="Softplus"):
        graph_of(network.stages, {})
    assert chosen_engine(network, about(16), "cpu", None) == (network, "torch")


def test_onnxruntime_is_for_cpus():
    with pytest.raises(UserError, match="use --device cpu"):
        chosen_engine(random_network("conv4"), about(16), "meta", "onnxruntime")


def test_onnxruntime_leaves_no_session_file(tmp_path):
    """It is imported without its telemetry."""
    code = "from protoadapt.vision.networks.onnx_engine import import_onnxruntime; import_onnxruntime()"
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment | {"TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
