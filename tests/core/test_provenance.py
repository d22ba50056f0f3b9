"""The commit beside a number is that of the code, or none."""

import subprocess
from pathlib import Path

import pytest

import protoadapt
from protoadapt.core.provenance import commit

commit_now = commit.__wrapped__  # without its cache


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A package of one file outside any repository."""
    folder = tmp_path / "protoadapt"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(protoadapt, "__file__", str(folder / "__init__.py"))
    monkeypatch.delenv("PROTOADAPT_COMMIT", raising=False)
    return folder


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_history_nothing_or_what_the_environment_says(package, monkeypatch):
    assert commit_now() is None
    monkeypatch.setenv("PROTOADAPT_COMMIT", "abc")
    assert commit_now() == "abc"
    monkeypatch.setenv("PATH", "/nowhere")  # no git at all
    assert commit_now() == "abc"


def test_in_a_repository_its_commit_and_whether_it_was_changed(package, monkeypatch):
    git(package.parent, "init", "-q")
    assert commit_now() is None, "the repository is there, but the package is not in it"
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-q", "-m", "first")
    monkeypatch.setenv("PROTOADAPT_COMMIT", "abc")
    head = git(package, "rev-parse", "HEAD")
    assert commit_now() == head
    (package / "__init__.py").write_text("changed = True\n")
    assert commit_now() == f"{head}+changes"
