"""Choice of the pooling: exponents of the generalised mean over all places, on validation classes.

    python benchmarks/pooling.py --weights DIR --data DIR [--data cub=DIR] --json results/pooling.json

DIR of --weights holds cifar-fs.safetensors …, as `python -m paper` writes them. Up to 200 pictures per class.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from protoadapt import Protocol, compare
from protoadapt.core.files import write_json
from protoadapt.core.provenance import hardware, versions
from protoadapt.training.datasets import load
from protoadapt.vision.networks.model_files import load_model
from protoadapt.vision.networks.staged import Staged, generalised_mean

NETWORKS = {"cifar-fs": ("cifar-fs", "none"), "fc100": ("fc100", "none"), "mini-imagenet": ("mini-imagenet", "none")}
NETWORKS |= {"cub-box": ("cub", "box")}
EXPONENTS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
METHODS = ("cipa", "protonet", "bapa", "pt_map")
PER_CLASS, EPISODES, SEED = 200, 5000, 0


@torch.inference_mode()
def pooled(backbone: Staged, about: dict, pixels: np.ndarray) -> dict[float, torch.Tensor]:
    """Features by exponent, the stages run once."""
    mean, std = (255 * torch.tensor(about[key]).view(3, 1, 1) for key in ("mean", "std"))
    rows: dict[float, list[torch.Tensor]] = {p: [] for p in EXPONENTS}
    for part in np.array_split(pixels, max(1, len(pixels) // 64)):
        places = backbone.forward_to((torch.from_numpy(np.array(part)) - mean) / std, len(backbone.stages))
        for p in EXPONENTS:
            rows[p].append(generalised_mean(places, p))
    return {p: torch.cat(parts) for p, parts in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", action="append", required=True, help="DIR, or NAME=DIR for one dataset")
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    folders = dict(text.split("=", 1) if "=" in text else ("", text) for text in asked.data)
    rows = []
    for name, (dataset, crop) in NETWORKS.items():
        folder = folders.get(dataset, folders.get(""))
        backbone, about = load_model(asked.weights / f"{name}.safetensors")
        images = load(dataset, "val", folder, size=about["size"], crop=crop, per_class=PER_CLASS)
        own = {"network": name, "weights": about["weights"]}
        for p, table in pooled(backbone, about, images.pixels).items():
            for shot in (1, 5):
                for r in compare(table, images.labels, METHODS, Protocol(shot=shot), episodes=EPISODES, seed=SEED):
                    record = {**own, "pooling": p, "method": r.method.label, "shot": shot}
                    rows.append({**record, "accuracy": r.accuracy, "ci95": r.ci95})
                    print(json.dumps(rows[-1]), flush=True)
    protocol = f"validation classes, 5-way, 15 queries a class, {EPISODES} episodes, {PER_CLASS} pictures a class"
    record = {"schema": "protoadapt-pooling/1", "protocol": protocol, "seed": SEED}
    write_json(asked.json, {**record, "versions": versions(), "hardware": hardware(), "rows": rows})


if __name__ == "__main__":
    main()
