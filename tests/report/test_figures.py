"""Figures, looked at pixel by pixel."""

import numpy as np
from PIL import Image

from protoadapt.report.path_figure import draw_paths
from protoadapt.report.task import draw_task

GRAY = np.full((8, 8, 3), 128).tolist()


def pixels(file) -> np.ndarray:
    with Image.open(file) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def test_labelled_pictures_are_seen_where_prototypes_start(tmp_path):
    """With one shot both are at the same place."""
    picture = {"query": [[0.0, 0.0], [4.0, 4.0]], "query_labels": [0, 1], "paths": [[[1, 1], [3, 3]], [[2, 1], [3, 2]]]}
    for name, support in (("with", [[1, 1], [3, 3]]), ("without", [[0.0, 0.0], [0.0, 0.0]])):
        draw_paths({**picture, "support": support, "support_labels": [0, 1]}, tmp_path / name)
    a, b = (pixels(tmp_path / name) for name in ("with", "without"))
    upper_right = (slice(None, a.shape[0] // 2), slice(a.shape[1] // 2, None))  # the second star and its picture
    assert (a[upper_right] != b[upper_right]).any()


def test_frames_in_a_task_say_who_was_wrong_and_nothing_else(tmp_path):
    def drawn(before: bool, after: bool) -> np.ndarray:
        query = [{"pixels": GRAY, "right": {"a": before, "b": after}}] * 3
        classes = [{"name": str(c), "support": [GRAY], "query": query} for c in range(4)]
        draw_task({"classes": classes}, tmp_path / "task.png", ("a", "A"), ("b", "B"))
        seen = pixels(tmp_path / "task.png")
        return seen[: int(0.8 * len(seen))]  # above the legend

    def coloured(seen: np.ndarray) -> np.ndarray:
        return (seen.max(-1) - seen.min(-1) > 60).any(0)  # by column

    assert not coloured(drawn(True, True)).any(), "all is right, and labelled pictures have no frame"
    helped = coloured(drawn(False, True))
    assert helped.any()
    assert not helped[: len(helped) // 4].any(), "the first column is labelled"
    dark = drawn(False, False).max(-1) < 60
    assert dark.sum() > 3 * (drawn(True, True).max(-1) < 60).sum()
