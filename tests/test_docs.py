"""Every command and every snippet in README and docs runs, on small fixtures; every page is what its files say."""

import contextlib
import importlib.util
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.command import run as in_process
from PIL import Image

from benchmarks.synthetic import synthetic_features
from protoadapt import save_features
from protoadapt.training.datasets import class_list

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SMALL_RUN = "epochs=1 warmup=0 size=16 width=2 batch=64 validation_episodes=5 shot=1 query=4 episodes=2 episode_batch=1"
SLOWER = ("make", "pre-commit", "protoadapt serve")  # what CI itself runs, and what runs until it is stopped
PROCESS = ("protoadapt models lite0", "--devices")  # one plain command, and one that starts further processes


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def commands(page: Path) -> list[str]:
    lines = [line[2:].split("#")[0].strip() for block in blocks(page, "console") for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(SLOWER)]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder like the reader's: features, a method of one's own, pictures in class folders."""
    folder = tmp_path_factory.mktemp("home")
    save_features(folder / "features.safetensors", synthetic_features(rows=60))
    save_features(folder / "base.safetensors", synthetic_features(rows=20, seed=1))
    (folder / "my_method.py").write_text(blocks(ROOT / "README.md", "python")[0])
    rng = np.random.default_rng(0)
    for split in ("base", "val", "novel"):
        for name in class_list("cifar-fs", split):  # FC100 has the same hundred classes in other splits
            write_pictures(folder / "data" / "cifar100" / name, rng)
    for name in ("cat", "dog"):
        write_pictures(folder / "pictures" / name, rng)
    write_pictures(folder / "photos", rng)
    (folder / "corrections.csv").write_text("file,label\n0.png,cat\n1.png,dog\n")  # as saved from a report
    return folder


def write_pictures(folder: Path, rng: np.random.Generator, count: int = 8) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / f"{i}.png")


def shortened(command: str) -> list[str]:
    """The words of a command as written, with as little work as shows that it runs."""
    words = shlex.split(command)
    assert words[0] == "protoadapt", command
    extra = []
    if words[1] in ("evaluate", "compare"):
        extra = ["--episodes", "10", "--query", "5"]
    if words[1] == "train":
        small = {setting.partition("=")[0]: setting for setting in SMALL_RUN.split()}
        own = {word.partition("=")[0] for option, word in pairwise(words) if option == "--set"}
        words = [small.get(word.partition("=")[0], word) for word in words]
        extra = [part for name, setting in small.items() if name not in own for part in ("--set", setting)]
    return [*words[1:], *extra]


def run(command: str, home: Path) -> subprocess.CompletedProcess:
    """In this process, which has torch loaded; a few in one of their own."""
    words = shortened(command)
    if any(part in command for part in PROCESS):
        words = [sys.executable, "-m", "protoadapt", *words]
        return subprocess.run(words, cwd=home, capture_output=True, text=True, timeout=300)
    return in_process(*words, cwd=home)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_in_order(page, home):
    for command in commands(page):
        done = run(command, home)
        incomplete = command.startswith("protoadapt data") and done.returncode == 1  # only 8 pictures per class here
        assert done.returncode == 0 or incomplete, f"{command}\n{done.stdout}\n{done.stderr}"


def test_some_commands_run_in_a_process_of_their_own():
    every = [command for page in PAGES for command in commands(page)]
    assert all(any(part in command for command in every) for part in PROCESS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_snippets_run(page, home):
    for snippet in blocks(page, "python"):
        with contextlib.chdir(home):
            exec(compile(snippet, page.name, "exec"), {"__name__": "__main__"})


def build():
    spec = importlib.util.spec_from_file_location("build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_what_the_result_files_say():
    for name, page in build().PAGES.items():
        assert (ROOT / name).read_text() == page(), f"{name} is out of date: run python docs/build.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
