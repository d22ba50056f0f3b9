"""Figures, looked at pixel by pixel."""

import numpy as np
from PIL import Image

from paper.drawing import draw_paths


def pixels(file) -> np.ndarray:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def test_labelled_pictures_are_visible_where_prototypes_start(tmp_path):
    """With one shot both are at the same place."""
    document = {
        "row_label": [0, 1, 0, 1],
        "support": [True, True, False, False],
        "steps": [[[1, 1], [2, 1]], [[3, 3], [3, 2]]],
    }
    for name, support in (("with", [[1, 1], [3, 3]]), ("without", [[0.0, 0.0], [0.0, 0.0]])):
        draw_paths({**document, "rows": [*support, [0.0, 0.0], [4.0, 4.0]]}, tmp_path / name)
    a, b = (pixels(tmp_path / name) for name in ("with", "without"))
    upper_right = (slice(None, a.shape[0] // 2), slice(a.shape[1] // 2, None))  # the second star and its picture
    assert (a[upper_right] != b[upper_right]).any()
