"""The cells that BAPA's constants were chosen on: accuracies of several methods on the same tasks, set by set.

    python -m benchmarks.bapa_choice FEATURES… --json FILE
    python -m benchmarks.bapa_choice FEATURES… --methods 'cipa(power=auto);bapa;bapa(n_iter=12, sigma=0.25)'

FEATURES are files of `protoadapt extract`, of validation classes only. A set with too few classes or rows for a cell is
left out of it. A row of the file is a cell, a method, its mean over the sets and the accuracy on each of them.
"""

from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import measure
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.features import load_features
from protoadapt.core.methods.by_name import split_specs
from protoadapt.core.protocol import Protocol

CELLS: dict[str, dict[str, Any]] = {
    "balanced": {},
    "Dirichlet(2)": {"kind": "dirichlet"},
    "Dirichlet(0.5)": {"kind": "dirichlet", "alpha": 0.5},
    "5 of 10 classes": {"kind": "present", "way": 10},
    "one class": {"kind": "one-class", "query": 36},
    "30 % foreign": {"kind": "open"},
    "10-way balanced": {"way": 10},
    "25 queries": {"query": 5},
    "3 queries in all": {"kind": "few", "query": 3},
    "10 queries in all": {"kind": "few", "query": 10},
}
"""One class: 36 queries, as CUB's smallest validation class has 41 pictures."""
SHOTS = (1, 5)
METHODS = "cipa(power=auto);bapa;pt_map(power=auto);bapa(class_prior=equal)"


def table(files: list[Path], specs: list[str], episodes: int, seed: int) -> list[dict[str, Any]]:
    """A row per cell and method."""
    rows: dict[tuple[str, int, str], dict[str, float]] = {}
    for file in files:
        features = load_features(file)
        for cell, settings in CELLS.items():
            for shot in SHOTS:
                protocol = Protocol(shot=shot, **settings)
                try:
                    results = compare(features.features, features.labels, specs, protocol, episodes=episodes, seed=seed)
                except UserError as error:
                    print(f"{file.stem} is left out of {cell}, {shot}-shot: {error}")
                    continue
                for spec, result in zip(specs, results):
                    rows.setdefault((cell, shot, spec), {})[file.stem] = round(float(result.accuracy), 2)
    return [
        {"cell": cell, "shot": shot, "method": spec, "mean": round(fmean(sets.values()), 2), "sets": sets}
        for (cell, shot, spec), sets in rows.items()
    ]


def main() -> None:
    parser = measure.arguments(__doc__, methods=METHODS, episodes=768, seed=2)
    parser.add_argument("files", type=Path, nargs="+", metavar="FEATURES")
    options = parser.parse_args()
    specs = split_specs(options.methods, ";")
    rows = table(options.files, specs, options.episodes, options.seed)
    for spec in specs:
        means = [row["mean"] for row in rows if row["method"] == spec]
        print(f"{spec:40}", *(f"{mean:5.1f}" for mean in means), f"| {fmean(means):.2f}")
    config = {"episodes": options.episodes, "seed": options.seed, "cells": CELLS, "shots": SHOTS}
    measure.write(options.json, {"config": config, "rows": rows})


if __name__ == "__main__":
    main()
