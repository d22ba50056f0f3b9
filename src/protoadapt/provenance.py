"""What a number needs beside it to be believed: versions and hardware."""

import os
import platform
from importlib import metadata
from pathlib import Path

import torch

VERSION = "0.1.0"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "protoadapt": VERSION}
    for name in ("torch", "numpy", "numba", "scikit-learn", "lightning-fabric", "pillow"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def hardware(device: torch.device | str = "cpu") -> str:
    device = torch.device(device)
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor() or platform.machine(),
    )
    return f"{os.cpu_count()} cores of {model}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
