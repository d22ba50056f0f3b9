"""How much of the bare network's speed the whole training loop keeps, side by side in one run.

    python benchmarks/training.py --json results/training-speed.json

bare   forward and backward of backbone and classifier alone: pictures ready on the device as floats, no augmentation,
       no optimiser, nothing logged
loop   `protoadapt.training.train` as users run it: pictures gathered, augmented, normalised, all objectives, optimiser,
       weight average, logging (checkpoints and validation are not part of an epoch's time on either side)

Both pass the same number of rows a step: weak and rotated views (CE + rotation), and the mixed rows besides (with HCT).
images/s counts rows that pass forward and backward.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from protoadapt.core.provenance import hardware, versions
from protoadapt.training import Phase, TrainConfig, train
from protoadapt.vision.networks.backbones import build

PHASES = {
    "ce + rotation": {"ce": 1.0, "rotation": 1.0},
    "ce + rotation + hct": {"ce": 1.0, "rotation": 1.0, "hct": 1.0},
}
GOALS = {"ce + rotation": 0.95, "ce + rotation + hct": 0.85}


def bare(options: argparse.Namespace, rows: int, device: torch.device, classes: int = 64) -> list[float]:
    """Images/s of forward and backward, one number per repeat."""
    cuda = device.type == "cuda"
    network = build(options.backbone, options.width).to(device, memory_format=torch.channels_last)
    head = nn.Linear(network.dim, classes).to(device)
    if cuda:
        for stage in network.stages:
            stage.compile(dynamic=False)
    shape = (rows, 3, options.size, options.size)
    x = torch.randn(shape, device=device).to(memory_format=torch.channels_last)
    y = torch.randint(0, classes, (rows,), device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
            loss = nn.functional.cross_entropy(head(network(x)), y)
        loss.backward()
        for p in (*network.parameters(), *head.parameters()):
            p.grad = None

    def wait() -> None:
        if cuda:
            torch.cuda.synchronize()

    speeds = []
    for repeat in range(options.repeats + 1):  # the first one compiles and warms up
        wait()
        start = time.perf_counter()
        for _ in range(options.steps):
            step()
        wait()
        if repeat:
            speeds.append(rows * options.steps / (time.perf_counter() - start))
    return speeds


def loop(options: argparse.Namespace, weights: dict[str, float], device: torch.device) -> list[float]:
    """Images/s of the whole loop, one number per epoch."""
    rng = np.random.default_rng(0)
    count = options.batch * options.steps
    pixels = rng.integers(0, 256, (count, 3, options.size, options.size), dtype=np.uint8)
    base = SimpleNamespace(pixels=pixels, labels=np.arange(count) % 64, class_names=[str(c) for c in range(64)])
    config = TrainConfig(
        **{"dataset": "noise", "size": options.size, "backbone": options.backbone, "width": options.width},
        **{"batch": options.batch, "epochs": options.repeats + 1, "checkpoint_every": options.repeats + 1},
        phases=(Phase(1.0, weights),),
        lr=1e-3,
    )
    with tempfile.TemporaryDirectory() as folder:
        accelerator = "cuda" if device.type == "cuda" else "cpu"
        result = train(config, base, None, folder, accelerator=accelerator)
    return [row["images_per_second"] for row in result["history"]][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet12")
    parser.add_argument("--width", type=int, default=None)
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100, help="steps per repeat (an epoch of the loop)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    device = torch.device(options.device)

    rows = []
    print(f"{'':<22}{'rows a step':>12}{'bare':>12}{'loop':>12}{'kept':>8}{'goal':>8}")
    for name, weights in PHASES.items():
        views = options.batch * len(weights)
        alone, whole = bare(options, views, device), loop(options, weights, device)
        kept = statistics.median(whole) / statistics.median(alone)
        rows.append(
            {
                **{"phase": name, "rows_a_step": views, "bare_images_per_second": alone},
                **{"loop_images_per_second": whole, "kept": kept, "goal": GOALS[name]},
            }
        )
        speeds = f"{statistics.median(alone):>12,.0f}{statistics.median(whole):>12,.0f}"
        print(f"{name:<22}{views:>12}{speeds}{kept:>8.1%}{GOALS[name]:>8.0%}", flush=True)
    if options.json:
        about = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items() if k != "json"}
        result = {"schema": "protoadapt-benchmark/1", "benchmark": "training", "settings": about, "rows": rows}
        result |= {"versions": versions(), "hardware": hardware(device)}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
