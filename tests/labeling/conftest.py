"""Pictures whose classes any network tells apart: by colour."""

import numpy as np
import pytest
from PIL import Image

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 220)}


@pytest.fixture(scope="session")
def paint():
    """paint(path, "red", seed): a picture of its own, of that colour."""

    def painted(path, colour, seed=0, size=(30, 26)):
        rng = np.random.default_rng([seed, *COLOURS[colour]])
        noise = rng.normal(0, 30, (size[1], size[0], 3))
        image = Image.fromarray(np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8))
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
        return path

    return painted


@pytest.fixture
def folder(tmp_path, paint):
    """support/COLOUR/ with two pictures each, and images/ with six each, whose names tell the truth."""
    for colour in COLOURS:
        for i in range(2):
            paint(tmp_path / "support" / colour / f"{i}.png", colour, i)
        for i in range(6):
            paint(tmp_path / "images" / f"day {i % 2}" / f"{colour}-{i}.{'jpg' if i % 3 else 'png'}", colour, 10 + i)
    return tmp_path
