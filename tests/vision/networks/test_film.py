"""A network conditioned on episodes equals its layers written out, one picture at a time."""

import pytest
import torch
import torch.nn.functional as F

from protoadapt.vision.networks import film
from protoadapt.vision.networks.backbones import build, initialise


def network(name, width):
    made = build(name, width)
    initialise(made, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for norm in (m for m in made.modules() if isinstance(m, torch.nn.BatchNorm2d)):
            norm.running_mean.uniform_(-0.1, 0.1)
            norm.weight.uniform_(0.5, 1.5)
    return made.eval()


def conditions(made, episodes):
    channels = [layer.num_features for layer in film.layers(made)]
    return [(0.3 * torch.randn(episodes, c), 0.3 * torch.randn(episodes, c)) for c in channels]


def by_hand(made, image, films):
    """ResNet-12 or Conv-4 on one picture, given γ and β (C,) of every convolution but the shortcuts'."""
    films = iter(films)

    def normed(h, conv, norm):
        gamma, beta = next(films)
        return (1 + gamma[:, None, None]) * norm(conv(h)) + beta[:, None, None]

    h = image[None]
    for stage in made.stages:
        if hasattr(stage, "conv1"):
            x = h
            h = torch.relu(normed(h, stage.conv1, stage.bn1))
            h = torch.relu(normed(h, stage.conv2, stage.bn2))
            h = torch.relu(normed(h, stage.conv3, stage.bn3) + stage.shortcut_bn(stage.shortcut(x)))
        else:
            h = torch.relu(normed(h, stage[0], stage[1]))
        h = F.max_pool2d(h, 2)
    return h.mean((2, 3))[0]


@pytest.mark.parametrize(("name", "width"), [("conv4", 4), ("resnet12", 2)])
def test_every_episode_has_its_own_conditions(name, width):
    made, images = network(name, width), torch.randn(6, 3, 16, 16)
    films = conditions(made, 2)
    with torch.no_grad():
        found = film.conditioned(made, images, films)
        for i, image in enumerate(images):
            own = [(gamma[i // 3], beta[i // 3]) for gamma, beta in films]
            torch.testing.assert_close(found[i], by_hand(made, image, own), atol=1e-5, rtol=1e-5)
        nothing = [(torch.zeros_like(gamma), torch.zeros_like(beta)) for gamma, beta in films]
        torch.testing.assert_close(film.conditioned(made, images, nothing), made(images))


def test_pictures_are_found_by_number():
    made, pixels = network("conv4", 4), torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8).numpy()
    numbers, films = torch.tensor([[4, 0], [1, 4]]), conditions(made, 2)
    embed = film.embedder(made, lambda images: images / 255, pixels)
    with torch.no_grad():
        plain, found = embed(numbers, None), embed(numbers, films)
    images = torch.from_numpy(pixels) / 255
    with torch.no_grad():
        torch.testing.assert_close(plain, made(images[numbers.flatten()]).unflatten(0, (2, 2)))
        expected = film.conditioned(made, images[numbers.flatten()], films)
    torch.testing.assert_close(found, expected.unflatten(0, (2, 2)))
