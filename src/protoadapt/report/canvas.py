"""What the figures share: colours, an empty sheet, and a file that is written whole or not at all."""

import os
from pathlib import Path

from matplotlib.figure import Figure

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999933", "#882255", "#555555")


def sheet(width: float, height: float) -> Figure:
    """An empty figure, so many inches wide and high. No pyplot: nothing global, no window, any thread."""
    return Figure(figsize=(width, height), layout="constrained")


def keep(figure: Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        figure.savefig(partial, dpi=140, format="png")
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
