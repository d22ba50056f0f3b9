"""Rows of a dataset's pictures: pooling, and what cannot be kept."""

import numpy as np
import pytest
import torch

from protoadapt import UserError
from protoadapt.vision.extraction import extract_features
from protoadapt.vision.networks.backbones import Staged, build
from protoadapt.vision.pictures.split import Images


def test_pooling_changes_rows_and_base_mean_and_is_told(tmp_path):
    network, about = build("conv4", 4).eval(), {"mean": [0.5] * 3, "std": [0.25] * 3, "size": 32}
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
    images = Images(pixels, np.zeros(6, int), ["a"], list("abcdef"), [], "x", "novel", "none", tmp_path)
    table = extract_features(network, about, images, images, pooling=2.0)
    with torch.no_grad():
        wanted = network.forward_to((torch.from_numpy(pixels) / 255 - 0.5) / 0.25, 4).pow(2).mean((2, 3)).sqrt()
    assert torch.allclose(table.features, wanted, rtol=1e-4, atol=1e-5)
    assert torch.allclose(table.base_mean, wanted.mean(0), rtol=1e-4, atol=1e-5)
    assert table.metadata["pooling"] == 2
    plain = extract_features(network, about, images)
    assert plain.base_mean is None
    assert not torch.allclose(plain.features, wanted, rtol=0.01)
    for exponent in (0.5, 9.0, float("nan")):
        with pytest.raises(UserError, match="give 1 for the mean"):
            extract_features(network, about, images, pooling=exponent)
    with pytest.raises(UserError, match=r"views is 1000000000: .* from 1 to 1,024"):  # which would never end
        extract_features(network, about, images, views=10**9)
    with pytest.raises(UserError, match="pools its features itself"):
        extract_features(torch.nn.Flatten(), about, images, pooling=2.0)


class Strong(torch.nn.Module):
    """Features as large as asked for."""

    def __init__(self, factor):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, x):
        return self.factor * x.abs()


def test_rows_that_cannot_be_kept_are_refused_with_the_reason(tmp_path):
    about = {"mean": [0.5] * 3, "std": [0.25] * 3, "size": 8}
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 8, 8), dtype=np.uint8)
    images = Images(pixels, np.arange(2), ["a"], list("ab"), [], "x", "novel", "none", tmp_path)
    strong, damaged = (Staged([Strong(factor)], dim=3).eval() for factor in (1e6, float("nan")))
    assert torch.isfinite(extract_features(strong, about, images, images, pooling=2.0).features).all()
    with pytest.raises(UserError, match=r"features up to 2e\+06, too large for float16: scale them"):
        extract_features(strong, about, images, maps=True)
    with pytest.raises(UserError, match="its weights are damaged"):
        extract_features(damaged, about, images)
