"""The demonstration: features the package makes itself, three methods, a table and a picture."""

from pathlib import Path

import numpy as np
import torch

from protoadapt.episodes import Protocol, draw
from protoadapt.evaluate import compare
from protoadapt.features import Features, save_features
from protoadapt.report.paths import draw_paths, path_picture
from protoadapt.report.tables import caption, comparison, markdown, text


def synthetic_features(
    classes: int = 20, rows: int = 120, dim: int = 64, spread: float = 1.1, seed: int = 0
) -> Features:
    """Rectified clouds around class directions: separable in the large, hard from one example."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dim))
    labels = np.repeat(np.arange(classes), rows)
    features = np.maximum(0.6 * centres[labels] + spread * rng.normal(size=(len(labels), dim)) + 0.3, 0)
    base_mean = torch.full((dim,), float(features.mean()))
    return Features(
        torch.from_numpy(features).float(), torch.from_numpy(labels), base_mean, {"dataset": "synthetic clouds"}
    )


def run(out: Path) -> None:
    """ProtoNet, SemiPN and CIPA at 1 and 5 shots; features, a Markdown table and a figure go to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    table = synthetic_features()
    save_features(out / "features.safetensors", table)
    sections = []
    for shot in (1, 5):
        specs = ["protonet", "semi_protonet(metric=cosine)", "cipa"]
        results = compare(table.features, table.labels, specs, Protocol(shot=shot), episodes=2000)
        plain = [result.to_json(**table.about) for result in results]
        header, rows = comparison(plain, "protonet")
        print(caption(plain[0]), text(header, rows), sep="\n", end="\n\n")
        sections.append(f"{caption(plain[0])}\n\n{markdown(header, rows)}\n")
    (out / "results.md").write_text("\n".join(sections))
    drawn = next(draw(table.labels.numpy(), Protocol(), 0, 1))
    picture = path_picture(drawn.episodes(table.features, 5), drawn.query_labels[0])
    draw_paths(picture, out / "paths.png", "5-way 1-shot: CIPA's prototypes on their way")
    print(f"written: {out / 'results.md'}, {out / 'paths.png'}, {out / 'features.safetensors'}")
