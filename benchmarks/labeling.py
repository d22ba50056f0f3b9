"""Share of the network's own speed that is left when pictures come from files: read, hashed, decoded, stored.

    python benchmarks/labeling.py [--pictures 256] [--rounds 5] [--model FILE] [--json FILE]

JPEGs of 500 × 375 pixels, as photographs of ImageNet are on average, are embedded from their files by `embed_files`,
what `protoadapt label` does, and the bare network computes the same in ready batches, by turns; the ratio is the
turns' median. Without --model the network is a ResNet-12 at 84 pixels with random weights, which are as fast as any.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from protoadapt.core.provenance import hardware, versions
from protoadapt.vision import networks
from protoadapt.vision.embed import batch_size, embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.networks.backbones import build
from protoadapt.vision.networks.model_files import save_fp16
from protoadapt.vision.pictures.decode import Picture, decode


def photographs(folder: Path, count: int) -> list[str]:
    """Smooth shapes under some noise: their JPEGs take some 60 kB, as photographs of that size do."""
    rng = np.random.default_rng(0)
    files = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.float32)
        pixels = np.clip(smooth + rng.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)
        files.append(str(folder / f"{i}.jpg"))
        Image.fromarray(pixels).save(files[-1], quality=85)
    return files


def random_resnet12(file: Path) -> Path:
    about = {"backbone": "resnet12", "width": 64, "crop": "none", "dataset": "nothing", "size": 84}
    save_fp16(build("resnet12", 64), about | {"mean": [0.5] * 3, "std": [0.25] * 3}, file)
    return file


def ready(files: list[str], about: dict, size: int) -> list[torch.Tensor]:
    """The same pictures as batches that only have to be computed."""
    mean, std = (torch.tensor(about[key]).view(3, 1, 1) for key in ("mean", "std"))
    pixels = np.stack([decode(Picture("", "", file), about["size"]) for file in files])
    x = (torch.from_numpy(pixels) / 255 - mean) / std
    return [part.contiguous(memory_format=torch.channels_last) for part in x.split(size)]


@torch.inference_mode()
def bare(network: torch.nn.Module, batches: list[torch.Tensor]) -> None:
    for batch in batches:
        network(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {"bare": [], "files": []}
    with tempfile.TemporaryDirectory() as folder:
        files = photographs(Path(folder), options.pictures)
        network, about = networks.load(options.model or random_resnet12(Path(folder, "model.safetensors")))
        batches = ready(files, about, batch_size(network))
        bare(network, batches[:1])  # warm
        for turn in range(options.rounds):
            store = Store(Path(folder, str(turn)), about["weights"], about["size"])
            for name, work in {
                "bare": lambda: bare(network, batches),
                "files": lambda store=store: embed_files(files, network, about, store),
            }.items():
                start = time.perf_counter()
                work()
                rates[name].append(options.pictures / (time.perf_counter() - start))
            print({name: round(rate[-1], 1) for name, rate in rates.items()}, flush=True)
    middle = {name: statistics.median(rate) for name, rate in rates.items()}
    ratio = statistics.median(files / bare for files, bare in zip(rates["files"], rates["bare"]))
    print(f"bare {middle['bare']:.1f}, from files {middle['files']:.1f} pictures/s: {ratio:.0%}")
    if options.json:
        record = {"schema": "protoadapt-benchmark/1", "hardware": hardware(), "versions": versions(), "rates": rates}
        record |= {"threads": torch.get_num_threads(), "pictures": options.pictures, "ratio": ratio}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
