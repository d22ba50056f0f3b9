"""DropBlock against its definition, place by place."""

import pytest
import torch

from protoadapt.vision.networks.backbones import build, initialise
from protoadapt.vision.networks.staged import drop_blocks


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


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


def test_only_the_last_two_stages_have_noise():
    network = build("resnet12", width=2).eval()
    initialise(network, seeded())
    x, sizes = torch.rand(2, 3, 32, 32), []

    def noise(h):
        sizes.append(tuple(h.shape[1:]))
        return h

    with torch.no_grad():
        plain = network(x)
        for layer in range(5):
            sizes.clear()
            assert torch.equal(network.forward_from(network.forward_to(x, layer, noise), layer, noise=noise), plain)
            assert sizes == [(8, 4, 4), (16, 2, 2)]
