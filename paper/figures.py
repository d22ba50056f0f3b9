"""The figures of the tables, drawn from result files alone."""

from pathlib import Path

from paper.drawing import draw_bars, draw_paths
from paper.results_page import semi_curves
from paper.stored_results import Results
from paper.tables import SEMI_METHODS, SEMI_NETWORKS, TABLES, UNLABELLED

CHART = list(SEMI_METHODS)[:3]  # what the paper's chart shows


def draw_figures(name: str, results: Results, folder: Path) -> list[Path]:
    """Draws the figures of a table whose numbers exist; returns their files."""
    if name == "semi":
        curves = semi_curves(results)
        names = [f"{network} + {words}" for network in SEMI_NETWORKS for words in CHART]
        if not all(name in curves for name in names):
            return []
        series = {name: [curves[name][m]["accuracy"] for m in UNLABELLED] for name in names}
        title = "mini-ImageNet, 5-way 1-shot, semi-supervised"
        draw_bars(
            [str(m) for m in UNLABELLED], series, folder / "semi.png", "unlabelled pictures per class", "%", title
        )
        return [folder / "semi.png"]
    if name == "figure3":
        picture = results.file(TABLES[name].tasks[0].files[0])
        if picture:
            draw_paths(picture, folder / "adaptation.png")
            return [folder / "adaptation.png"]
    return []
