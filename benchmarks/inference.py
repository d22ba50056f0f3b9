"""Speed and memory of inference, side by side with a naive numpy loop, in one run.

    python -m benchmarks.inference [--device cuda] [--only cipa bapa] [--json results/benchmark-inference-cpu.json]

Features are 20 classes × 600 rows × 512 dimensions (the shape of mini-ImageNet's novel classes), episodes 5-way 1-shot
with 15 queries a class; sampling is part of every time. "naive" is the usual numpy loop over episodes. Where the file
is there, methods that are not measured this time stay in it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.synthetic import synthetic_features
from protoadapt.core.episodes import draw
from protoadapt.core.evaluate import evaluate
from protoadapt.core.methods import METHODS, method
from protoadapt.core.protocol import Protocol
from protoadapt.report.tables import markdown

EPISODES = {"tim_gd": 256, "alpha_tim": 256, "bavardage": 256}
EPISODES |= dict.fromkeys(("paddle", "tim_adm", "transductive_fine_tuning"), 2000)
"""Episodes for about ten seconds; other methods take 10,000."""
GPU_EPISODES = EPISODES | dict.fromkeys(("tim_gd", "alpha_tim"), 2048)
"""On a GPU, whose time for a batch of these hardly depends on how many episodes are in it."""
SEMI = ("protonet", "semi_protonet", "cipa", "bapa")
NAIVE = 400


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


def speed(device: str, only: Sequence[str], most: int) -> dict[str, Any]:
    """Episodes per second: the best of three turns, of slow methods one."""
    features = table()
    X, Y = features.features, features.labels
    counts = {name: min(most, (EPISODES if device == "cpu" else GPU_EPISODES).get(name, 10_000)) for name in only}

    def run(name: str, episodes: int, protocol: Protocol | None = None) -> Callable[[], object]:
        return lambda: evaluate(X, Y, name, protocol, episodes=episodes, device=device, **features.base)

    def best(work: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
        return {name: min(clock for clock, _ in times) for name, times in measure.by_turns(work, rounds).items()}

    naive: dict[str, Callable[[], object]] = {
        "naive cipa": lambda: naive_cipa(X.numpy(), Y.numpy(), min(most, NAIVE)),
        "naive pt_map": lambda: naive_pt_map(X.numpy(), Y.numpy(), min(most, NAIVE) // 4),
    }
    for name in (*only, *SEMI):
        run(name, 1)()  # compiles
    seconds = best(naive | {name: run(name, counts[name]) for name in only if name not in EPISODES}, 3)
    seconds |= best({name: run(name, counts[name]) for name in only if name in EPISODES}, 1)
    rates = {
        name: {"episodes": counts[name], "seconds": seconds[name], "episodes_per_s": counts[name] / seconds[name]}
        for name in only
    }
    semi = best({name: run(name, most, Protocol("semi", unlabeled=20)) for name in SEMI}, 3)
    [(drawing, _)] = measure.by_turns({"": lambda: list(draw(Y.numpy(), Protocol(), 0, most))}, 1)[""]
    return {
        "naive_episodes_per_s": {
            "cipa": min(most, NAIVE) / seconds["naive cipa"],
            "pt_map": min(most, NAIVE) // 4 / seconds["naive pt_map"],
        },
        "methods": rates,
        "semi_episodes_per_s": {name: most / one for name, one in semi.items()},
        "drawing_10000_s": drawing,
    }


def peak(episodes: int) -> float:
    """Peak resident memory (GB) of a process that evaluates CIPA on this many episodes."""
    command = [sys.executable, "-m", "benchmarks.inference", "--peak", str(episodes)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def agreement(device: str) -> dict[str, Any]:
    """The share of predictions that are the same on the CPU and on `device`."""
    features, same = table(), {}
    for name in METHODS:
        run, equal, total = method(name), 0, 0
        for drawn in draw(features.labels.numpy(), Protocol(), 0, 64 if name in EPISODES else 1024):
            episodes = drawn.episodes(features.features, 5, **features.base)
            here, there = run(episodes).argmax(-1), run(episodes.to(device)).argmax(-1).cpu()
            equal, total = equal + int((here == there).sum()), total + here.numel()
        same[name] = {"equal": equal, "of": total, "share": equal / total}
    return same


def main() -> None:
    parser = measure.arguments(__doc__, device="cpu", episodes=10_000)
    parser.add_argument("--only", nargs="+", choices=METHODS, help="measure these")
    parser.add_argument("--peak", type=int, help="print the peak memory of a process with so many episodes, and end")
    options = parser.parse_args()
    if options.peak:
        features = table()
        evaluate(features.features, features.labels, "cipa", episodes=options.peak)
        status = Path("/proc/self/status").read_text()  # getrusage would give the parent's peak where that is higher
        print(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e6)  # type: ignore[index]
        return
    report: dict[str, Any] = {"protocol": "5-way 1-shot, 15 queries a class, 512-d", "seed": 0}
    report |= speed(options.device, options.only or list(METHODS), options.episodes)
    if options.device == "cpu":
        report["peak_gb"] = {str(n): peak(n) for n in (options.episodes, 10 * options.episodes)}
    else:
        report["cpu_agreement"] = agreement(options.device)
    naive = report["naive_episodes_per_s"]
    rows = [
        [name, f"{one['episodes_per_s']:,.0f}", f"{one['episodes_per_s'] / naive[name]:.1f}" if name in naive else ""]
        for name, one in report["methods"].items()
    ]
    print(markdown(["method", "episodes/s", "× naive numpy loop"], rows))
    if options.json and options.json.exists():
        report["methods"] = json.loads(options.json.read_text())["methods"] | report["methods"]
    measure.write(options.json, report, options.device)


if __name__ == "__main__":
    main()
