"""Joined networks: the unit features of each, side by side."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.networks import save_model

from protoadapt import UserError
from protoadapt.labeling.onnx_export import export
from protoadapt.vision import networks
from protoadapt.vision.embed import embed
from protoadapt.vision.networks import cards
from protoadapt.vision.networks.engines import agreement, engine_threads

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), dtype=np.uint8)


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Two tiny networks in the place of shipped ones, with inputs of the same size."""
    for seed, name in enumerate(("cub", "cifar-fs")):
        save_model(tmp_path / f"{name}.safetensors", seed)
    monkeypatch.setattr(cards, "WEIGHTS", tmp_path)


@pytest.mark.parametrize("engine", ["torch", "onnxruntime"])
def test_features_are_those_of_each_network_of_unit_length(named, engine):
    parts = [embed(*networks.load(name, engine=engine), PIXELS) for name in ("cub", "cifar-fs")]
    network, metadata = networks.load("cub+cifar-fs", engine=engine)
    rows = embed(network, metadata, PIXELS)
    torch.testing.assert_close(rows, torch.cat([F.normalize(part) for part in parts], 1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(rows.norm(dim=1), torch.full((5,), 2**0.5))
    assert (metadata["engine"], metadata["dim"]) == (engine, rows.shape[1])
    assert (engine_threads(network) > 0) == (engine == "onnxruntime")


def test_the_order_and_the_weights_are_part_of_what_it_is(named):
    hashes = [networks.load(name)[1]["weights"] for name in ("cub", "cub+cub", "cub+cifar-fs", "cifar-fs+cub")]
    assert len(set(hashes)) == 4


def test_only_named_networks_are_joined(named, tmp_path):
    with pytest.raises(UserError, match="no model"):
        networks.load("cub+timm:resnet18")
    with pytest.raises(UserError, match="no model"):
        networks.load("cub+dogs")
    with pytest.raises(UserError, match="export each model"):
        export("cub+cifar-fs", tmp_path / "both.onnx")


@pytest.mark.skipif(
    not all(cards.weights_file(name) for name in ("lite0", "cub")), reason="lite0 or the shipped networks are missing"
)
def test_a_smaller_input_is_made_from_the_larger_one():
    """A constant picture stays constant when it is reduced, so each network answers as it does alone."""
    network, metadata = networks.load("lite0+cub")
    assert metadata["size"] == 224
    rows = embed(network, metadata, np.full((1, 3, 224, 224), 90, np.uint8))
    for name, part in (("lite0", rows[:, :1280]), ("cub", rows[:, 1280:])):
        own, about = networks.load(name)
        alone = embed(own, about, np.full((1, 3, about["size"], about["size"]), 90, np.uint8))
        torch.testing.assert_close(part, F.normalize(alone), rtol=1e-3, atol=1e-4)
    assert agreement(network, networks.load("lite0+cub", engine="torch")[0], 224) >= 0.99999
