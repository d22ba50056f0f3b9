"""The commit beside a number is that of the code, or none."""

import subprocess
import sys
from pathlib import Path

import pytest

from protoadapt.core import provenance

CODE = "from protoadapt.core.provenance import commit; print(commit())"


def said(folder: Path, **environment) -> str:
    plain = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder), **environment}
    script = f"import sys; sys.path.insert(0, {str(folder)!r}); {CODE}"
    done = subprocess.run([sys.executable, "-c", script], env=plain, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def copy(tmp_path):
    """A package of one file, so that nothing else is loaded."""
    package = tmp_path / "protoadapt"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "core").mkdir()
    source = Path(provenance.__file__).read_text()
    (package / "core" / "provenance.py").write_text(
        source.replace("import torch\n", "class torch:\n    device = str\n")
    )
    return tmp_path


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_history_nothing_or_what_the_environment_says(copy):
    assert said(copy) == "None"
    assert said(copy, PROTOADAPT_COMMIT="abc") == "abc"
    assert said(copy, PATH="/nowhere") == "None", "no git at all"


def test_in_a_repository_its_commit_and_whether_it_was_changed(copy):
    git(copy, "init", "-q")
    assert said(copy) == "None", "the repository is there, but the package is not in it"
    (copy / ".gitignore").write_text("__pycache__\n")
    git(copy, "add", ".")
    git(copy, "commit", "-q", "-m", "first")
    head = git(copy, "rev-parse", "HEAD")
    assert said(copy, PROTOADAPT_COMMIT="abc") == head
    (copy / "protoadapt" / "__init__.py").write_text("changed = True\n")
    assert said(copy) == f"{head}+changes"
