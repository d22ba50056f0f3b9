"""What is left of onnxruntime's own speed when pictures come from files, and in whole commands.

    python -m benchmarks.labeling [--model lite0] [--pictures 256] [--rounds 5] [--images DIR] [--commands] [--json F]

JPEGs of 500 × 375 pixels, as photographs of ImageNet are on average (or those of --images), are embedded from their
files by `embed_files`, what `protoadapt label` does; bare onnxruntime, with its own settings and as many threads,
computes the same network on ready batches of 16; and torch does. Decoding alone, by as many threads, is measured too.
--commands adds `protoadapt label` on these files and `protoadapt predict` of one, start-up included, beside loading
torch and nothing else.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from PIL import Image

from benchmarks import measure
from protoadapt.core.threads import ahead
from protoadapt.vision import networks
from protoadapt.vision.embed import embed, embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.networks.engines import graph_of
from protoadapt.vision.pictures.decode import Picture, decode

SIDE = (500, 375)


def photograph(rng: np.random.Generator, side: Sequence[int] = SIDE, tint: Sequence[float] = (1, 1, 1)) -> Image.Image:
    """Smooth shapes under some noise: as a JPEG of 500 × 375 some 60 kB, as photographs of that size take."""
    coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize(tuple(side), Image.Resampling.BICUBIC), np.float32)
    pixels = np.clip(smooth * np.array(tint) + rng.normal(0, 8, smooth.shape), 0, 255)
    return Image.fromarray(pixels.astype(np.uint8))


def photographs(folder: Path, number: int, images: Path | None, side: Sequence[int] = SIDE) -> list[str]:
    """So many pictures in a new folder: taken in turn from each folder of `images`, or drawn, 512 different ones at
    most."""
    folder.mkdir()
    if images:
        classes = [sorted(one.iterdir()) for one in sorted(images.iterdir()) if one.is_dir()]
        for i, file in enumerate([file for turn in zip(*classes) for file in turn][:number]):
            (folder / f"{i}{file.suffix}").write_bytes(file.read_bytes())
        return sorted(map(str, folder.iterdir()))
    rng, files = np.random.default_rng(0), [folder / f"{i:05d}.jpg" for i in range(number)]
    for i, file in enumerate(files):
        if i < 512:
            photograph(rng, side).save(file, quality=85)
        else:
            file.hardlink_to(files[i % 512])
    return [*map(str, files)]


def bare(model: str, pixels: np.ndarray, about: dict[str, Any]) -> Callable[[], None]:
    """onnxruntime as it comes, on the same pictures, normalised before."""
    network, _ = networks.load(model, engine="torch")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(graph_of(network.stages, {}), options, providers=["CPUExecutionProvider"])
    mean, std = (np.array(about[key], np.float32).reshape(3, 1, 1) for key in ("mean", "std"))
    x, name = (pixels.astype(np.float32) / 255 - mean) / std, session.get_inputs()[0].name

    def run() -> None:
        for start in range(0, len(x), 16):
            session.run(None, {name: x[start : start + 16]})

    return run


def command(*words: object) -> None:
    subprocess.run([sys.executable, *map(str, words)], check=True, capture_output=True)


def commands(home: Path, files: Sequence[str], model: str) -> dict[str, Callable[[], object]]:
    """`label` on all files with ten of them as examples, `predict` of one, and loading torch alone."""
    for i, file in enumerate(files[:10]):
        support = home / "support" / "ab"[i % 2]
        support.mkdir(parents=True, exist_ok=True)
        (support / Path(file).name).write_bytes(Path(file).read_bytes())
    label = ("-m", "protoadapt", "label", "--support", home / "support", "--images", home / "photos", "--model", model)
    command(*label, "--out", home / "named")
    number = count()
    return {
        "label": lambda: command(*label, "--out", home / f"named{next(number)}"),
        "predict": lambda: command("-m", "protoadapt", "predict", home / "named/classifier.safetensors", files[0]),
        "import torch": lambda: command("-c", "import torch"),
    }


def main() -> None:
    parser = measure.arguments(__doc__, model="lite0", pictures=256, rounds=5)
    parser.add_argument("--images", type=Path, help="a folder of folders of photographs, taken in turn from each")
    parser.add_argument("--commands", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        files, number = photographs(home / "photos", given.pictures, given.images), count()
        networks.load(given.model)  # writes the graph that the next line reads
        network, about = networks.load_for_files(given.model)
        by_torch = networks.load(given.model, engine="torch")
        pixels = np.stack([decode(Picture("", "", file), about["size"]) for file in files])
        work: dict[str, Callable[[], object]] = {
            "bare": bare(given.model, pixels, about),
            "files": lambda: embed_files(files, network, about, Store(home / str(next(number)), "", about["size"])),
            "decoding": lambda: list(ahead(lambda file: decode(Picture("", "", file), about["size"]), files, 64)),
            "torch": lambda: embed(*by_torch, pixels[: len(pixels) // 4]),
        }
        times = measure.by_turns(work | (commands(home, files, given.model) if given.commands else {}), given.rounds)
    ratios = {
        "files": 1 / measure.ratio(times, "files", "bare"),
        "files, CPU time": 1 / measure.ratio(times, "files", "bare", processor=True),
        "over torch": 4 * measure.ratio(times, "torch", "bare"),
        "over torch, CPU time": 4 * measure.ratio(times, "torch", "bare", processor=True),
    }
    if given.commands:
        ratios["label"] = measure.ratio(times, "label", "bare")
        ratios["predict over import torch"] = measure.ratio(times, "predict", "import torch", processor=True)
    print({name: round(value, 3) for name, value in ratios.items()}, measure.medians(times), sep="\n")
    record = {"model": given.model, "pictures": len(files), "ratios": ratios, "rounds": given.rounds}
    record |= {"pictures_of": given.images.name if given.images else "500 × 375, drawn"}
    measure.write(given.json, record | {"seconds_and_cpu_seconds": measure.medians(times)})


if __name__ == "__main__":
    main()
