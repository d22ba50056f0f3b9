"""Pictures that a tiny network tells apart by colour, and the page as a process of its own."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import pytest


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
