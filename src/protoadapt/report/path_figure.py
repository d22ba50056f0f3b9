"""The paper's Figure 3: how unlabelled rows pull the prototypes, in one joint t-SNE."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.adaptation import Adaptation, calibrate
from protoadapt.core.methods.cipa import cipa_steps, powered
from protoadapt.report.canvas import COLORS, keep, sheet


def path_picture(episode: Episodes, query_labels: np.ndarray, seed: int = 0) -> dict[str, Any]:
    """Plane coordinates of one episode's calibrated rows and of all positions of CIPA's prototypes (a plain dict)."""
    from sklearn.manifold import TSNE

    rows = calibrate(powered(episode[:1], 0.5, "auto"), Adaptation("cosine", 10.0, 0, center="separate", l2=True))
    support, query = (part[0].double().numpy() for part in rows)
    steps = np.stack([p[0].double().numpy() for p in cipa_steps(episode[:1], power="auto")])  # (21, W, D)
    # The rows lie on the unit sphere and the decision is by cosine: there the prototypes belong, too.
    steps /= np.linalg.norm(steps, axis=-1, keepdims=True).clip(1e-12)
    everything = np.concatenate([support, query, steps.reshape(-1, steps.shape[-1])])
    # Neighbourhoods of half the points reach beyond one class: with small ones the classes fly apart, and what moves
    # inside a class shrinks to a dot.
    options = {"perplexity": len(everything) / 2, "early_exaggeration": 2.0, "init": "pca", "random_state": seed}
    plane = TSNE(metric="cosine", **options).fit_transform(everything)
    s, q, p = np.split(plane, [len(support), len(support) + len(query)])
    return {
        "support": s.tolist(),
        "support_labels": episode.support_labels[0].tolist(),
        "query": q.tolist(),
        "query_labels": np.asarray(query_labels).tolist(),
        "paths": p.reshape(*steps.shape[:2], 2).tolist(),
    }


def draw_paths(picture: dict[str, Any], file: Path, title: str = "", names: Sequence[str] = ()) -> None:
    """Circles: queries, outlined where labelled. Stars: prototypes, black outline at the start, red at the end.

    `names` of the classes, in order, make a legend.
    """
    figure = sheet(7, 6)
    axes = figure.subplots()
    for kind, outline in (("query", "none"), ("support", "black")):
        points = np.array(picture[kind])
        colors = [COLORS[label % len(COLORS)] for label in picture[f"{kind}_labels"]]
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=42,
            c=colors,
            edgecolors=outline,
            linewidths=1.2,
            alpha=0.75 if kind == "query" else 1,
            zorder=1 if kind == "query" else 4,  # with one shot the labelled picture is where its prototype starts
        )
    paths = np.array(picture["paths"])  # (steps, W, 2)
    for c in range(paths.shape[1]):
        color = COLORS[c % len(COLORS)]
        axes.plot(*paths[:, c].T, "--", color="black", linewidth=1.2, zorder=4)
        for point, outline in ((paths[0, c], "black"), (paths[-1, c], "#cc0000")):
            axes.scatter(
                point[0], point[1], marker="*", s=210, color=color, edgecolors=outline, linewidths=1.4, zorder=3
            )
    classes = [axes.scatter([], [], s=60, color=color, label=name) for name, color in zip(names, COLORS)]
    if classes:
        figure.legend(handles=classes, loc="outside right center", frameon=False, fontsize=18, handletextpad=0.1)
    marks = [
        ("o", "none", "unlabelled"),
        ("o", "black", "labelled"),
        ("*", "black", "start"),
        ("*", "#cc0000", "adapted"),
    ]
    signs = [
        axes.scatter(
            [], [], marker=marker, s=42 if marker == "o" else 200, color="#bbbbbb", edgecolors=outline, label=word
        )
        for marker, outline, word in marks
    ]
    axes.legend(handles=signs, loc="upper center", ncols=4, frameon=False, bbox_to_anchor=(0.5, 0))
    axes.set(xticks=[], yticks=[], title=title)
    axes.spines[:].set_visible(False)
    keep(figure, file)
