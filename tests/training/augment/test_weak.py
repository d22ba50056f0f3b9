"""Weak views against numpy's padding and pillow's resizing."""

import numpy as np
import torch
from helpers.twins import generator, pictures
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from protoadapt.training.augment.weak import apply_weak, draw_weak


@settings(max_examples=25, deadline=None)
@given(side=st.integers(8, 40), seed=st.integers(0, 2**32 - 1))
def test_padded_shift_equals_numpy(side, seed):
    images = pictures(side, seed)
    draws = draw_weak(len(images), side, generator(seed))
    views = apply_weak(images, draws)
    p = side // 8
    for image, view, (dy, dx), flip in zip(images.numpy(), views.numpy(), draws["shift"].tolist(), draws["flip"]):
        padded = np.pad(image, ((0, 0), (p, p), (p, p)), mode="reflect")
        cut = padded[:, p + dy : p + dy + side, p + dx : p + dx + side]
        assert (view == (cut[:, :, ::-1] if flip else cut)).all()


@settings(max_examples=50, deadline=None)
@given(side=st.integers(8, 40), more=st.integers(0, 60), seed=st.integers(0, 2**32 - 1))
def test_a_window_equals_pillow_within_rounding(side, more, seed):
    """Of a picture of the same side, or a larger one: shrunk with antialiasing, or enlarged where it is small."""
    stored = side + more
    images = pictures(stored, seed)
    draws = draw_weak(len(images), stored, generator(seed), crop="resized", scale=(0.05, 1.0))
    views = apply_weak(images, draws, side)
    for image, view, window, flip in zip(images, views.numpy(), draws["window"].double() * stored, draws["flip"]):
        top, left, height, width = window.tolist()
        box = (left, top, min(left + width, stored), min(top + height, stored))
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        cut = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR, box=box)).transpose(2, 0, 1)
        assert np.abs(view.astype(int) - (cut[:, :, ::-1] if flip else cut)).max() <= 1


@given(low=st.floats(0.05, 1), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_windows_lie_in_the_picture_with_the_area_and_ratio_asked_for(low, seed):
    draws = draw_weak(200, 84, generator(seed), crop="resized", scale=(low, 1.0))
    top, left, height, width = draws["window"].unbind(1)
    assert min(top.min(), left.min()) >= 0
    assert max((top + height).max(), (left + width).max()) <= 1 + 1e-6
    area, ratio = height * width, width / height
    assert area.min() >= low - 1e-5
    assert ratio.min() >= 3 / 4 - 1e-5
    assert ratio.max() <= 4 / 3 + 1e-5


def test_jitter_is_brightness_then_contrast_then_saturation():
    images = pictures(16, 3)
    draws = draw_weak(len(images), 16, generator(), jitter=0.4, flip=False) | {"shift": torch.zeros(len(images), 2)}
    assert (draws["jitter"] - 1).abs().max() <= 0.4
    assert len(draws["jitter"].unique()) == 3 * len(images)
    for image, view, factors in zip(images, apply_weak(images, draws), draws["jitter"].tolist()):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        for enhance, factor in zip((ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), factors):
            picture = enhance(picture).enhance(factor)
        assert (view.permute(1, 2, 0).numpy() == np.asarray(picture)).all()
