"""Which network to take for pictures of one's own: several on the same pictures and episodes.

    python -m benchmarks.embeddings FOLDER … --cache DIR [--models lite0 lite2 lite0+lite2] [--json FILE]

Each FOLDER holds one folder of pictures per class; features are kept in DIR. CPU time is that of one core.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import measure
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import evaluate
from protoadapt.core.features import Features, load_features, save_features
from protoadapt.core.protocol import Protocol
from protoadapt.training.datasets import load_images
from protoadapt.vision import networks
from protoadapt.vision.embed import embed
from protoadapt.vision.extraction import extract_features


def features(name: str, folder: Path, cache: Path, per_class: int) -> Features:
    """The features of a folder's pictures, from the cache where they are there."""
    file = cache / f"{folder.name}-{name}.safetensors"
    try:
        return load_features(file)
    except UserError:
        network, about = networks.load(name)
        images = load_images("folder", "all", folder, size=about["size"], per_class=per_class, cache_dir=cache)
        save_features(file, extract_features(network, about, images))
        return load_features(file)


def milliseconds(name: str) -> float:
    """Of CPU time per picture: of ten times eight pictures, the quickest."""
    network, about = networks.load(name)
    pixels = np.zeros((8, 3, about["size"], about["size"]), np.uint8)
    times = measure.by_turns({name: lambda: embed(network, about, pixels)}, 10)[name]
    return 1000 * min(processor for _, processor in times) / len(pixels)


def main() -> None:
    parser = measure.arguments(__doc__, method="bapa", episodes=500, per_class=25)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--models", nargs="+", default=["lite0", "lite1", "lite2", "lite0+lite2"])
    parser.add_argument("--cache", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.cache.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"method": given.method, "episodes": given.episodes, "seed": 0}
    record |= {"cpu_ms_per_picture": {name: round(milliseconds(name), 2) for name in given.models}}
    sizes, accuracies = record["classes_and_pictures"], record["accuracy"] = {}, {}
    for folder in given.folders:
        cells = accuracies[folder.name] = {}
        for name in given.models:
            table = features(name, folder, given.cache, given.per_class)
            classes = int(table.labels.max()) + 1
            sizes[folder.name] = [classes, len(table.labels)]
            for way, shot in ((way, shot) for way in sorted({5, min(20, classes)}) for shot in (1, 5)):
                episodes = given.episodes * 5 // way  # as many queries with many classes as with few
                drawn = Protocol(way=way, shot=shot)
                result = evaluate(table.features, table.labels, given.method, drawn, episodes=episodes)
                cell = cells.setdefault(f"{way}-way {shot}-shot", {})
                cell[name] = [round(result.accuracy, 2), round(result.ci95, 2)]
        print(folder.name, cells, flush=True)
    measure.write(given.json, record)


if __name__ == "__main__":
    main()
