"""Pictures that a tiny network tells apart by colour, and the page as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import pytest
from helpers.pages import CLASSES, STOPPED, watch


@pytest.fixture(scope="session")
def painted(paint, tmp_path_factory):
    """painted("red", 3): a PNG file's bytes, another for every number."""
    folder = tmp_path_factory.mktemp("painted")
    return lambda colour, number=0: paint(folder / f"{colour} {number}.png", colour, number).read_bytes()


@pytest.fixture(scope="session")
def served(model):
    """served(folder, …): a context with the page's address, of the process `served.pid`, which writes to `folder`."""

    @contextmanager
    def page(folder, *words, ends_by=signal.SIGTERM):
        command = [sys.executable, "-m", "protoadapt", "serve", "--model", model, "--port", "0", *words]
        environment = {**os.environ, "TMPDIR": str(folder)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background would ignore it
        process = subprocess.Popen(command, cwd=folder, env=environment, text=True, preexec_fn=heard, **pipes)
        page.pid = process.pid
        try:
            said = process.stdout.readline()
            assert said.startswith("Open http://"), said + process.stderr.read()
            if "--keep" not in words:
                assert process.stdout.readline().startswith("Nothing is kept"), "and it says so"
            yield said.split()[1]
        finally:
            process.send_signal(ends_by)
            _, complaints = process.communicate(timeout=60)
        if ends_by == signal.SIGKILL:
            return
        assert process.returncode == 128 + ends_by, "it ended as it was asked to"
        assert complaints == ""
        assert os.listdir(folder) == [], "nothing is left"

    return page


@pytest.fixture(scope="module")
def address(served, tmp_path_factory):
    with served(tmp_path_factory.mktemp("home"), "--max-mb", "1") as address:
        yield address


@pytest.fixture
def blank(chromium, address):
    """The page, just opened. Fails if it asked anything of another computer, or a script of it broke."""
    asked, broken = [], []
    context = chromium.new_context(accept_downloads=True, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    watch(page, asked, broken)
    page.goto(address)
    page.wait_for_selector(".start")
    yield page
    context.close()
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert [text for text in broken if not re.search(STOPPED, text)] == []


@pytest.fixture(scope="session")
def photos(tmp_path_factory, painted):
    """A folder: red/ and blue/ with two pictures each, six loose ones of each colour, three of another."""
    root = tmp_path_factory.mktemp("photos")
    for colour in ("red", "blue"):
        (root / colour).mkdir()
        for i in range(2):
            (root / colour / f"{i}.png").write_bytes(painted(colour, i))
        for i in range(5, 11):
            (root / f"{colour} {i}.png").write_bytes(painted(colour, i))
    for i in range(5, 8):
        (root / f"sea é {i}.png").write_bytes(painted("green", i))
    return root


@pytest.fixture
def page(blank, photos):
    """The page with these pictures."""
    blank.set_input_files("input[webkitdirectory] >> nth=0", photos)
    blank.click(CLASSES)
    blank.wait_for_selector(".status-line:has-text('15 pictures named')")
    return blank
