"""Features of both signs, as of ViT, CLIP or DINOv2: a rotation makes them of rectified ones and keeps distances."""

import numpy as np
import pytest
import torch

from protoadapt import Protocol, evaluate

ROTATION_FREE = ("protonet", "cipa(power=off)", "bapa(power=off)", "soft_kmeans")
"""Methods that know features by their angles and distances alone."""


@pytest.fixture(scope="module")
def rectified() -> tuple[torch.Tensor, torch.Tensor]:
    """20 pictures of each of 8 classes, close enough for mistakes."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 20)
    rows = np.maximum(rng.normal(size=(8, 24))[labels] + 1.4 * rng.normal(size=(160, 24)), 0)
    return torch.from_numpy(rows).float(), torch.from_numpy(labels)


def turned(rows: torch.Tensor) -> torch.Tensor:
    basis, _ = torch.linalg.qr(torch.randn(24, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    return (rows.double() @ basis).float()


@pytest.mark.parametrize("method", ROTATION_FREE)
def test_without_the_power_transform_a_rotation_changes_nothing(rectified, method):
    rows, labels = rectified
    protocol = Protocol(way=5, shot=1, query=10)
    own, signed = (evaluate(x, labels, method, protocol, episodes=50).accuracy for x in (rows, turned(rows)))
    assert 40 < own < 95
    assert signed == pytest.approx(own, abs=0.1)


@pytest.mark.parametrize("method", ["bapa", "cipa(power=auto)", "pt_map(power=auto)"])
def test_with_it_signed_features_are_still_named(rectified, method):
    """Each entry keeps its sign; the answers differ from those of the rectified features, and beat chance by far."""
    rows, labels = rectified
    signed = turned(rows)
    assert (signed < 0).float().mean() > 0.3
    assert evaluate(signed, labels, method, Protocol(way=5, shot=1, query=10), episodes=50).accuracy > 40
