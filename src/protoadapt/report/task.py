"""One few-shot task as its solver meets it: the labelled pictures, the queries, and who named them wrongly."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Patch

from protoadapt.report.canvas import keep, sheet

Frame = tuple[str, Any]  # colour, dashes
# Colours of the frames alone (no class has a colour here), apart for every kind of sight and by their lines too.
HELPED: Frame = ("#0077bb", "-")
HARMED: Frame = ("#ee7733", (0, (2, 1)))
BOTH: Frame = ("#222222", (0, (1, 0.8)))


def task_picture(
    pixels: np.ndarray,
    names: list[str],
    support: tuple[np.ndarray, np.ndarray],
    query: tuple[np.ndarray, np.ndarray],
    answers: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """A plain dict: the classes in a row each, with their support and query pictures and who was right.

    pixels (N, 3, H, H) uint8; names of the W classes; support and query: rows of `pixels` and their classes, 0 … W−1;
    answers: by method, the class given to each query.
    """
    (s, s_labels), (q, q_labels) = support, query

    def shown(row: int) -> list[Any]:
        return pixels[row].transpose(1, 2, 0).tolist()

    return {
        "classes": [
            {
                "name": name,
                "support": [shown(row) for row in s[s_labels == c]],
                "query": [
                    {"pixels": shown(row), "right": {m: bool(a[i] == c) for m, a in answers.items()}}
                    for i, row in enumerate(q)
                    if q_labels[i] == c
                ],
            }
            for c, name in enumerate(names)
        ]
    }


def draw_task(
    picture: dict[str, Any], file: Path, before: tuple[str, str], after: tuple[str, str], title: str = ""
) -> None:
    """A class a line: what is labelled, then its queries, framed where one of two methods or both are wrong.

    before, after: the methods, each by its name in the picture's dict and by its name for people.
    """
    classes = picture["classes"]
    shots, queries = (max(len(c[part]) for c in classes) for part in ("support", "query"))
    figure = sheet(0.62 * (shots + queries) + 1.1, 0.62 * len(classes) + 1.3)
    widths = [1.0] * shots + [0.45] + [1.0] * queries
    grid = figure.subplots(len(classes), len(widths), width_ratios=widths, squeeze=False)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for line, c in zip(grid, classes):
        for axes, pixels in zip(line, c["support"]):
            _show(axes, pixels, None)
        line[0].set_ylabel(c["name"], rotation=0, ha="right", va="center", fontsize=17, labelpad=9)
        for axes, query in zip(line[shots + 1 :], c["query"]):
            _show(axes, query["pixels"], _frame(query["right"][before[0]], query["right"][after[0]]))
    middle = grid[0, shots + 1 + queries // 2]
    grid[0, (shots - 1) // 2].set_title("labelled", fontsize=11, pad=9)
    middle.set_title("to be named", fontsize=11, pad=9)
    marks = [(HELPED, f"only {after[1]} is right"), (HARMED, f"only {before[1]} is right"), (BOTH, "both are wrong")]
    signs = [
        Patch(fill=False, edgecolor=color, linestyle=dashes, linewidth=2.6, label=words)
        for (color, dashes), words in marks
    ]
    figure.legend(handles=signs, loc="outside lower center", ncols=3, frameon=False, handlelength=1.6, handleheight=1.4)
    figure.suptitle(title)
    keep(figure, file)


def _frame(before: bool, after: bool) -> Frame | None:
    return {(True, True): None, (False, True): HELPED, (True, False): HARMED, (False, False): BOTH}[before, after]


def _show(axes: Any, pixels: list[Any], frame: Frame | None) -> None:
    axes.imshow(np.array(pixels, np.uint8), interpolation="nearest")
    if frame:
        color, dashes = frame
        axes.spines[:].set(visible=True, color=color, linewidth=3.2, linestyle=dashes)
