"""What is left of onnxruntime's own speed when pictures come from files, and in whole commands.

    python benchmarks/labeling.py [--model lite0] [--pictures 256] [--rounds 5] [--images DIR] [--commands] [--json F]

JPEGs of 500 × 375 pixels, as photographs of ImageNet are on average (or those of --images), are embedded from their
files by `embed_files`, what `protoadapt label` does; bare onnxruntime, with its own settings and as many threads,
computes the same network on ready batches of 16; and torch does. All by turns; ratios are medians of the turns.
Decoding alone, by as many threads, is measured too: on the same cores it adds to the network's time.
--commands adds `protoadapt label` on these files and `protoadapt predict` of one, start-up included, beside loading
torch and nothing else. CPU seconds are given too: on a machine with other work they vary less than those of a clock.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image

from protoadapt.core.provenance import hardware, versions
from protoadapt.core.threads import ahead
from protoadapt.vision import networks
from protoadapt.vision.embed import embed, embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.networks.onnx_graph import graph_of
from protoadapt.vision.pictures.decode import Picture, decode


def photograph(rng: np.random.Generator, tint: Sequence[float] = (1, 1, 1)) -> Image.Image:
    """Smooth shapes under some noise, 500 × 375: as a JPEG some 60 kB, as photographs of that size take."""
    coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.float32)
    pixels = np.clip(smooth * np.array(tint) + rng.normal(0, 8, smooth.shape), 0, 255)
    return Image.fromarray(pixels.astype(np.uint8))


def photographs(folder: Path, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    files = [str(folder / f"{i}.jpg") for i in range(count)]
    for file in files:
        photograph(rng).save(file, quality=85)
    return files


def bare(model: str, pixels: np.ndarray, about: dict, threads: int) -> Callable[[], None]:
    """onnxruntime as it comes, on the same pictures, normalised before."""
    network, _ = networks.load(model, engine="torch")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(graph_of(network.stages, {}), options, providers=["CPUExecutionProvider"])
    mean, std = (np.array(about[key], np.float32).reshape(3, 1, 1) for key in ("mean", "std"))
    x = (pixels.astype(np.float32) / 255 - mean) / std

    def run() -> None:
        for start in range(0, len(x), 16):
            session.run(None, {"x": x[start : start + 16]})

    return run


def command(*words: str) -> Callable[[], None]:
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True) and None


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of the clock, and CPU seconds of this process and those it started."""

    def cpu() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(used.ru_utime + used.ru_stime for used in both)

    start, before = time.perf_counter(), cpu()
    work()
    return time.perf_counter() - start, cpu() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lite0")
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=Path, help="a folder of folders of photographs, taken in turn from each")
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        photos = home / "photos"
        photos.mkdir()
        if options.images:
            classes = [sorted(folder.iterdir()) for folder in sorted(options.images.iterdir()) if folder.is_dir()]
            for number, file in enumerate([file for turn in zip(*classes) for file in turn][: options.pictures]):
                (photos / f"{number}{file.suffix}").write_bytes(file.read_bytes())
            files = sorted(map(str, photos.iterdir()))
        else:
            files = photographs(photos, options.pictures)
        networks.load(options.model)  # writes the graph that the next line reads
        network, about = networks.load_for_files(options.model)
        by_torch = networks.load(options.model, engine="torch")
        pixels = np.stack([decode(Picture("", "", file), about["size"]) for file in files])
        turn = iter(range(1000))
        work: dict[str, Callable[[], object]] = {
            "bare": bare(options.model, pixels, about, torch.get_num_threads()),
            "files": lambda: embed_files(files, network, about, Store(home / str(next(turn)), "", about["size"])),
            "decoding": lambda: list(ahead(lambda file: decode(Picture("", "", file), about["size"]), files, 64)),
            "torch": lambda: embed(*by_torch, pixels[: len(pixels) // 4]),
        }
        if options.commands:
            for place_of, file in enumerate(files[:10]):
                support = home / "support" / "ab"[place_of % 2]
                support.mkdir(parents=True, exist_ok=True)
                (support / Path(file).name).write_bytes(Path(file).read_bytes())
            run = ("-m", "protoadapt", "label", "--support", str(home / "support"), "--images", str(photos))
            named = lambda: str(home / f"named{next(turn)}")  # noqa: E731
            work["label"] = lambda: command(*run, "--model", options.model, "--out", named())()
            command(*run, "--model", options.model, "--out", str(home / "named"))()
            work["predict"] = command(
                "-m", "protoadapt", "predict", str(home / "named/classifier.safetensors"), files[0]
            )
            work["import torch"] = command("-c", "import torch")
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
        for _ in range(options.rounds):
            for name, one in work.items():
                seconds[name].append(timed(one))  # type: ignore[arg-type]
            print({name: [round(value, 2) for value in turns[-1]] for name, turns in seconds.items()}, flush=True)

    def ratio(one: str, other: str, which: int) -> float:
        return statistics.median(a[which] / b[which] for a, b in zip(seconds[one], seconds[other]))

    both = statistics.median(
        (b[0] + d[0]) / f[0] for b, d, f in zip(*(seconds[n] for n in ("bare", "decoding", "files")))
    )
    ratios = {
        "files over bare and decoding": both,
        "files": 1 / ratio("files", "bare", 0),
        "files, CPU time": 1 / ratio("files", "bare", 1),
    }
    ratios |= {"over torch": 4 * ratio("torch", "bare", 0), "over torch, CPU time": 4 * ratio("torch", "bare", 1)}
    if options.commands:
        ratios |= {"label": ratio("label", "bare", 0), "predict over import torch": ratio("predict", "import torch", 1)}
    print({name: round(value, 3) for name, value in ratios.items()})
    if options.json:
        medians = {name: [statistics.median(part) for part in zip(*turns)] for name, turns in seconds.items()}
        record = {"schema": "protoadapt-benchmark/2", "model": options.model, "pictures": len(files), "ratios": ratios}
        record |= {"pictures_of": options.images.name if options.images else "500 × 375, drawn"}
        record |= {"threads": torch.get_num_threads(), "seconds_and_cpu_seconds": medians, "rounds": options.rounds}
        record |= {"load": os.getloadavg()[0], "hardware": hardware(), "versions": versions()}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
