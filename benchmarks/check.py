"""Wrong labels that `check` finds, beside cleanlab on the same features; and seconds for 10,000 pictures.

    pip install cleanlab==2.9.0
    python benchmarks/check.py --features DIR --json results/check.json [--datasets caltech …] [--splits 3]

DIR holds one feature file per dataset (`extract`). 5 % of the labels are replaced by another class, drawn at random.
cleanlab gets what its documentation asks for: out-of-sample probabilities, by logistic regression (C = 10, rows of unit
length) in five folds, and its default rule; and, to compare the rules alone, our leave-one-out probabilities.
Precision and recall are of the replaced labels; datasets have wrong labels of their own, which count as mistakes.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from protoadapt import load_features
from protoadapt.core.files import write_json
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.normalize import power_transform
from protoadapt.core.provenance import commit, hardware, versions
from protoadapt.labeling.check import find_faults, leave_one_out, probabilities

DATASETS = ("caltech", "cub", "dtd", "cifar100")
FLIPPED, LARGE, CORES = 0.05, 10_000, 2


def prepared(features: np.ndarray) -> np.ndarray:
    rows = power_transform(torch.from_numpy(features), 0.5, "auto")
    return unit(rows - rows.mean(0)).numpy()


def flipped(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some labels replaced by another class."""
    wrong = rng.choice(len(labels), round(FLIPPED * len(labels)), replace=False)
    n_classes = int(labels.max()) + 1
    given = labels.copy()
    given[wrong] = (labels[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    return given


def measured(found: np.ndarray, p: np.ndarray, given: np.ndarray, wrong: np.ndarray, seconds: float) -> dict:
    own = p[np.arange(len(p)), given]
    return {
        "precision": float(wrong[found].mean()) if found.any() else 0.0,
        "recall": float(found[wrong].mean()),
        "average_precision": float(average_precision_score(wrong, -own)),
        "seconds": seconds,
    }


def compare(features: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, dict]:
    from cleanlab.filter import find_label_issues

    given = flipped(labels, np.random.default_rng(seed))
    wrong = given != labels
    start = time.perf_counter()
    rows = prepared(features)
    faults = find_faults(rows, given)
    seconds = time.perf_counter() - start
    found = np.isin(np.arange(len(given)), [one.row for one in faults.suspects])
    p = probabilities(leave_one_out(rows, given), given)
    result = {"protoadapt check": measured(found, p, given, wrong, seconds)}
    result["cleanlab, our probabilities"] = measured(find_label_issues(given, p, n_jobs=1), p, given, wrong, seconds)
    start = time.perf_counter()
    plain = features / np.linalg.norm(features, axis=1, keepdims=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    p = cross_val_predict(LogisticRegression(C=10), plain, given, cv=folds, method="predict_proba")
    issues = find_label_issues(given, p, n_jobs=1)
    result["cleanlab"] = measured(issues, p, given, wrong, time.perf_counter() - start)
    return result


def seconds_for_many(features: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Wall time and processor time for 10,000 rows: those of a dataset, repeated with noise."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, len(labels), LARGE)
    noise = rng.normal(0, features.std(), (LARGE, features.shape[1]))
    many = np.maximum(features[index] + 0.5 * noise, 0).astype(np.float32)
    start, busy = time.perf_counter(), time.process_time()
    find_faults(prepared(many), labels[index])
    return time.perf_counter() - start, time.process_time() - busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--splits", type=int, default=3)
    asked = parser.parse_args()
    from cleanlab import __version__ as cleanlab

    rows = []
    for dataset in asked.datasets:
        table = load_features(asked.features / f"{dataset}.safetensors")
        features, labels = table.features.numpy(), table.labels.numpy()
        runs = [compare(features, labels, seed) for seed in range(asked.splits)]
        for name in runs[0]:
            mean = {key: round(float(np.mean([run[name][key] for run in runs])), 4) for key in runs[0][name]}
            about = {"dataset": dataset, "pictures": len(labels), "classes": int(labels.max()) + 1}
            rows.append({**about, "weights": table.metadata["weights"], "method": name, **mean})
            print(json.dumps(rows[-1]), flush=True)
    torch.set_num_threads(CORES)
    large, busy = min(seconds_for_many(features, labels) for _ in range(5))
    print(f"{LARGE:,} pictures: {large:.1f} s, {busy:.1f} s of processor time")
    if asked.json:
        about = {"schema": "protoadapt-benchmark/1", "flipped": FLIPPED, "splits": asked.splits}
        about |= {
            "seeds": "0 … splits − 1",
            "seconds_10000": round(large, 2),
            "processor_seconds_10000": round(busy, 2),
            "threads": torch.get_num_threads(),
        }
        about |= {"versions": {**versions(), "cleanlab": cleanlab}, "hardware": hardware(), "commit": commit()}
        write_json(asked.json, {**about, "rows": rows})


if __name__ == "__main__":
    main()
