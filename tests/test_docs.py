"""Every command and every snippet in README and docs runs, on small fixtures; every page is what its files say."""

import contextlib
import json
import re
import runpy
import shlex
import shutil
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
RESEARCH = sorted((ROOT / "research").glob("*.md"))
SMALL_RUN = "epochs=1 warmup=0 size=16 width=2 batch=64 validation_episodes=5 shot=1 query=4 episodes=2 episode_batch=1"
SLOWER = ("make", "pre-commit", "protoadapt serve")  # what CI itself runs, and what runs until it is stopped
PROCESS = ("protoadapt models lite0", "--devices")  # one plain command, and one that starts further processes


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page that are run, with their languages, from top to bottom."""
    return re.findall(r"^```(console|python)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    lines = [line[2:].split("#")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(SLOWER)]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder like the reader's: features, a method of one's own, pictures in class folders."""
    folder = tmp_path_factory.mktemp("home")
    save_features(folder / "features.safetensors", synthetic_features(rows=60))
    save_features(folder / "base.safetensors", synthetic_features(rows=20, seed=1))
    method = next(block for language, block in blocks(ROOT / "README.md") if language == "python")
    (folder / "my_method.py").write_text(method)
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
def test_a_page_runs_from_top_to_bottom(page, home):
    shutil.rmtree(home / "named", ignore_errors=True)  # which another page has corrected
    for language, block in blocks(page):
        if language == "python":
            with contextlib.chdir(home):
                exec(compile(block, page.name, "exec"), {"__name__": "__main__"})
            continue
        for command in commands(block):
            done = run(command, home)
            incomplete = (
                command.startswith("protoadapt data") and done.returncode == 1
            )  # only 8 pictures per class here
            assert done.returncode == 0 or incomplete, f"{command}\n{done.stdout}\n{done.stderr}"


def test_some_commands_run_in_a_process_of_their_own():
    every = [command for page in PAGES for _, block in blocks(page) for command in commands(block)]
    assert all(any(part in command for command in every) for part in PROCESS)


def test_the_notebook_runs(home, capsys):
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    names = {"__name__": "__main__"}
    with contextlib.chdir(home):
        for cell in cells:
            if cell["cell_type"] == "code":
                assert not cell["outputs"], "outputs are not committed"
                exec(compile("".join(cell["source"]), "notebook", "exec"), names)
    assert "60 pictures named" in capsys.readouterr().out


def test_pages_are_what_the_result_files_say():
    for name, text in runpy.run_path(str(ROOT / "docs" / "build.py"))["pages"]().items():
        assert (ROOT / name).read_text() == text, f"{name} is out of date: run python docs/build.py"


def site_pages() -> dict[str, str]:
    """What mkdocs builds beside the written pages."""
    return runpy.run_path(str(ROOT / "docs" / "generated.py"))["written"]()


def test_links_lead_somewhere():
    built = site_pages()
    for page in PAGES + RESEARCH:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            there = (page.parent / target).exists() or (page.parent.name == "docs" and target in built)
            assert there, f"{page.name} links to {target}"


def test_pages_of_the_site_are_whole():
    built = site_pages()
    for name, text in built.items():
        assert "```text\n\n```" not in text, f"{name} has an empty block"
    assert built["results.csv"].count("\n") == built["results.md"].count("<tr>") > 500
    assert all(f"## {verb}\n" in built["commands.md"] for verb in ("label", "serve", "compare"))
