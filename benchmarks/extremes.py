"""Extreme queries (one query, one class, pictures of other classes, odd class sizes): all methods on the same tasks.

    python -m benchmarks.extremes FEATURES … [--episodes 600] [--seed 0] [--json results/extremes-NAME.json]

5-way tasks, 1- and 5-shot, from any feature files with ten classes or more. Foreign pictures, of up to five further
classes, are among the queries but have no right answer and are not scored. α-TIM, a thousand steps of gradient
descent, gets the first of the episodes only. Differences are paired. An episode depends on the seed, the case and its
own number alone.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from paper.extremes_page import table
from protoadapt.core.episodes import Draw
from protoadapt.core.features import Features, load_features
from protoadapt.core.files import written_whole
from protoadapt.core.methods import method
from protoadapt.core.provenance import hardware, versions
from protoadapt.core.statistics import half_width
from protoadapt.report.tables import markdown

WAY, SHOTS, FOREIGN = 5, (1, 5), 5
SPECS = {
    "ProtoNet": "protonet",
    "ProtoNet, support-centred": "cipa(n_iter=0, center=support, power=auto)",
    "CIPA": "cipa(power=auto)",
    "CIPA, joint centre": "cipa(center=joint, power=auto)",
    "PT+MAP": "pt_map(power=auto)",
    "α-TIM": "alpha_tim",
    "BAPA": "bapa",
}
Rng = np.random.Generator


def uniform(n: int) -> Callable[[Rng], np.ndarray]:
    return lambda rng: np.bincount(rng.integers(0, WAY, n), minlength=WAY)


def balanced(n: int) -> Callable[[Rng], np.ndarray]:
    return lambda rng: np.full(WAY, n // WAY)


def dominated(n: int, others: int) -> Callable[[Rng], np.ndarray]:
    """All but `others` rows of one class."""
    return lambda rng: np.bincount(np.append(rng.integers(1, WAY, others), np.zeros(n - others, int)), minlength=WAY)


def dirichlet(n: int, alpha: float) -> Callable[[Rng], np.ndarray]:
    return lambda rng: rng.multinomial(n, rng.dirichlet(np.full(WAY, alpha)))


# name → class sizes (5) of an episode's queries, and the number of foreign ones
CASES: dict[str, tuple[Callable[[Rng], np.ndarray], int]] = {
    "1 query": (uniform(1), 0),
    "3 queries": (uniform(3), 0),
    "10 queries": (uniform(10), 0),
    "40, all of one class": (dominated(40, 0), 0),
    "40, 95 % of one class": (dominated(40, 2), 0),
    "75 balanced + 30 % foreign": (balanced(75), 32),
    "75 balanced": (balanced(75), 0),
    "25 balanced": (balanced(25), 0),
    "75, Dirichlet(2)": (dirichlet(75, 2.0), 0),
    "75, Dirichlet(0.5)": (dirichlet(75, 0.5), 0),
}


def draw(labels: np.ndarray, case: str, shot: int, seed: int, episodes: int) -> Draw:
    """Queries labelled −1 are of classes outside the task."""
    sizes, foreign = CASES[case]
    pools = [np.flatnonzero(labels == c) for c in np.unique(labels[labels >= 0])]
    drawn = [
        one(pools, sizes, foreign, shot, np.random.default_rng([seed, *case.encode(), shot, e]))
        for e in range(episodes)
    ]
    support, query, query_labels = (np.stack(part) for part in zip(*drawn))
    return Draw(support, np.tile(np.repeat(np.arange(WAY), shot), (episodes, 1)), query, query_labels)


def one(pools: list[np.ndarray], sizes, foreign: int, shot: int, rng: Rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    while True:  # until the classes have rows enough
        chosen = rng.permutation(len(pools))[: WAY + FOREIGN]
        counts = sizes(rng)
        if all(len(pools[c]) >= shot + n for c, n in zip(chosen, counts)):
            break
    rows = [rng.choice(pools[c], shot + n, replace=False) for c, n in zip(chosen, counts)]
    strange = rng.choice(np.concatenate([pools[c] for c in chosen[WAY:]]), foreign, replace=False)
    query = np.concatenate([*(r[shot:] for r in rows), strange])
    label = np.append(np.repeat(np.arange(WAY), counts), np.full(foreign, -1))
    order = rng.permutation(len(query))
    return np.concatenate([r[:shot] for r in rows]), query[order], label[order]


@torch.no_grad()
def accuracies(features: Features, drawn: Draw, spec: str, batch: int = 128) -> np.ndarray:
    """(E): percent of the queries that have a right answer."""
    run, memo, found = method(spec), {}, []
    for start in range(0, len(drawn.support), batch):
        part = drawn[start : start + batch]
        answer = run(part.episodes(features.features, WAY, memo=memo)).argmax(-1).numpy()
        known = part.query_labels >= 0
        found.append(100 * ((answer == part.query_labels) & known).sum(1) / known.sum(1))
    return np.concatenate(found)


def measure(features: Features, episodes: int, few: int, seed: int) -> list[dict]:
    rows = []
    for case in CASES:
        for shot in SHOTS:
            drawn = draw(features.labels.numpy(), case, shot, seed, episodes)
            got = {}
            for name, spec in SPECS.items():
                part = drawn[:few] if spec == "alpha_tim" else drawn
                got[name] = accuracies(features, part, spec) if len(part.support) else np.empty(0)
            rows.append({"case": case, "shot": shot, "queries": int(drawn.query.shape[1]), "methods": summary(got)})
            print(".", end="", flush=True, file=sys.stderr)
    return rows


def summary(got: dict[str, np.ndarray]) -> dict[str, dict]:
    """Accuracy and interval of each method, and the paired difference of BAPA to it."""
    out = {}
    for name, values in got.items():
        if len(values):
            more = got["BAPA"][: len(values)] - values
            out[name] = {"accuracy": values.mean(), "ci95": half_width(values), "episodes": len(values)}
            out[name] |= {"bapa_minus": more.mean(), "bapa_minus_ci95": half_width(more)}
            out[name] = {key: round(float(value), 3) for key, value in out[name].items()}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--alpha-tim-episodes", type=int, default=100, help="episodes for α-TIM; 0 leaves it out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report = {"schema": "protoadapt-extremes/1", "seed": options.seed, "episodes": options.episodes, "way": WAY}
    report |= {"versions": versions(), "hardware": hardware(), "sets": []}
    report["methods"] = {name: {"method": spec, "arguments": method(spec).settings} for name, spec in SPECS.items()}
    for path in options.features:
        features = load_features(path)
        rows = measure(features, options.episodes, options.alpha_tim_episodes, options.seed)
        about = {key: value for key, value in features.about.items() if key != "class_names"}
        report["sets"].append({"name": path.stem, "features": about, "rows": rows})
        print(f"\n{path.stem}\n{markdown(*table(rows))}", flush=True)
    if options.json:
        with written_whole(options.json) as partial:
            partial.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
