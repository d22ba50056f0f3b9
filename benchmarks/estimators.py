"""CIPAClassifier on many rows: time grows linearly with the rows, memory beyond the rows hardly at all.

    python benchmarks/estimators.py [--rows 50000 100000] [--steps 5] [--threads 1] [--device cuda] [--json FILE]

Each size is a process of its own: float32 rows of 512 dimensions, two labelled rows a class, `fit` with so many steps
(CIPA's own 20 take four times as long as 5) and the two best labels of every row. "extra" is the process's peak memory
less its memory before `fit`, rows included. For the largest case: --rows 1000000 --classes 1000 --steps 1.
One thread by default: several wait for each other, and beside other work that wait would be measured.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from protoadapt import CIPAClassifier
from protoadapt.core.provenance import hardware, versions
from protoadapt.report.tables import markdown


def clouds(rows: int, classes: int, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rectified rows, written in place piece by piece so that making them leaves no peak; y and the true labels."""
    rng = np.random.default_rng(0)
    centres = 0.6 * rng.standard_normal((classes, dim), dtype=np.float32) + 0.3
    truth = rng.integers(0, classes, rows)
    truth[: 2 * classes] = np.repeat(np.arange(classes), 2)
    X = np.empty((rows, dim), np.float32)
    for start in range(0, rows, 4096):
        part = X[start : start + 4096]
        rng.standard_normal(out=part, dtype=np.float32)
        part *= 1.5
        part += centres[truth[start : start + 4096]]
        np.maximum(part, 0, out=part)
    return X, np.where(np.arange(rows) < 2 * classes, truth, -1), truth


def memory() -> float:
    """Resident now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def one(rows: int, options: argparse.Namespace) -> dict:
    torch.set_num_threads(options.threads)
    device = options.device
    CIPAClassifier(n_iter=1, device=device).fit(
        *clouds(2000, options.classes, options.dim)[:2]
    )  # warm: libraries, pools
    X, y, truth = clouds(rows, options.classes, options.dim)
    before, start, cpu = memory(), time.perf_counter(), time.process_time()
    model = CIPAClassifier(n_iter=options.steps, device=device).fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {
        "rows": rows,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "data_mb": X.nbytes / 1e6,
        "extra_mb": peak - before,
        "device_mb": torch.cuda.max_memory_allocated() / 1e6 if device != "cpu" else None,
        "accuracy": 100 * float((model.transduction_ == truth)[y < 0].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 100_000, 200_000])
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.rows[0], options)))
        return
    runs = []
    for rows in options.rows:
        same = [f"--{key}={getattr(options, key)}" for key in ("classes", "dim", "steps", "threads", "device")]
        command = [sys.executable, __file__, "--one", f"--rows={rows}", *same]
        runs.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    report = {"schema": "protoadapt-benchmark/1", "hardware": hardware(options.device), "versions": versions()}
    report |= {"threads": options.threads, "device": options.device, "classes": options.classes}
    report |= {"dim": options.dim, "steps": options.steps, "runs": runs}
    header = ["rows", "seconds", "processor seconds", "µs of processor a row", "rows' MB", "extra MB", "accuracy"]
    table = [
        [
            f"{r['rows']:,}",
            f"{r['seconds']:.1f}",
            f"{r['cpu_seconds']:.1f}",
            f"{1e6 * r['cpu_seconds'] / r['rows']:.0f}",
        ]
        + [f"{r['data_mb']:.0f}", f"{r['extra_mb']:.0f}", f"{r['accuracy']:.1f}"]
        for r in runs
    ]
    print(markdown(header, table))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
