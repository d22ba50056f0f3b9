"""Every network stops and resumes at every mixing layer, and has the size that was published."""

import pytest
import torch

from protoadapt.core.errors import UserError
from protoadapt.vision.networks.backbones import BACKBONES, build, initialise
from protoadapt.vision.networks.timm_features import load_timm

PARAMETERS = {"resnet12": 7.99, "conv4": 0.11, "resnet12-wide": 12.42}
DIMENSIONS = {"resnet12": 512, "conv4": 64, "resnet12-wide": 640}


@pytest.mark.parametrize("name", BACKBONES)
def test_published_size(name):
    network = build(name)
    count = sum(p.numel() for p in network.parameters()) / 1e6
    assert count == pytest.approx(PARAMETERS[name], abs=0.01)
    assert network.dim == DIMENSIONS[name]


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", BACKBONES)
def test_stopping_and_resuming_at_every_layer_changes_nothing(name, training):
    network = build(name, width=4)
    initialise(network, torch.Generator().manual_seed(0))
    network.train(training)
    x = torch.rand(3, 3, 20, 20)
    with torch.no_grad():
        features = network(x)
        assert features.shape == (3, network.dim)
        assert features.min() >= 0
        assert features.std() > 0
        for layer in range(len(network.stages) + 1):
            assert torch.equal(network.forward_from(network.forward_to(x, layer), layer), features)
        assert torch.equal(network.forward_to(x, 0), x)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0, 8.0])
def test_features_are_a_generalised_mean_of_the_last_places(exponent):
    network = build("resnet12", width=2)
    initialise(network, torch.Generator().manual_seed(0))
    x = torch.rand(2, 3, 40, 40)
    with torch.no_grad():
        places = network.eval().forward_to(x, 4)
        features = network(x, exponent)
        assert places.shape[2:] == (2, 2)
        for row, dim in [(0, 0), (1, 7), (1, 15)]:
            four = [float(value) for value in places[row, dim].flatten()]
            by_hand = (sum(value**exponent for value in four) / 4) ** (1 / exponent)
            assert float(features[row, dim]) == pytest.approx(by_hand, rel=1e-5)
        assert (features <= places.amax((2, 3)) * (1 + 1e-5)).all()
        assert (features >= network(x) * (1 - 1e-5)).all()


def test_resnet12_block_against_its_definition():
    """Three 3×3 conv-BN with ReLU between, a 1×1 conv-BN shortcut, ReLU after the sum, 2×2 max-pool, no LeakyReLU."""
    network = build("resnet12", width=4).eval()
    block, x = network.stages[0], torch.randn(2, 3, 8, 8)
    kinds = [type(part).__name__ for part in network.modules()]
    assert kinds.count("Conv2d") == kinds.count("BatchNorm2d") == 16
    assert not {"LeakyReLU", "Dropout", "Dropout2d"} & set(kinds)
    with torch.no_grad():
        for bn in (block.bn1, block.bn2, block.bn3, block.shortcut_bn):
            bn.running_mean.normal_()
            bn.running_var.uniform_(0.5, 2)

        def norm(h, bn):
            scale = bn.weight / (bn.running_var + bn.eps).sqrt()
            return (h - bn.running_mean[:, None, None]) * scale[:, None, None] + bn.bias[:, None, None]

        def conv(h, layer):
            k = layer.weight.shape[-1]
            patches = torch.nn.functional.unfold(h, k, padding=k // 2)  # (B, C·k·k, H·W)
            return (layer.weight.flatten(1) @ patches).view(len(h), -1, *h.shape[2:])

        h = norm(conv(x, block.conv1), block.bn1).clamp_min(0)
        h = norm(conv(h, block.conv2), block.bn2).clamp_min(0)
        h = (norm(conv(h, block.conv3), block.bn3) + norm(conv(x, block.shortcut), block.shortcut_bn)).clamp_min(0)
        pooled = h.view(2, -1, 4, 2, 4, 2).amax((3, 5))
        torch.testing.assert_close(block(x), pooled, rtol=1e-4, atol=1e-5)


def test_weights_come_from_the_generator():
    def weights(seed):
        network = build("conv4", width=4)
        initialise(network, torch.Generator().manual_seed(seed))
        return torch.cat([p.flatten() for p in network.parameters()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_errors_name_the_way_out():
    with pytest.raises(UserError, match="did you mean 'resnet12'"):
        build("resnet-12")
    with pytest.raises(UserError, match="width is 0"):
        build("conv4", width=0)


def test_timm_is_asked_for_only_when_used(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(UserError, match="pip install"):
        load_timm("resnet18")
