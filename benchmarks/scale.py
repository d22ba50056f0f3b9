"""Millions of rows and of pictures: speed and memory, beside the least work that there is.

    python -m benchmarks.scale --json results/benchmark-scale.json      everything, some hours on two cores
    python -m benchmarks.scale --rows 50000 --pictures 128 --steps 3    the same in minutes, small
    python -m benchmarks.scale --only extract --device cuda --json …    one part again; the others stay in the file

memory   an estimator on rows in memory, beside multiplying the same rows once by 100 × 512.
label    `label --features` on tables of 512 dimensions, 100 classes of one size, and BAPA once more where sizes differ,
         each in a process of its own: seconds, peak memory, and the same files read and multiplied once.
extract  JPEG photographs through a ResNet-12 beside the network alone, and decoding alone.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import measure
from benchmarks.labeling import photographs
from paper.networks import save_fp16
from protoadapt import BAPAClassifier, CIPAClassifier, labeling
from protoadapt.core.parts import Part, open_parts, write_index, write_part
from protoadapt.core.provenance import hardware
from protoadapt.vision import networks
from protoadapt.vision.embed import embed
from protoadapt.vision.networks.backbones import build
from protoadapt.vision.pictures.walk import find
from protoadapt.vision.shards import SHARD_SIZE
from protoadapt.vision.shards.extract import extract_parts
from protoadapt.vision.shards.make import BATCH, decode_batch
from protoadapt.vision.shards.manifest import load_manifest, write_manifest

DIM, CLASSES, SHOTS, PART_ROWS = 512, 100, 5, 8192
EVEN, UNEVEN = "one size", "100 to 1"
SYNTHETIC = {"weights": "synthetic", "engine": "torch", "views": 1, "manifest": "synthetic"}
MODEL = {"model": "synthetic", "weights": "synthetic", "size": 84, "mean": [0.5] * 3, "std": [0.25] * 3}


def blocks(rows: int, sizes: str):
    """Rectified rows and their classes, PART_ROWS at a time; the first rows are SHOTS of each class.

    Classes of "one size", or of "100 to 1": the c-th is c times smaller than the first.
    """
    shares = np.ones(CLASSES) if sizes == EVEN else 1 / np.arange(1, CLASSES + 1)
    rng = np.random.default_rng(0)
    centres = 0.6 * rng.standard_normal((CLASSES, DIM), dtype=np.float32) + 0.3
    for start in range(0, rows, PART_ROWS):
        truth = rng.choice(CLASSES, min(PART_ROWS, rows - start), p=shares / shares.sum())
        if start == 0:
            truth[: CLASSES * SHOTS] = np.repeat(np.arange(CLASSES), SHOTS)
        table = rng.standard_normal((len(truth), DIM), dtype=np.float32)
        table *= 1.5 if sizes == EVEN else 0.75  # so distinct that class sizes can be estimated
        table += centres[truth]
        yield np.maximum(table, 0, out=table), truth


def memory(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a pass of `fit` over rows in memory, beside multiplying them once, by turns."""
    torch.set_num_threads(options.threads)
    parts = list(blocks(min(options.rows), EVEN))
    X, truth = (np.concatenate(side) for side in zip(*parts))
    y = np.where(np.arange(len(X)) < CLASSES * SHOTS, truth, -1)
    rows, prototypes = torch.from_numpy(X), torch.randn(DIM, CLASSES)
    found = {}
    for name, make in {"cipa": CIPAClassifier, "bapa": BAPAClassifier}.items():
        make(n_iter=1).fit(X[:2000], y[:2000])  # warm: libraries, pools
        times = measure.by_turns(
            {
                "multiply": lambda: [part @ prototypes for part in rows.split(PART_ROWS)],
                "one": lambda make=make: make(n_iter=1).fit(X, y),
                "all": lambda make=make: make(n_iter=options.steps + 1).fit(X, y),
            },
            3,
        )
        clock = {key: value[0] for key, value in measure.medians(times).items()}
        a_pass = (clock["all"] - clock["one"]) / options.steps
        found[name] = {"rows": len(X), "pass_seconds": a_pass, "multiply_seconds": clock["multiply"]}
        found[name]["share"] = clock["multiply"] / a_pass
        print(f"memory, {name}: {100 * found[name]['share']:.0f} % of the speed of multiplying", flush=True)
    return {"threads": options.threads, **found}


def table_of(folder: Path, rows: int, sizes: str) -> Path:
    """A folder of features with so many rows, and support.csv that names five per class."""
    if (folder / "support.csv").exists():
        return folder
    folder.mkdir(parents=True)
    lines, number = ["file,label"], 0
    for number, (table, truth) in enumerate(blocks(rows, sizes)):
        names = [f"{i:09d}.jpg" for i in range(number * PART_ROWS, number * PART_ROWS + len(table))]
        lists = {"names": names, "numbers": list(range(len(table)))}
        write_part(folder, number, table, lists, {**SYNTHETIC, "of": "synthetic", "broken": []})
        if number == 0:
            lines += [f"{names[i]},class {truth[i]:02d}" for i in range(CLASSES * SHOTS)]
    write_index(folder, SYNTHETIC | {"model": MODEL, "root": str(folder), "parts": number + 1, "pictures": rows})
    (folder / "support.csv").write_text("\n".join(lines) + "\n")
    return folder


def read_and_multiply(folder: Path) -> float:
    """Seconds to read every row once and multiply it by 100 prototypes, the least that labelling needs."""
    prototypes = torch.randn(DIM, CLASSES)

    def work(part: Part, table: np.ndarray) -> torch.Tensor:
        return torch.stack([(some.float() @ prototypes).sum(0) for some in torch.from_numpy(table).split(1024)]).sum(0)

    start = time.perf_counter()
    for _ in open_parts(folder).each(work):
        pass
    return time.perf_counter() - start


def label_one(folder: Path, method: str, steps: int, threads: int) -> dict[str, Any]:
    """Labels all rows of a folder in this process, with one step and with all, between two readings of the files."""
    torch.set_num_threads(threads)
    before, seconds = read_and_multiply(folder), {}
    for number in (1, 1, steps + 1):  # the first warms
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=folder.parent) as out:
            given = {"method": method, "settings": {"n_iter": number}}
            labels = labeling.label([folder / "support.csv"], None, Path(out), features=folder, **given)
        seconds[number] = time.perf_counter() - start
    multiplied = (before + read_and_multiply(folder)) / 2
    a_pass = (seconds[steps + 1] - seconds[1]) / steps
    found = {"rows": open_parts(folder).n_rows, "method": method, "steps": steps, "seconds": seconds[steps + 1]}
    found |= {"pass_seconds": a_pass, "read_and_multiply_seconds": multiplied, "share": multiplied / a_pass}
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return found | {"found": sum(one["found"] for one in labels["classes"])}


def label(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    few, many = min(options.rows), max(options.rows)
    plan = [*((EVEN, "cipa", rows) for rows in sorted(options.rows)), (EVEN, "bapa", many), (UNEVEN, "bapa", few)]
    runs = []
    for sizes, method, rows in plan:
        folder = table_of(home / f"{sizes.replace(' ', '-')}-{rows}", rows, sizes)
        words = ["--one", folder, "--method", method, "--steps", options.steps, "--threads", options.threads]
        command = [sys.executable, "-m", "benchmarks.scale", *map(str, words)]
        run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        runs.append(json.loads(run.stdout) | {"sizes": sizes})
        print(runs[-1], flush=True)
    return {"dim": DIM, "classes": CLASSES, "threads": options.threads, "runs": runs}


def rate(work: Callable[[], object], count: int) -> float:
    """Pictures per second, the best of three times, so that the cold first batch does not count."""
    return count / min(clock for clock, _ in measure.by_turns({"": work}, 3)[""])


def extract(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    count, device, cuda = options.pictures, options.device, options.device != "cpu"
    folder = options.images or home / f"photographs-{options.side[0]}-{count}"
    if not folder.exists():
        photographs(folder, count, None, options.side)
    model = home / "resnet12.safetensors"
    about = {"backbone": "resnet12", "width": 64, "size": 84, "mean": [0.5] * 3, "std": [0.25] * 3, "crop": "none"}
    torch.manual_seed(0)
    save_fp16(build("resnet12", 64).eval(), about | {"dataset": "none"}, model)
    root, found = find([folder])
    size = SHARD_SIZE if cuda else 64  # two cores have work for some seconds only
    listed = write_manifest(home / "photographs.jsonl", root, list(found)[:count], shard_size=size)
    entries = listed.read(0)[:BATCH]
    torch.set_num_threads(1)
    decoding = rate(lambda: decode_batch(listed.root, entries, {"size": 84}), len(entries))
    torch.set_num_threads(options.threads)
    network, about = networks.load(model, device)
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, 3, 84, 84), dtype=np.uint8)
    ready = torch.rand(BATCH, 3, 84, 84).to(device).contiguous(memory_format=torch.channels_last)
    batches = max(1, min(count, 20_000 if cuda else 256) // BATCH)

    @torch.inference_mode()
    def forward() -> None:  # of a batch that is on the GPU: no transfer, no normalisation
        for _ in range(batches):
            rows = network(ready)
        rows.cpu()

    alone = forward if cuda else lambda: [embed(network, about, pixels, batch=BATCH) for _ in range(batches)]
    bare = rate(alone, batches * BATCH)
    times: list[tuple[float, int]] = []
    shutil.rmtree(home / "extracted", ignore_errors=True)
    start = time.perf_counter()
    done = extract_parts(
        model,
        load_manifest(listed.path),
        home / "extracted",
        workers=options.workers,
        device=device,
        on_progress=lambda d: times.append((time.perf_counter(), d.made_pictures)) if d.made else None,
    )
    made = done.made_pictures / (time.perf_counter() - start)
    (first, before), (last, after) = times[0], times[-1]
    steady = (after - before) / (last - first) if last > first else made
    record = {"pictures": done.made_pictures, "device": device, "hardware": hardware(device), "cores": os.cpu_count()}
    record |= {"of": options.images.parent.name if options.images else f"{options.side[0]} × {options.side[1]}, drawn"}
    record |= {"decoding_per_core": decoding, "network": bare, "extract": made, "extract_steady": steady}
    print(record, flush=True)
    return record | {"share": made / bare, "steady_share": steady / bare}


PARTS = {"memory": memory, "label": label, "extract": extract}


def main() -> None:
    parser = measure.arguments(__doc__, steps=20, pictures=2048, device="cpu", method="cipa", threads=os.cpu_count())
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 2_000_000, 5_000_000, 10_000_000])
    parser.add_argument("--workers", type=int, help="workers of extract (default: one per core)")
    parser.add_argument("--side", type=int, nargs=2, default=[500, 375], help="width and height of drawn photographs")
    parser.add_argument("--images", type=Path, help="folder of the pictures of extract (default: drawn photographs)")
    parser.add_argument("--dir", type=Path, help="folder for all files, 20 GB (default: a temporary one)")
    parser.add_argument("--one", type=Path, help="label this folder of features and print what was measured")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(label_one(options.one, options.method, options.steps, options.threads)))
        return
    before = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    report = {name: found for name, found in before.items() if name.partition("-")[0] in PARTS}
    with tempfile.TemporaryDirectory() as temporary:
        home = options.dir or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        for part in options.only:
            name = part + ("-cuda" if options.device != "cpu" else "") + ("-small" if options.side[0] < 200 else "")
            report[name] = PARTS[part](home, options)
            measure.write(options.json, report)


if __name__ == "__main__":
    main()
