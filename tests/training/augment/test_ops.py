"""Every operation against pillow on single images."""

import pytest
import torch
from helpers.twins import PILLOW, by_pillow, pictures
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.training.augment.ops import OPS
from protoadapt.training.augment.strong import RANGES

GEOMETRIC = {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"}
ENHANCE = ["contrast", "brightness", "color", "sharpness"]


def assert_like_pillow(name, images, magnitude):
    ours, theirs = OPS[name](images, magnitude), by_pillow(name, images, magnitude)
    assert ours.dtype == torch.uint8
    if name in GEOMETRIC:
        near = (ours.int() - theirs.int()).abs() <= 1
        assert near.flatten(1).float().mean(1).min() >= 0.99
    else:
        assert torch.equal(ours, theirs)


def test_fourteen_operations_have_a_range_and_a_pillow_twin():
    assert len(OPS) == 14
    assert OPS.keys() == RANGES.keys() == PILLOW.keys()


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=40, deadline=None)
@given(side=st.integers(8, 48), seed=st.integers(0, 2**32 - 1))
def test_operation_equals_pillow(name, side, seed):
    """Enhanced beyond the original, too, where values are clipped."""
    images = pictures(side, seed)
    low, high = RANGES[name] if name not in ENHANCE else (0.0, 2.0)
    magnitude = low + (high - low) * torch.rand(len(images), generator=torch.Generator().manual_seed(seed))
    before = images.clone()
    assert_like_pillow(name, images, magnitude)
    assert torch.equal(images, before)


def test_equalize_where_a_step_is_one_pixel():
    """Just over 255 pixels below the highest value: the table runs past 255 and is cut there."""
    side = 20
    values = torch.arange(side * side) * 255 // (side * side - 1)
    images = values.to(torch.uint8).view(1, 1, side, side).expand(1, 3, side, side).contiguous()
    assert_like_pillow("equalize", images, torch.zeros(1))
