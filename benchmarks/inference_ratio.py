"""Inference beside an earlier version of the package, in turn, so that other work on the machine meets both alike.

    mkdir before && git archive 65c4221 src | tar -x -C before
    python benchmarks/inference_ratio.py before/src [--json results/benchmark-inference-ratio.json]

Episodes are those of `inference.py`. Counted is the time on a processor core, of one thread, drawing not included: the
best of all rounds. It does not depend on how many others wait for the core, but on what they leave in its caches.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS, REPEATS, EPISODES = 3, 5, 128
CASES = {
    **{name: (name, {}) for name in ("protonet", "cipa", "bapa", "pt_map", "tim_gd", "alpha_tim")},
    **{f"{name}, 5-shot": (name, {"shot": 5}) for name in ("cipa", "bapa")},
    **{f"{name}, semi-supervised": (name, {"kind": "semi", "unlabeled": 20}) for name in ("cipa", "bapa")},
}
SLOW = ("tim_gd", "alpha_tim")


def measure() -> dict[str, float]:
    """Core seconds per episode of each case, with the package on the path."""
    import torch

    from protoadapt import Protocol
    from protoadapt.core.episodes import draw
    from protoadapt.core.features import synthetic_features
    from protoadapt.core.methods import method

    torch.set_num_threads(1)
    table = synthetic_features(classes=20, rows=600, dim=512, spread=2.0)
    seconds = {}
    for case, (name, protocol) in CASES.items():
        n, repeats = (8, 1) if name in SLOW else (EPISODES, REPEATS)
        drawn = next(draw(table.labels.numpy(), Protocol(**protocol), 0, n))
        episodes = drawn.episodes(table.features, 5, table.base_mean)
        method(name)(episodes[:1])  # compiles
        times = []
        for _ in range(repeats):
            start = time.process_time()
            method(name)(episodes)
            times.append(time.process_time() - start)
        seconds[case] = min(times) / n
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", nargs="?", help="src folder of the earlier version")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.before is None:
        print(json.dumps(measure()))
        return
    paths = {"before": options.before, "now": str(Path(__file__).parents[1] / "src")}
    best: dict[str, dict[str, float]] = {case: {} for case in CASES}
    for _ in range(ROUNDS):
        for version, path in paths.items():
            environment = {**os.environ, "PYTHONPATH": path}
            done = subprocess.run(
                [sys.executable, __file__], env=environment, capture_output=True, text=True, check=True
            )
            for case, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                best[case][version] = min(seconds, best[case].get(version, seconds))
    rows = {case: {**times, "ratio": times["before"] / times["now"]} for case, times in best.items()}
    for case, row in rows.items():
        print(f"{case:24s} {1e6 * row['before']:9,.0f} → {1e6 * row['now']:9,.0f} µs of a core, {row['ratio']:.2f} ×")
    if options.json:
        from protoadapt.core.provenance import hardware, versions

        about = {"schema": "protoadapt-benchmark/1", "hardware": hardware("cpu"), "versions": versions(), "seed": 0}
        about |= {"rounds": ROUNDS, "unit": "core seconds per episode", "before": "65c4221"}
        options.json.write_text(json.dumps({**about, "cases": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
