"""Strong views against a chain of pillow calls, and the two ways of computing them against each other."""

import pytest
import torch
from helpers.twins import by_pillow, generator, pictures
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.training.augment.ops import GRAY, OPS
from protoadapt.training.augment.strong import CODES, RANGES, all_at_once, apply_strong, draw_strong, one_by_one
from protoadapt.training.augment.weak import apply_weak


def strong(images, generator, **options):
    draws = draw_strong(len(images), images.shape[-1], generator, **options)
    return apply_strong(images, {name: draw.to(images.device) for name, draw in draws.items()})


def many(side, seed, times=8):
    return torch.cat([pictures(side, seed + k) for k in range(times)])


def cut_by_hand(image, top, left):
    side = image.shape[-1]
    image = image.clone()
    for y in range(max(top, 0), min(top + side // 2, side)):
        for x in range(max(left, 0), min(left + side // 2, side)):
            image[:, y, x] = GRAY
    return image


@pytest.mark.parametrize("stored", [20, 31])
@pytest.mark.parametrize("options", [{}, {"crop": "resized", "jitter": 0.3}])
def test_strong_view_is_weak_view_two_pillow_operations_and_a_square(options, stored):
    images, names = many(stored, 0), list(OPS)
    draws = draw_strong(len(images), 20, generator(1), stored=stored, **options)
    expected = apply_weak(images, draws, 20)
    assert expected.shape[-1] == 20
    for r in range(2):
        steps = zip(expected, draws["op"][:, r], draws["magnitude"][:, r])
        expected = torch.cat([by_pillow(names[op], image[None], m[None]) for image, op, m in steps])
    expected = torch.stack([cut_by_hand(image, *corner) for image, corner in zip(expected, draws["hole"].tolist())])
    same = (apply_strong(images, draws, 20) == expected).flatten(1).all(1)
    assert same.float().mean() >= 0.99


def every_operation(side, seed):
    """Each of 8 pictures by each of 14 operations: images, op, magnitude."""
    op = torch.arange(len(OPS), dtype=torch.int32).repeat(8)
    low, high = torch.tensor([RANGES[name] for name in OPS]).unbind(1)
    magnitude = low[op] + (high - low)[op] * torch.rand(len(op), generator=generator(seed))
    return pictures(side, seed).repeat_interleave(len(OPS), 0), op, magnitude


@settings(max_examples=15, deadline=None)
@given(side=st.integers(8, 40), seed=st.integers(0, 2**32 - 1))
def test_all_at_once_equals_one_by_one(side, seed):
    images, op, magnitude = every_operation(side, seed)
    views = all_at_once(images, op, magnitude)
    assert torch.equal(views, one_by_one(images, op, magnitude))
    identity = op == CODES["identity"]
    assert torch.equal(views[identity], images[identity])


def test_no_step_needs_to_know_a_value():
    """The meta device holds no data, so whatever waits for the GPU, or shapes a tensor by its contents, fails on it."""
    draws = {name: draw.to("meta") for name, draw in draw_strong(16, 24, generator(), jitter=0.4).items()}
    images = torch.empty(16, 3, 24, 24, dtype=torch.uint8, device="meta")
    views = torch.compile(apply_strong, backend="eager", fullgraph=True)(images, draws)
    assert views.shape == images.shape
    assert views.dtype == torch.uint8


def test_operations_are_drawn_evenly_independently_and_within_range():
    n = 28_000
    draws = draw_strong(n, 84, generator())
    op, magnitude = draws["op"], draws["magnitude"]
    pairs = torch.bincount(op[:, 0] * 14 + op[:, 1], minlength=196)
    assert len(pairs) == 196  # with replacement: an operation may follow itself
    assert ((pairs - n / 196) ** 2 / (n / 196)).sum() < 280  # chi-square with 195 degrees of freedom: mean 195, sd 20
    for name, (low, high) in RANGES.items():
        drawn = magnitude[op == CODES[name]]
        assert low <= drawn.min() <= low + 0.005 * (high - low)
        assert high >= drawn.max() >= high - 0.005 * (high - low)
    bits = torch.bincount(magnitude[op == CODES["posterize"]].int())[4:]
    assert bits.min() > 0.8 * bits.float().mean()


def test_a_view_depends_on_its_own_image_and_the_generator_alone():
    images = many(24, 5, times=2)
    before = images.clone()
    draws = draw_strong(len(images), 24, generator(7))
    views = apply_strong(images, draws)
    for i in range(len(images)):
        alone = {name: draw[i : i + 1] for name, draw in draws.items()}
        assert torch.equal(apply_strong(images[i : i + 1], alone)[0], views[i])
    assert torch.equal(strong(images, generator(7)), views)
    assert not torch.equal(strong(images, generator(8)), views)
    assert torch.equal(images, before)
    assert views.dtype == torch.uint8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("options", [{}, {"crop": "resized", "jitter": 0.4}])
def test_gpu_agrees_with_cpu(options):
    images = many(84, 0)
    on_gpu = strong(images.cuda(), generator(), **options).cpu()
    assert (on_gpu == strong(images, generator(), **options)).float().mean() >= 0.999
