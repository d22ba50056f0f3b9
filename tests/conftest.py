"""Shared by all tests: the slow references are importable as `reference`, and every test starts from the same seed."""

import os
import shutil
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

# Tests run side by side, one a core: threads of their own would only wait for each other. Before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Networks' graphs are kept in the user's cache folder: tests have one of their own.
os.environ["XDG_CACHE_HOME"] = (CACHE := tempfile.TemporaryDirectory(prefix="protoadapt-cache-")).name

import numpy as np
import pytest
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))

from helpers.networks import save_model
from helpers.small_pictures import class_folders

from protoadapt.vision import networks


def pytest_configure():
    """Ctrl-C is tested: a suite started in the background is told to ignore it, and so would be what it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model file: a tiny network with random weights."""
    return save_model(tmp_path_factory.mktemp("model") / "tiny.safetensors", width=8, size=24)


@pytest.fixture(scope="session")
def loaded(model):
    """(network, about)"""
    return networks.load(model)


@pytest.fixture(scope="module")
def chromium():
    """Debian's browser. Where there is none, tests in it are skipped; where one is required, as in CI, they fail."""
    program = shutil.which("chromium")
    if program is None or find_spec("playwright") is None:
        missing = pytest.fail if os.environ.get("PROTOADAPT_REQUIRE_BROWSER") == "1" else pytest.skip
        missing("there is no chromium with playwright here: apt-get install chromium, pip install playwright")
    from playwright.sync_api import sync_playwright

    quiet = "headless no-sandbox disable-gpu disable-background-networking disable-component-update disable-sync"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=[f"--{flag}" for flag in quiet.split()])
        yield browser
        browser.close()


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
    for colour in ("red", "green", "blue"):
        for i in range(2):
            paint(tmp_path / "support" / colour / f"{i}.png", colour, i)
        for i in range(6):
            paint(tmp_path / "images" / f"day {i % 2}" / f"{colour}-{i}.{'jpg' if i % 3 else 'png'}", colour, 10 + i)
    return tmp_path


@pytest.fixture
def mine(tmp_path):
    """A user's folder: eight classes of three pictures."""
    return class_folders(tmp_path / "mine", [f"kind{i}" for i in range(8)], 3)


@pytest.fixture
def without_paths(monkeypatch):
    """Leaves out the prototypes' paths, on which `label` spends most of its time; tests of those have them."""
    monkeypatch.setattr("protoadapt.labeling.collection.prototype_paths", lambda *_: None)
