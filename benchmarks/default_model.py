"""Which embedding `label` should use by default: the same photographs embedded by several models, the same episodes.

    protoadapt extract lite0 --dataset cub --data data --no-base-mean --out lite0.safetensors      (and so on)
    python benchmarks/default_model.py lite0=lite0.safetensors mini=mini.safetensors [--json FILE]

The pictures should be ones that none of the models was trained on, and of the kind that people have.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from protoadapt import Features, Protocol, UserError, compare, load_features
from protoadapt.core.provenance import hardware, versions
from protoadapt.report.tables import markdown

METHODS = ("protonet", "cipa(power=auto)", "bapa")


def same_pictures(tables: dict[str, Features]) -> None:
    first, *others = tables.values()
    for other in others:
        for key in ("dataset", "split", "class_names"):
            if other.metadata.get(key) != first.metadata.get(key):
                raise UserError(f"the files differ in {key}: embed the same pictures with every model")
        if not torch.equal(other.labels, first.labels):
            raise UserError("the files differ in their labels: embed the same pictures with every model")


def measured(tables: dict[str, Features], ways: list[int], shots: list[int], episodes: int) -> list[dict]:
    """One entry per model, way, shot and method; the same episodes for every model."""
    entries = []
    for way, shot in ((way, shot) for way in ways for shot in shots):
        for model, table in tables.items():
            results = compare(table.features, table.labels, METHODS, Protocol(way=way, shot=shot), episodes=episodes)
            for result in results:
                entry = {"model": model, "method": result.method.label, "way": way, "shot": shot}
                entries.append({**entry, "accuracy": round(result.accuracy, 4), "ci95": round(result.ci95, 4)})
    return entries


def by_task(entries: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one row per task and method, one column per network."""
    models = list(dict.fromkeys(e["model"] for e in entries))
    cells = {(e["way"], e["shot"], e["method"], e["model"]): f"{e['accuracy']:.2f} ± {e['ci95']:.2f}" for e in entries}
    lines = dict.fromkeys((e["way"], e["shot"], e["method"]) for e in entries)
    rows = [[f"{w}-way {k}-shot", method, *(cells[w, k, method, model] for model in models)] for w, k, method in lines]
    return markdown(["task", "method", *models], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--way", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--shot", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    tables = {name: load_features(file) for name, _, file in (pair.partition("=") for pair in given.files)}
    same_pictures(tables)
    entries = measured(tables, given.way, given.shot, given.episodes)
    print(by_task(entries))
    if given.json:
        about = {name: {k: v for k, v in table.about.items() if k != "class_names"} for name, table in tables.items()}
        run = {"schema": "protoadapt-default-model/1", "episodes": given.episodes, "seed": 0, "features": about}
        document = {**run, "results": entries, "versions": versions(), "hardware": hardware()}
        given.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
