"""Which power transform suits features of both signs, as those of ViT, CLIP or DINOv2 are.

    python benchmarks/signed.py FEATURES_DIR [--json results/signed-features.json]

A random rotation of rectified features, those of feature files NAME.safetensors in a folder, makes them of both signs
and keeps every distance and angle: what a method loses by it is what its power transform knew of the signs.
"""

import argparse
import json
from pathlib import Path

import torch

from protoadapt import Protocol
from protoadapt.core.evaluate import compare
from protoadapt.core.features import load_features
from protoadapt.core.provenance import provenance

METHODS = ("bapa", "bapa(power=off)", "cipa(power=auto)", "cipa(power=off)")
EPISODES, SEED = 1000, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--names", nargs="+", default=["cub", "cars", "dtd", "cifar10", "caltech", "omniglot"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    accuracy: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name in options.names:
        table = load_features(options.features / f"{name}.safetensors")
        rows, dim = table.features.float(), table.features.shape[1]
        rotation, _ = torch.linalg.qr(torch.randn(dim, dim, generator=torch.Generator().manual_seed(SEED)))
        for shot in (1, 5):
            drawn = {"protocol": Protocol(shot=shot), "episodes": EPISODES, "seed": SEED}
            own, rotated = (compare(x, table.labels, METHODS, **drawn) for x in (rows, rows @ rotation))
            pairs = {how: [a.accuracy, b.accuracy] for how, a, b in zip(METHODS, own, rotated)}
            accuracy.setdefault(name, {})[f"5-way {shot}-shot"] = pairs
            print(name, shot, {how: [round(value, 2) for value in pair] for how, pair in pairs.items()}, flush=True)
    if options.json:
        about = {"schema": "protoadapt-benchmark/1", **provenance(), "episodes": EPISODES, "seed": SEED}
        about |= {"features": "lite0", "columns": ["as they are", "rotated"]}
        options.json.write_text(json.dumps({**about, "accuracy": accuracy}) + "\n")


if __name__ == "__main__":
    main()
