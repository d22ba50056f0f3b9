"""Accuracy per label of `suggest`, beside random choice, the smallest margin and k-centre.

    python -m benchmarks.suggest --features DIR --json results/suggest.json [--datasets cub dtd …] [--splits 12]

DIR holds one feature file per dataset (`extract`). A split draws ten classes and puts half of their pictures into the
pool that labels may be asked for. The other half is the test; like a user's folder, all pictures take part in the fit
as unlabelled ones. Labels come in rounds of one per class on average, and the classifier (BAPA, defaults) is fitted
again after each. Two beginnings: one random label per class ("one"), and no label at all ("none"), where margin has no
classifier to ask and begins at random. Strategies share their splits, so differences are paired.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks import measure
from protoadapt import BAPAClassifier, load_features
from protoadapt.core.methods.common import unit
from protoadapt.core.prototype_model import power_transform
from protoadapt.core.statistics import half_width
from protoadapt.labeling.suggest import suggest

DATASETS = ("cub", "cars", "cifar100", "dtd")
WAY, ROUNDS = 10, 3
Choice = Callable[[np.ndarray, np.ndarray, np.ndarray | None, int, np.random.Generator], np.ndarray]


def at_random(rows, codes, margin, n, rng):
    return rng.permutation(np.flatnonzero(codes < 0))[:n]


def smallest_margin(rows, codes, margin, n, rng):
    pool = np.flatnonzero(codes < 0)
    return at_random(rows, codes, margin, n, rng) if margin is None else pool[np.argsort(margin[pool])[:n]]


def k_centre(rows, codes, margin, n, rng):
    """The greedy k-centre of core-sets (Sener and Savarese, 2018): each time the row farthest from all labels."""
    chosen, labelled = [], list(np.flatnonzero(codes >= 0))
    if not labelled:
        chosen = [int(rng.integers(len(rows)))]
    nearest = (rows @ rows[labelled + chosen].T).max(1)
    while len(chosen) < n:
        chosen.append(int(np.where(codes < 0, nearest, np.inf).argmin()))
        nearest = np.maximum(nearest, rows @ rows[chosen[-1]])
    return np.array(chosen)


def suggested(rows, codes, margin, n, rng):
    return np.array([one.row for one in suggest(rows, codes, n, margin=margin)])


STRATEGIES: dict[str, Choice] = {
    "random": at_random,
    "margin": smallest_margin,
    "k-centre": k_centre,
    "suggest": suggested,
}


def prepared(features: np.ndarray, center: np.ndarray | None) -> np.ndarray:
    """Rows as `label` compares them: power, about the fitted centre (their mean before there is one), unit length."""
    rows = power_transform(torch.from_numpy(features), 0.5, "auto")
    return unit(rows - (rows.mean(0) if center is None else torch.from_numpy(center))).numpy()


def curve(features, truth, pool, start, choose, rng) -> list[float]:
    """Accuracy on the test after 0, 1, … rounds."""
    codes = np.full(len(truth), -1)
    codes[start] = truth[start]
    test = []
    for rounds in range(ROUNDS + 1):
        answer, margin, center = np.full(len(truth), -1), None, None
        if len(np.unique(codes[codes >= 0])) > 1:
            model = BAPAClassifier().fit(features, codes)
            p = np.sort(model.predict_proba(features), 1)
            answer, margin, center = model.transduction_, p[:, -1] - p[:, -2], model.center_
        test.append(100 * float((answer == truth)[~pool].mean()))
        if rounds < ROUNDS:
            # every picture has a place among the rows, but only those of the pool may be chosen
            rows, among = prepared(features, center), np.flatnonzero(pool)
            chosen = among[choose(rows[among], codes[among], None if margin is None else margin[among], WAY, rng)]
            codes[chosen] = truth[chosen]
    return test


def split(features: np.ndarray, labels: np.ndarray, seed: int):
    """Ten classes of a dataset: features, classes from 0, whether in the pool, one row of the pool per class."""
    rng = np.random.default_rng(seed)
    classes = np.sort(rng.choice(np.unique(labels), WAY, replace=False))
    rows = rng.permutation(np.flatnonzero(np.isin(labels, classes)))
    truth = np.searchsorted(classes, labels[rows])
    pool = np.arange(len(rows)) < len(rows) // 2
    start = np.array([np.flatnonzero(pool & (truth == c))[0] for c in range(WAY)])
    return features[rows], truth, pool, start


def main() -> None:
    parser = measure.arguments(__doc__, splits=12)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    asked = parser.parse_args()
    rows = []
    for dataset in asked.datasets:
        table = load_features(asked.features / f"{dataset}.safetensors")
        features, labels = table.features.numpy(), table.labels.numpy()
        for beginning in ("one", "none"):
            found: dict[str, list] = {name: [] for name in STRATEGIES}
            for seed in range(asked.splits):
                *data, start = split(features, labels, seed)
                first = start if beginning == "one" else start[:0]
                for name, choose in STRATEGIES.items():
                    found[name].append(curve(*data, first, choose, np.random.default_rng([seed, 1])))
            for name, of_splits in found.items():
                curves = np.array(of_splits)  # (splits, rounds)
                gain = curves - np.array(found["random"])
                record = {"dataset": dataset, "start": beginning, "strategy": name}
                record |= {"weights": table.metadata["weights"], "test": curves.mean(0).round(2).tolist()}
                record["test_gain"] = gain.mean(0).round(2).tolist()
                record["test_gain_ci95"] = [round(half_width(gain[:, r]), 2) for r in range(ROUNDS + 1)]
                rows.append(record)
                print(json.dumps(record), flush=True)
        about = {"way": WAY, "splits": asked.splits, "labels_per_class": list(range(ROUNDS + 1))}
        measure.write(asked.json, {**about, "rows": rows})  # after each dataset, as they take minutes


if __name__ == "__main__":
    main()
