"""What the figures share: colours, an empty sheet, and a file that is written whole or not at all."""

from pathlib import Path

from matplotlib.figure import Figure

from protoadapt.core.files import written_whole

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#999933", "#882255", "#555555")


def sheet(width: float, height: float) -> Figure:
    """An empty figure, so many inches wide and high. No pyplot: nothing global, no window, any thread."""
    return Figure(figsize=(width, height), layout="constrained")


def keep(figure: Figure, file: Path) -> None:
    with written_whole(file) as partial:
        figure.savefig(partial, dpi=140, format="png")
