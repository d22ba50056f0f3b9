"""Provenance of a number: versions, hardware and the commit of the code."""

import os
import platform
import re
import subprocess
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import protoadapt


def provenance(device: torch.device | str = "cpu") -> dict[str, Any]:
    """What a file of numbers says of their origin: versions, hardware and commit."""
    return {"versions": versions(), "hardware": hardware(device), "commit": commit()}


def made_now() -> dict[str, Any]:
    """What a file of results says of its making: the time, and the versions."""
    return {"made": datetime.now().astimezone().isoformat(timespec="seconds"), "versions": versions()}


@cache
def versions() -> dict[str, str]:
    """Versions of Python, protoadapt and the packages that decide results."""
    installed = {"python": platform.python_version(), "protoadapt": protoadapt.__version__}
    for name in ("torch", "numpy", "numba", "scikit-learn", "lightning-fabric", "pillow"):
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


@cache
def commit() -> str | None:
    """The commit of this code, with "+changes" where its files differ from the commit; None where it is unknown.

    For a copy without history, set the environment variable PROTOADAPT_COMMIT. A repository that only surrounds an
    installed package is not the package's own: the package's files must be tracked in it.
    """
    here = Path(protoadapt.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        return git("rev-parse", "HEAD") + "+changes" * bool(git("status", "--porcelain", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("PROTOADAPT_COMMIT") or None


def hardware(device: torch.device | str = "cpu") -> str:
    """The GPU by name, or the number of CPU cores and their model."""
    device = torch.device(device)
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    file = Path("/proc/cpuinfo")  # of Linux
    model = re.search(r"^model name\s*:\s*(.*\S)", file.read_text() if file.exists() else "", re.MULTILINE)
    return f"{os.cpu_count()} cores of {model[1] if model else platform.processor() or platform.machine()}"
