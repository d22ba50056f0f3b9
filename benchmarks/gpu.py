"""What a GPU keeps of its speed: extraction beside the forward pass, and two methods that solve many small problems.

    python benchmarks/gpu.py [--device cuda] [--pictures 60000] --json results/benchmark-gpu.json

Extraction is `extract --manifest` on JPEG files of 84 × 84 and of 500 × 375 pixels with a ResNet-12 (`scale.py`).
LR+ICI and iLPC run on the GPU, and on two cores of the same machine in a process of their own. About 1.5 minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import inference
import scale
import torch

from protoadapt.core.evaluate import evaluate
from protoadapt.core.files import write_json
from protoadapt.core.provenance import hardware, versions

METHODS = ("lr_ici", "ilpc")
SIDES = {"84 × 84, drawn": (84, 84), "500 × 375, drawn": (500, 375)}
EPISODES = {"cpu": 64, "cuda": 2048}


def rates(device: str) -> dict[str, float]:
    """Episodes per second of METHODS, the better of two runs: the first compiles and fills caches."""
    features = inference.table()
    episodes = EPISODES[torch.device(device).type]
    options = {"episodes": episodes, "base_mean": features.base_mean, "device": device}
    return {
        name: max(episodes / evaluate(features.features, features.labels, name, **options).seconds for _ in range(2))
        for name in METHODS
    }


def on_two_cores() -> dict[str, float]:
    words = [sys.executable, __file__, "--two-cores"]
    run = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pictures", type=int, default=60_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--two-cores", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.two_cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        torch.set_num_threads(2)
        print(json.dumps(rates("cpu")))
        return
    report = {"schema": "protoadapt-benchmark/1", "versions": versions(), "hardware": hardware(options.device)}
    report["extract"] = []
    for of, side in SIDES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, "photographs")
            pictures = options.pictures if side == (84, 84) else options.pictures // 2
            scale.photographs(folder, pictures, side)
            job = argparse.Namespace(pictures=pictures, device=options.device, images=folder, workers=None)
            job.threads = torch.get_num_threads()
            report["extract"].append(scale.extraction(Path(place), job) | {"of": of})
            if options.json:
                write_json(options.json, report)
    report["episodes_per_s"] = {"two cores": on_two_cores(), options.device: rates(options.device)}
    report["load"] = os.getloadavg()[0]
    print(json.dumps(report, indent=1))
    if options.json:
        write_json(options.json, report)


if __name__ == "__main__":
    main()
