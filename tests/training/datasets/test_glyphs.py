"""The built-in dataset: the same wherever it is drawn, and of characters that can be told apart."""

from pathlib import Path

import numpy as np
import pytest

from protoadapt.training.datasets import class_list, glyphs, load_images

CHARACTERS = sorted(character for split in ("base", "val", "novel") for character in class_list("glyphs", split))


def test_three_numbers_fix_a_picture() -> None:
    one = np.asarray(glyphs.draw_glyph("K", 3, 0, 32))
    glyphs._ink.cache_clear()
    np.testing.assert_array_equal(one, np.asarray(glyphs.draw_glyph("K", 3, 0, 32)))
    for other in (glyphs.draw_glyph("K", 4, 0, 32), glyphs.draw_glyph("K", 3, 1, 32), glyphs.draw_glyph("M", 3, 0, 32)):
        assert np.abs(one.astype(int) - np.asarray(other)).mean() > 5


def test_load_draws_what_draw_draws(tmp_path: Path) -> None:
    images = load_images("glyphs", "val", cache_dir=tmp_path, per_class=3)
    assert images.pixels.shape == (180, 3, 32, 32)
    assert images.class_names == class_list("glyphs", "val")
    for row in range(180):  # threads share the fonts, and must not disturb each other
        character = images.class_names[images.labels[row]]
        assert images.paths[row] == f"U+{ord(character):04X}/{row % 3:05d}"
        want = np.asarray(glyphs.draw_glyph(character, row % 3, 0, 32)).transpose(2, 0, 1)
        np.testing.assert_array_equal(images.pixels[row], want)
    more = load_images("glyphs", "val", cache_dir=tmp_path, per_class=5)
    np.testing.assert_array_equal(more.pixels[:3], images.pixels[:3])  # asking for more changes none


def test_default_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    load_images("glyphs", "val", per_class=1)
    assert (tmp_path / "protoadapt").is_dir()
