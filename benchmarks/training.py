"""How much of the bare network's speed the whole training loop keeps, side by side in one run.

    python -m benchmarks.training --json results/training-speed.json
    python -m benchmarks.training --recipes all --json results/benchmark-recipes.json   every recipe, with its own steps

bare   forward and backward of backbone and classifier alone: pictures ready on the device as floats, no augmentation,
       no optimiser, nothing logged
loop   `protoadapt.training.train` as users run it: pictures gathered, augmented, normalised, all objectives, optimiser,
       weight average, logging (checkpoints and validation are not part of an epoch's time on either side)

Both pass the same number of rows a step: weak and rotated views (CE + rotation), and the mixed rows besides (with HCT).
With --recipes the loop is that of each recipe's last phase: its batches or episodes, its head, its optimiser.
images/s counts rows that pass forward and backward.
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import measure
from protoadapt.training import Phase, TrainConfig, train
from protoadapt.training.plan import rows_per_epoch
from protoadapt.training.recipes import RECIPES, earlier_run, recipe
from protoadapt.vision.networks.backbones import build

PHASES = {
    "ce + rotation": {"ce": 1.0, "rotation": 1.0},
    "ce + rotation + hct": {"ce": 1.0, "rotation": 1.0, "hct": 1.0},
}


def bare(options: argparse.Namespace, rows: int, device: torch.device, classes: int = 64) -> list[float]:
    """Images/s of forward and backward, one number per repeat; the first repeat compiles and is left out."""
    cuda = device.type == "cuda"
    network = build(options.backbone, options.width).to(device, memory_format=torch.channels_last)
    head = nn.Linear(network.dim, classes).to(device)
    for stage in network.stages if cuda else ():
        stage.compile(dynamic=False)
    x = torch.randn((rows, 3, options.size, options.size), device=device).to(memory_format=torch.channels_last)
    y = torch.randint(0, classes, (rows,), device=device)

    def steps() -> None:
        for _ in range(options.steps):
            with torch.autocast(device.type, torch.bfloat16, enabled=cuda):
                loss = nn.functional.cross_entropy(head(network(x)), y)
            loss.backward()
            for p in (*network.parameters(), *head.parameters()):
                p.grad = None
        if cuda:
            torch.cuda.synchronize()

    times = measure.by_turns({"bare": steps}, options.repeats + 1)["bare"]
    return [rows * options.steps / clock for clock, _ in times[1:]]


def noise(options: argparse.Namespace, count: int) -> SimpleNamespace:
    """So many pictures of noise in 64 classes."""
    pixels = np.random.default_rng(0).integers(0, 256, (count, 3, options.size, options.size), dtype=np.uint8)
    return SimpleNamespace(pixels=pixels, labels=np.arange(count) % 64, class_names=[str(c) for c in range(64)])


def sized(options: argparse.Namespace, config: TrainConfig, epochs: int) -> TrainConfig:
    """The config on noise, for so many epochs."""
    shape = {"size": options.size, "backbone": options.backbone, "width": options.width}
    return replace(config, dataset="noise", **shape, epochs=epochs, checkpoint_every=epochs, warmup=0.0, lr=1e-3)


def loop(options: argparse.Namespace, config: TrainConfig, device: torch.device) -> tuple[int, list[float]]:
    """Rows a step, and images/s of the whole loop, one number per epoch."""
    episodic = config.phases[-1].needs.episodes
    base = noise(options, max(config.batch * options.steps, 64 * (config.shot + config.query)))
    config = sized(options, config, options.repeats + 1)
    config = replace(
        config, episodes=options.steps * config.episode_batch, phases=(replace(config.phases[-1], until=1.0),)
    )
    steps = options.steps if episodic else len(base.labels) // config.batch
    rows = rows_per_epoch(config, config.phases[-1], len(base.labels)) // steps
    accelerator = "cuda" if device.type == "cuda" else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        if config.init_from:  # any network of the same shape
            first = sized(options, TrainConfig(batch=64), 1)
            train(first, noise(options, 64), None, f"{folder}/first", accelerator=accelerator, compiled=False)
            teacher = {"teacher": f"{folder}/first"} if config.phases[-1].teacher else {}
            phases = (replace(config.phases[-1], **teacher),)
            config = replace(config, init_from=f"{folder}/first", phases=phases)
        result = train(config, base, None, f"{folder}/run", accelerator=accelerator)
    return rows, [row["images_per_second"] for row in result["history"]][1:]


def main() -> None:
    parser = measure.arguments(__doc__, backbone="resnet12", size=84, batch=256, steps=100, repeats=3, recipes="")
    parser.add_argument("--width", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    configs = {name: TrainConfig(batch=options.batch, phases=(Phase(1.0, w),)) for name, w in PHASES.items()}
    if options.recipes:
        names = [*RECIPES] if options.recipes == "all" else options.recipes.split(",")
        configs = {name: recipe(name, [f"{key}=any"] if (key := earlier_run(name)) else []) for name in names}
    rows: list[dict[str, Any]] = []
    known: dict[int, list[float]] = {}  # rows a step → images/s of the bare network
    for name, config in configs.items():
        views, whole = loop(options, config, device)
        alone = known[views] = known.get(views) or bare(options, views, device)
        row: dict[str, Any] = {"phase": name, "rows_a_step": views, "bare_images_per_second": alone}
        row |= {"loop_images_per_second": whole, "kept": statistics.median(whole) / statistics.median(alone)}
        rows.append(row)
        print(f"{name}: {statistics.median(whole):,.0f} images/s, {row['kept']:.1%} of the bare network", flush=True)
        about = {key: value for key, value in vars(options).items() if key != "json"}
        # after each, so that a run that is cut short leaves what it has
        measure.write(options.json, {"benchmark": "training", "settings": about, "rows": rows}, options.device)


if __name__ == "__main__":
    main()
