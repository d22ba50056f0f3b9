"""Speed and memory of inference, side by side with a naive numpy loop, in one run.

    python benchmarks/inference.py [--device cuda] [--json results/benchmark-inference.json]

Features are 20 classes × 600 rows × 512 dimensions (the shape of mini-ImageNet's novel classes), episodes 5-way 1-shot
with 15 queries a class; sampling is part of every time. "naive" is the usual numpy loop over episodes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from slow_methods import EPISODES, GPU_EPISODES

from protoadapt import Protocol, compare
from protoadapt.core.episodes import draw
from protoadapt.core.evaluate import evaluate
from protoadapt.core.features import synthetic_features
from protoadapt.core.methods import METHODS, method
from protoadapt.core.provenance import provenance
from protoadapt.report.tables import markdown

TARGETS = {"protonet": 1000, "semi_protonet": 1000, "simpleshot": 1000, "bd_cspn": 1000, "laplacian_shot": 1000}
TARGETS |= {"pt_map": 1000, "cipa": 3334, "tim_adm": 100}


def table(rows: int = 600, dim: int = 512):
    return synthetic_features(classes=20, rows=rows, dim=dim, spread=2.0)


def naive_episodes(X: np.ndarray, Y: np.ndarray, episodes: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """5-way 1-shot tasks, drawn and prepared one at a time: support (5, D), and queries (75, D) class by class."""
    rng = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(c == Y) for c in range(Y.max() + 1)]
    for _ in range(episodes):
        classes = rng.choice(len(rows_of), 5, replace=False)
        picked = np.stack([rng.choice(rows_of[c], 16, replace=False) for c in classes])
        support, query = X[picked[:, 0]], X[picked[:, 1:].ravel()]
        support, query = ((x + 1e-6) ** 0.5 for x in (support, query))
        support, query = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (support, query))
        support, query = (x - x.mean(0) for x in (support, query))
        yield tuple(x / np.linalg.norm(x, axis=1, keepdims=True) for x in (support, query))


def naive_cipa(X: np.ndarray, Y: np.ndarray, episodes: int, seed: int = 0) -> float:
    """Algorithm 1, one episode at a time in numpy; returns the accuracy."""
    right = 0.0
    for support, query in naive_episodes(X, Y, episodes, seed):
        prototypes = support.copy()
        for step in range(21):
            logits = 10 * query @ (prototypes / np.linalg.norm(prototypes, axis=1, keepdims=True)).T
            z = np.exp(logits - logits.max(1, keepdims=True))
            z /= z.sum(1, keepdims=True)
            if step < 20:
                estimate = (support + z.T @ query) / (1 + z.sum(0))[:, None]
                prototypes = 0.2 * estimate + 0.8 * prototypes
        right += (z.argmax(1) == np.repeat(np.arange(5), 15)).mean()
    return 100 * right / episodes


def naive_pt_map(X: np.ndarray, Y: np.ndarray, episodes: int, seed: int = 0) -> float:
    """PT+MAP, one episode at a time in numpy; returns the accuracy."""
    right = 0.0
    for support, query in naive_episodes(X, Y, episodes, seed):
        centres = support.copy()
        for step in range(21):
            d2 = ((query**2).sum(1)[:, None] - 2 * query @ centres.T + (centres**2).sum(1)).clip(0)
            plan = np.exp(-10 * d2)
            plan /= plan.sum()
            before = np.zeros(len(plan), plan.dtype)
            for _ in range(1000):
                sums = plan.sum(1)
                if np.abs(sums - before).max() <= 1e-6:
                    break
                before = sums
                plan /= sums[:, None]
                plan *= 15 / plan.sum(0)
            if step < 20:
                centres += 0.2 * ((support + plan.T @ query) / (1 + plan.sum(0))[:, None] - centres)
        right += (plan.argmax(1) == np.repeat(np.arange(5), 15)).mean()
    return 100 * right / episodes


def best_of(runs: int, work) -> float:
    """The shortest of several times: other work on the machine only adds to it."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(device: str, only: Sequence[str]) -> dict:
    features = table()
    X, Y = features.features, features.labels
    naive = {
        "cipa": 400 / best_of(3, lambda: naive_cipa(X.numpy(), Y.numpy(), 400)),
        "pt_map": 100 / best_of(3, lambda: naive_pt_map(X.numpy(), Y.numpy(), 100)),
    }
    rates = {}
    for name in only:
        episodes = EPISODES.get(name, 10_000) if device == "cpu" else GPU_EPISODES.get(name, EPISODES.get(name, 10_000))
        options = {"episodes": episodes, "base_mean": features.base_mean, "device": device}
        options["base_covariance"] = features.base_covariance
        runs = 3 if name not in EPISODES else 1
        results = [evaluate(X, Y, name, **options) for _ in range(runs)]
        best = min(results, key=lambda result: result.seconds)
        rates[name] = {"episodes": episodes, "seconds": best.seconds, "episodes_per_s": episodes / best.seconds}
        print(f"{name:26s} {rates[name]['episodes_per_s']:>10,.0f} episodes/s", flush=True)
    options = {"protocol": Protocol("semi", unlabeled=20), "episodes": 10_000, "device": device}
    semi = {
        name: 10_000 / min(evaluate(X, Y, name, **options).seconds for _ in range(3))
        for name in ("protonet", "semi_protonet", "cipa", "bapa")
    }
    print(f"with 20 unlabelled rows a class: {semi}", flush=True)
    start = time.perf_counter()
    drawn = sum(len(block.support) for block in draw(Y.numpy(), Protocol(), 0, 10_000))
    sampling = time.perf_counter() - start
    measured = {"naive_episodes_per_s": naive, "methods": rates, "semi_episodes_per_s": semi}
    return {**measured, "drawing_10000_s": sampling, "drawn": drawn}


def memory(episodes: int) -> float:
    """Peak resident memory (GB) of a process that evaluates CIPA on this many episodes."""
    command = [sys.executable, __file__, "--peak", str(episodes)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def agreement(device: str) -> dict:
    """The share of predictions that are the same on the CPU and on `device`."""
    features = table()
    same = {}
    for name in METHODS:
        run, blocks = method(name), min(4, -(-EPISODES.get(name, 1024) // 256))
        equal = total = 0
        for drawn in draw(
            features.labels.numpy(), Protocol(), 0, min(64, EPISODES[name]) if name in EPISODES else 256 * blocks
        ):
            episodes = drawn.episodes(
                features.features, 5, features.base_mean, base_covariance=features.base_covariance
            )
            here, there = run(episodes).argmax(-1), run(episodes.to(device)).argmax(-1).cpu()
            equal, total = equal + int((here == there).sum()), total + here.numel()
        same[name] = {"equal": equal, "of": total, "share": equal / total}
        print(f"{name:26s} {100 * equal / total:.4f} % of {total:,} predictions equal", flush=True)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", choices=METHODS, help="measure these; the others stay in the file")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        features = table()
        compare(features.features, features.labels, ["cipa"], episodes=options.peak)
        status = Path("/proc/self/status").read_text()  # getrusage would give the parent's peak where that is higher
        print(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e6)
        return
    report = {"schema": "protoadapt-benchmark/1", **provenance(options.device), "load": os.getloadavg()[0]}
    report |= {"threads": torch.get_num_threads(), "protocol": "5-way 1-shot, 15 queries a class, 512-d", "seed": 0}
    report |= speed(options.device, options.only or list(METHODS))
    if options.only:
        before = json.loads(options.json.read_text())
        write(options.json, before | report | {"methods": before["methods"] | report["methods"]})
        return
    write(options.json, report)  # what follows takes as long again
    if options.device == "cpu":
        report["peak_gb"] = {str(n): memory(n) for n in (10_000, 100_000)}
        print("peak memory (GB):", report["peak_gb"])
    else:
        report["cpu_agreement"] = agreement(options.device)
    rows = [
        [name, f"{r['episodes_per_s']:,.0f}", _ratio(name, r, report), f"{TARGETS[name]:,}" if name in TARGETS else ""]
        for name, r in report["methods"].items()
    ]
    print(markdown(["method", "episodes/s", "× naive numpy loop", "asked for"], rows))
    write(options.json, report)


def write(path: Path | None, report: dict) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1) + "\n")


def _ratio(name: str, rate: dict, report: dict) -> str:
    naive = report["naive_episodes_per_s"].get(name)
    return f"{rate['episodes_per_s'] / naive:.1f} × {naive:,.0f}" if naive else ""


if __name__ == "__main__":
    main()
