"""Every network stops and resumes at every mixing layer, and has the size that was published."""

import pytest
import torch
from helpers.networks import random_network

from protoadapt.core.errors import UserError
from protoadapt.vision.networks.backbones import BACKBONES, build, drop_blocks, generalised_mean

PARAMETERS = {"resnet12": 7.99, "conv4": 0.11, "resnet12-wide": 12.42}
DIMENSIONS = {"resnet12": 512, "conv4": 64, "resnet12-wide": 640}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", BACKBONES)
def test_published_size(name):
    network = build(name)
    count = sum(p.numel() for p in network.parameters()) / 1e6
    assert count == pytest.approx(PARAMETERS[name], abs=0.01)
    assert network.dim == DIMENSIONS[name]


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", BACKBONES)
def test_stopping_and_resuming_at_every_layer_changes_nothing(name, training):
    network = random_network(name).train(training)
    x = torch.rand(3, 3, 20, 20)
    with torch.no_grad():
        features = network(x)
        assert features.shape == (3, network.dim)
        assert features.min() >= 0
        assert features.std() > 0
        for layer in range(len(network.stages) + 1):
            assert torch.equal(generalised_mean(network.maps_from(network.forward_to(x, layer), layer), 1.0), features)
        assert torch.equal(network.forward_to(x, 0), x)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0, 8.0])
def test_features_are_a_generalised_mean_of_the_last_places(exponent):
    network, x = random_network("resnet12", 2), torch.rand(2, 3, 40, 40)
    with torch.no_grad():
        places = network.forward_to(x, 4)
        features = network(x, exponent)
        assert places.shape[2:] == (2, 2)
        for row, dim in [(0, 0), (1, 7), (1, 15)]:
            four = [float(value) for value in places[row, dim].flatten()]
            by_hand = (sum(value**exponent for value in four) / 4) ** (1 / exponent)
            assert float(features[row, dim]) == pytest.approx(by_hand, rel=1e-5)
        assert (features <= places.amax((2, 3)) * (1 + 1e-5)).all()
        assert (features >= network(x) * (1 - 1e-5)).all()


def test_resnet12_has_the_papers_parts():
    """How they follow each other is written out in test_film.py."""
    kinds = [type(part).__name__ for part in build("resnet12", width=4).modules()]
    assert kinds.count("Conv2d") == kinds.count("BatchNorm2d") == 16
    assert not {"LeakyReLU", "Dropout", "Dropout2d"} & set(kinds)


def test_errors_name_the_way_out():
    with pytest.raises(UserError, match="did you mean 'resnet12'"):
        build("resnet-12")
    with pytest.raises(UserError, match="width is 0"):
        build("conv4", width=0)


@pytest.mark.parametrize(("height", "width", "side"), [(10, 10, 5), (5, 5, 5), (3, 7, 5), (6, 6, 2), (1, 1, 5)])
def test_squares_about_the_drawn_corners_are_gone(height, width, side):
    share, edge = 0.3, min(side, height, width)
    h = 1 + torch.rand(4, 3, height, width)
    free = (height - edge + 1, width - edge + 1)
    gamma = share * height * width / (edge**2 * free[0] * free[1])
    corners = torch.rand((4, 3, *free), generator=seeded()) < gamma
    kept = torch.ones_like(h)
    for picture, channel, y, x in corners.nonzero().tolist():
        kept[picture, channel, y : y + edge, x : x + edge] = 0
    dropped = drop_blocks(h, share, seeded(), side)
    torch.testing.assert_close(dropped, h * kept * kept.numel() / kept.sum())
    assert 0 < kept.mean() < 1


@pytest.mark.parametrize("side", [5, 10])
def test_the_share_is_hit_and_the_mean_stays(side):
    """Squares overlap, so that a little less than the share is hit: of places that n squares cover, 1 − (1 − γ)ⁿ."""
    dropped = drop_blocks(torch.ones(64, 256, side, side), 0.1, seeded())
    gone = float((dropped == 0).float().mean())
    gamma = 0.1 * side**2 / (25 * (side - 4) ** 2)
    covering = torch.tensor([len(range(max(0, i - 4), min(i, side - 5) + 1)) for i in range(side)])
    expected = float((1 - (1 - gamma) ** (covering[:, None] * covering[None]).double()).mean())
    assert gone == pytest.approx(expected, rel=0.03)
    assert float(dropped.mean()) == pytest.approx(1, rel=1e-4)


def test_everything_gone_is_zero_not_nan():
    assert not drop_blocks(torch.ones(1, 1, 2, 2), 0.999999, seeded(3), 2).isnan().any()


def test_only_the_last_two_stages_drop_anything():
    network, x, sizes = random_network("resnet12", 2), torch.rand(2, 3, 32, 32), []

    def drop(h):
        sizes.append(tuple(h.shape[1:]))
        return h

    with torch.no_grad():
        plain = network.maps_from(x, 0)
        for layer in range(5):
            sizes.clear()
            assert torch.equal(network.maps_from(network.forward_to(x, layer, drop), layer, drop), plain)
            assert sizes == [(8, 4, 4), (16, 2, 2)]
