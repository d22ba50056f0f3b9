"""Corrections only help: rounds of truthful corrections, and the errors among pictures that are never labelled.

    python -m benchmarks.corrections NAME=FEATURES.safetensors … [--splits 20] [--json results/corrections.json]

Per split: 10 classes, 1 example of each, 30 unlabelled pictures per class. In each of three rounds the first ten
pictures of `suggest` are corrected, and the task is fitted again. Counted are the errors and the unknowns among the
pictures that nobody labels in any round, so that no round gains by taking hard pictures out. "alike" counts
corrections as examples like others, as version 0.1.0 did.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.core.arrays import checked
from protoadapt.core.features import load_features
from protoadapt.core.files import written_whole
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.row_source import MemorySource, block_size
from protoadapt.core.provenance import hardware, versions
from protoadapt.labeling.calibration import draw_task
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.familiarity import with_threshold
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.suggest import suggest
from protoadapt.report.tables import markdown
from protoadapt.vision.networks.cards import calibration_of, card_file, read_card

WAY, SHOT, PER_CLASS, ROUNDS, STEP = 10, 1, 30, 3, 10


def split_errors(
    rows: np.ndarray, labels: np.ndarray, seed: int, apart: bool, calibration: Mapping[str, Any] | None
) -> dict[str, Any]:
    """One split: errors and unknowns among the never-labelled pictures, before and after each round."""
    task = draw_task(labels, WAY, SHOT, 0, np.random.default_rng(seed), PER_CLASS)
    table = rows[np.concatenate([task.support, task.unlabeled])]
    truth, n = np.concatenate([task.codes, task.y]), len(task.support)
    labelled, names, answers = np.arange(len(table)) < n, list(map(str, range(WAY))), []
    for _ in range(ROUNDS + 1):
        given, corrected = np.flatnonzero(labelled), np.flatnonzero(labelled) >= n
        source = MemorySource(table, np.flatnonzero(~labelled), block_size(WAY, table.shape[1]), torch.float32)
        estimator = make_estimator("bapa", {})
        estimator.fit_rows(table[given], truth[given], source, corrected if apart else None)
        weighted = corrected if apart else None
        made = Classifier.of(estimator, names, {}, table[given], truth[given], weighted)
        made = with_threshold(made, calibration, truth[given], table[~labelled], weighted)
        answers.append(made.answer(table))
        margin = answers[-1].probability[:, 0] - answers[-1].probability[:, 1]
        prepared, codes = unit(made.prepare(table)).numpy(), np.where(labelled, truth, -1)
        chosen = suggest(prepared, codes, STEP, margin=margin, unknown=answers[-1].unknown)
        labelled = labelled.copy()
        if len(answers) <= ROUNDS:
            labelled[[one.row for one in chosen]] = True
    wrong = [int((one.best[:, 0] != truth)[~labelled].sum()) for one in answers]
    return {
        "pictures": int((~labelled).sum()),
        "errors": wrong,
        "unknown": [int(a.unknown[~labelled].sum()) for a in answers],
    }


def summary(document: Mapping[str, Any]) -> str:
    """Markdown: one row per collection, and the mean."""
    header = [
        "collection",
        "pictures",
        "errors before, after 10, 20, 30 corrections",
        "unknown",
        "splits that end higher",
    ]
    header += ["the same, corrections as examples alike", "splits that end higher"]
    lines, totals = [], []
    for name, result in document["collections"].items():
        own, alike = result["apart"], result["alike"]
        values = [
            np.mean([one[key] for one in side], 0)
            for side, key in ((own, "errors"), (own, "unknown"), (alike, "errors"))
        ]
        worse = [sum(one["errors"][-1] > one["errors"][0] for one in side) for side in (own, alike)]
        lines.append((name, np.mean([one["pictures"] for one in own]), *values, *worse, len(own)))
        totals.append(values)
    mean = [np.mean([values[i] for values in totals], 0) for i in range(3)]
    lines.append(
        ("mean", np.mean([line[1] for line in lines]), *mean, *(sum(line[i] for line in lines) for i in (5, 6, 7)))
    )
    rows = [
        [name, f"{n:.0f}", _path(errors), _path(unknown), f"{a} of {of}", _path(alike), f"{b} of {of}"]
        for name, n, errors, unknown, alike, a, b, of in lines
    ]
    return markdown(header, rows)


def _path(values: np.ndarray) -> str:
    return " → ".join(f"{value:.1f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--model", default="lite0", help="whose calibration decides what is unknown")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    card = card_file(given.model)
    calibration = calibration_of(card, (read_card(card) or {}).get("weights", ""))
    collections: dict[str, Any] = {}
    for name, _, file in (pair.partition("=") for pair in given.files):
        features = load_features(file)
        rows, labels = checked(features.features, features.labels)
        collections[name] = {
            side: [
                split_errors(rows.numpy(), labels, seed, side == "apart", calibration) for seed in range(given.splits)
            ]
            for side in ("apart", "alike")
        }
        print(name, flush=True)
    config = {"way": WAY, "shot": SHOT, "per_class": PER_CLASS, "corrections": STEP, "splits": given.splits, "seed": 0}
    document = {"schema": "protoadapt-corrections/1", "config": config, "collections": collections}
    document |= {"versions": versions(), "hardware": hardware()}
    print(summary(document))
    if given.json:
        with written_whole(given.json) as partial:
            partial.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
