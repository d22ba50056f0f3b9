"""Which network for which pictures: accuracy with few labels, and the computing time per picture.

    python benchmarks/embeddings.py pictures/* --models lite0 lite1 lite2 lite0+lite2 --cache DIR [--json FILE]

Each folder holds one folder per class. The first classes and the first pictures of each are embedded on one core, and
all networks answer the same episodes. A joined network's rows are made of its networks' own, as `networks.joined` does,
but that each reads the file at its own size. Features are kept in --cache as NAME-FOLDER.npz; a NAME that is there
already needs no network of that name.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from protoadapt import Protocol, evaluate
from protoadapt.core.provenance import hardware, versions
from protoadapt.vision import networks
from protoadapt.vision.embed import embed
from protoadapt.vision.pictures.decode import Picture, decode


def features(name: str, folder: Path, cache: Path, classes: int, pictures: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows (N, D) of one network and their classes (N), computed once."""
    parts = [_own(part, folder, cache, classes, pictures) for part in name.split("+")]
    rows = parts[0][0] if len(parts) == 1 else torch.cat([F.normalize(rows) for rows, _ in parts], 1)
    return rows, parts[0][1]


def _own(name: str, folder: Path, cache: Path, classes: int, pictures: int) -> tuple[torch.Tensor, torch.Tensor]:
    file = cache / f"{name}-{folder.name}.npz"
    if not file.exists():
        chosen = [sorted(one.iterdir())[:pictures] for one in sorted(folder.iterdir())[:classes]]
        network, about = networks.load(name)
        files = [str(path) for one in chosen for path in one]
        rows = [
            embed(
                network, about, np.stack([decode(Picture("", "", path), about["size"]) for path in files[i : i + 16]])
            )
            for i in range(0, len(files), 16)
        ]
        labels = np.repeat(np.arange(len(chosen)), [len(one) for one in chosen])
        np.savez(file, features=torch.cat(rows).numpy(), labels=labels)
    with np.load(file) as table:
        return torch.from_numpy(table["features"]), torch.from_numpy(table["labels"]).long()


def milliseconds(name: str) -> float:
    """Of CPU time per picture: of ten times eight pictures, the quickest."""
    network, about = networks.load(name)
    pixels = np.zeros((8, 3, about["size"], about["size"]), np.uint8)
    times = []
    for _ in range(10):
        start = time.process_time()
        embed(network, about, pixels)
        times.append(1000 * (time.process_time() - start) / len(pixels))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--models", nargs="+", default=["lite0", "lite1", "lite2", "lite0+lite2"])
    parser.add_argument("--method", default="bapa")
    parser.add_argument("--classes", type=int, default=30)
    parser.add_argument("--pictures", type=int, default=25)
    parser.add_argument("--episodes", type=int, default=500, help="with 5 classes; fewer with more")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.cache.mkdir(parents=True, exist_ok=True)
    named = [name for name in given.models if {*name.split("+")} <= {*networks.names()}]
    costs = {name: round(milliseconds(name), 2) for name in named}
    print(costs, flush=True)
    accuracies: dict[str, dict[str, dict[str, list[float]]]] = {}
    sizes = {}
    for folder in given.folders:
        for name in given.models:
            rows, labels = features(name, folder, given.cache, given.classes, given.pictures)
            sizes[folder.name] = [int(labels.max()) + 1, len(labels)]
            for way in sorted({5, min(20, sizes[folder.name][0])}):
                for shot in (1, 5):
                    episodes = given.episodes * 5 // way  # as many queries with many classes as with few
                    result = evaluate(rows, labels, given.method, Protocol(way=way, shot=shot), episodes=episodes)
                    cell = [round(result.accuracy, 2), round(result.ci95, 2)]
                    accuracies.setdefault(folder.name, {}).setdefault(f"{way}-way {shot}-shot", {})[name] = cell
        print(folder.name, accuracies[folder.name], flush=True)
    if given.json:
        run = {"schema": "protoadapt-embeddings/1", "method": given.method, "episodes": given.episodes, "seed": 0}
        run |= {"classes_and_pictures": sizes, "cpu_ms_per_picture": costs, "accuracy": accuracies}
        run |= {"hardware": hardware(), "versions": versions()}
        given.json.write_text(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
