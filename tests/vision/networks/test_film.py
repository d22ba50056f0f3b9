"""A network conditioned on episodes equals its layers written out, one picture at a time."""

import pytest
import torch
import torch.nn.functional as F
from helpers.networks import random_network

from protoadapt.vision.networks import film


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
    made, images = random_network(name, width), torch.randn(6, 3, 16, 16)
    some = conditions(made, 2)
    nothing = [(0 * gamma, 0 * beta) for gamma, beta in some]
    with torch.no_grad():
        for films in (some, nothing):
            found = film.conditioned(made, images, films)
            for i, image in enumerate(images):
                own = [(gamma[i // 3], beta[i // 3]) for gamma, beta in films]
                torch.testing.assert_close(found[i], by_hand(made, image, own), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found, made(images))


def test_pictures_are_found_by_number():
    made, pixels = random_network("conv4"), torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8).numpy()
    numbers, films = torch.tensor([[4, 0], [1, 4]]), conditions(made, 2)
    embed = film.embedder(made, lambda images: images / 255, pixels)
    with torch.no_grad():
        plain, found = embed(numbers, None), embed(numbers, films)
    images = torch.from_numpy(pixels) / 255
    with torch.no_grad():
        torch.testing.assert_close(plain, made(images[numbers.flatten()]).unflatten(0, (2, 2)))
        expected = film.conditioned(made, images[numbers.flatten()], films)
    torch.testing.assert_close(found, expected.unflatten(0, (2, 2)))
