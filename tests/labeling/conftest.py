"""Pictures whose classes any network tells apart: by colour."""

import pytest


@pytest.fixture
def folder(tmp_path, paint):
    """support/COLOUR/ with two pictures each, and images/ with six each, whose names tell the truth."""
    for colour in ("red", "green", "blue"):
        for i in range(2):
            paint(tmp_path / "support" / colour / f"{i}.png", colour, i)
        for i in range(6):
            paint(tmp_path / "images" / f"day {i % 2}" / f"{colour}-{i}.{'jpg' if i % 3 else 'png'}", colour, 10 + i)
    return tmp_path
