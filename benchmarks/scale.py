"""Thousands of shards, millions of rows: identity of the output, speed and memory.

    python benchmarks/scale.py --json results/benchmark-scale.json      everything, some hours on two cores
    python benchmarks/scale.py --quick                                  the same in minutes, small
    python benchmarks/scale.py --only extract --device cuda --json …    one part again; the others stay in the file

identical  the same shards by 1, 2 and 4 workers and by a local Ray cluster: are the files the same bytes?
kill       a worker or the whole run killed with SIGKILL at random, and run again: is anything lost or done twice?
label      `label --features` on synthetic rows of 512 dimensions, 100 classes of one size, and BAPA once more where
           sizes differ (it multiplies the rows three times a step then, else twice), each in a process of its own:
           seconds, peak memory, and beside them the same files read and multiplied once by 100 × 512, in the same
           process, with the same reader and threads.
extract    JPEG photographs through a ResNet-12 beside the network alone, and decoding alone.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from protoadapt import labeling
from protoadapt.core.files import write_json
from protoadapt.core.methods.rows import BLOCK_ROWS
from protoadapt.core.parts import Part, part_file, read_part, write_index, write_part
from protoadapt.core.provenance import hardware, versions
from protoadapt.core.threads import cores
from protoadapt.vision.embed import embed
from protoadapt.vision.networks.backbones import build
from protoadapt.vision.networks.model_files import save_fp16
from protoadapt.vision.shards import extract_parts, find, load_manifest, open_features, write_manifest
from protoadapt.vision.shards.local import decoded
from protoadapt.vision.shards.make import BATCH, Job, decode_batch
from protoadapt.vision.shards.manifest import SHARD_SIZE

DIM, CLASSES, SHOTS, SHARD_ROWS = 512, 100, 5, 8192
SYNTHETIC = {"weights": "synthetic", "engine": "torch", "views": 1, "manifest": "synthetic"}
EVEN, UNEVEN = "one size", "100 to 1"
ABOUT = {"backbone": "resnet12", "mean": [0.5] * 3, "std": [0.25] * 3, "crop": "none", "dataset": "none"}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def model_file(path: Path, width: int, size: int) -> Path:
    torch.manual_seed(0)
    save_fp16(build("resnet12", width).eval(), {**ABOUT, "width": width, "size": size, "class_names": []}, path)
    return path


def small_pictures(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    for i in range(count):
        path = folder / f"{i % 100:02d}" / f"{i:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)


def shard_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.glob("part-*")}


def command(model: Path, manifest: Path, out: Path, *more: object) -> list[str]:
    words = ("extract", model, "--manifest", manifest, "--out", out, "--device", "cpu", *more)
    return [sys.executable, "-m", "protoadapt", *map(str, words)]


def prepared(home: Path, options: argparse.Namespace) -> tuple[Path, Path]:
    """A tiny network, and a manifest of so many shards of 8 pictures."""
    model, listed = home / "tiny.safetensors", home / "manifest.jsonl"
    if not listed.exists():
        say(f"drawing {8 * options.shards:,} small pictures")
        small_pictures(home / "pictures", 8 * options.shards)
        write_manifest(listed, *find([home / "pictures"]), shard_size=8)
        model_file(model, 2, 16)
    return model, listed


def empty(folder: Path) -> Path:
    """An empty folder: existing shards would be kept, not made."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def identical(home: Path, options: argparse.Namespace) -> dict:
    model, listed = prepared(home, options)
    ways = {"1 worker": (1,), "2 workers": (2,), "4 workers": (4,), "local Ray cluster": (2, "--engine", "ray")}
    records, first = {}, None
    for name, (workers, *more) in ways.items():
        out = empty(home / "identical" / name.replace(" ", "-"))
        start = time.perf_counter()
        subprocess.run(command(model, listed, out, "--workers", workers, *more), check=True, stdout=subprocess.DEVNULL)
        seconds, made = time.perf_counter() - start, shard_bytes(out)
        first = made if first is None else first
        records[name] = {"seconds": seconds, "shards": len(made), "same_bytes": made == first}
        say(f"{name}: {len(made):,} shards in {seconds:.0f} s, the same bytes as the first: {made == first}")
    return {"shards": options.shards, "ways": records}


def kill(home: Path, options: argparse.Namespace) -> dict:
    model, listed = prepared(home, options)
    reference, out, rng = empty(home / "kill-reference"), empty(home / "kill"), random.Random(0)
    subprocess.run(command(model, listed, reference, "--workers", 2), check=True, stdout=subprocess.DEVNULL)
    victims, again, step = [], 0, max(1, options.shards // (2 * options.kills))
    for turn in range(options.kills):
        before = stamps(out)
        run = subprocess.Popen(command(model, listed, out, "--workers", 2), stdout=-3, stderr=-3)  # to nowhere
        wanted = len(before) + rng.randint(1, 2 * step - 1)
        while run.poll() is None and len(stamps(out)) < min(wanted, options.shards):
            time.sleep(0.001 * rng.random())
        below = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        workers = [int(one) for one in below.read_text().split()] if below.exists() else []
        victims.append("run" if turn % 2 or not workers else "worker")
        try:
            os.kill(run.pid if victims[-1] == "run" else rng.choice(workers), signal.SIGKILL)
        except ProcessLookupError:
            victims[-1] = "none: it had ended"
        run.wait()
        time.sleep(6)  # workers of a killed run notice within five seconds
        after = stamps(out)
        again += sum(after.get(name) != stamp for name, stamp in before.items())
        say(f"kill {turn + 1} of {options.kills}: {victims[-1]}, {len(after):,} of {options.shards:,} shards there")
    last = subprocess.run(command(model, listed, out, "--workers", 2), check=True, capture_output=True, text=True)
    same = shard_bytes(out) == shard_bytes(reference)
    say(f"at the end: {last.stdout.strip()}; identical: {same}; done twice: {again}")
    kinds = {kind: victims.count(kind) for kind in sorted(set(victims))}
    return {"shards": options.shards, "kills": kinds, "identical": same, "done_twice": again}


def synthetic(folder: Path, rows: int, sizes: str) -> None:
    """A feature folder of so many rectified rows, and support.csv that names five per class.

    Classes of "one size", or of "sizes 100 to 1": the c-th is c times smaller than the first.
    """
    shares = np.ones(CLASSES) if sizes == EVEN else 1 / np.arange(1, CLASSES + 1)
    rng = np.random.default_rng(0)
    centres = 0.6 * rng.standard_normal((CLASSES, DIM), dtype=np.float32) + 0.3
    record = {**SYNTHETIC, "of": "synthetic", "broken": []}
    lines = ["file,label"]
    for number, start in enumerate(range(0, rows, SHARD_ROWS)):
        count = min(SHARD_ROWS, rows - start)
        truth = rng.choice(CLASSES, count, p=shares / shares.sum())
        if number == 0:
            truth[: CLASSES * SHOTS] = np.repeat(np.arange(CLASSES), SHOTS)
            lines += [f"{i:09d}.jpg,class {truth[i]:02d}" for i in range(CLASSES * SHOTS)]
        table = rng.standard_normal((count, DIM), dtype=np.float32)
        table *= 1.5 if sizes == EVEN else 0.75  # so distinct that class sizes can be estimated
        table += centres[truth]
        np.maximum(table, 0, out=table)
        names = [f"{i:09d}.jpg" for i in range(start, start + count)]
        write_part(folder, number, table, {"names": names, "numbers": list(range(count))}, record)
        if number % 100 == 0:
            say(f"{start + count:,} of {rows:,} rows made")
    (folder / "support.csv").write_text("\n".join(lines) + "\n")


def first_shards(home: Path, rows: int) -> Path:
    """A folder of links to as many shards as hold so many rows."""
    folder, shards = home / f"features-{rows}", -(-rows // SHARD_ROWS)
    links = [part_file(folder, number) for number in range(shards)]
    folder.mkdir(exist_ok=True)
    for link in [*links, *(link.with_suffix(".jsonl") for link in links)]:
        if not link.exists():
            os.link(home / "features" / link.name, link)
    pictures = sum(read_part(folder, number).shape[0] for number in range(shards))
    model = {"model": "synthetic", "weights": "synthetic", "size": 84, "mean": [0.5] * 3, "std": [0.25] * 3}
    about = {"model": model, "root": str(home), "parts": shards, "pictures": pictures}
    write_index(folder, SYNTHETIC | about)
    return folder


def read_and_multiply(folder: Path) -> float:
    """Seconds to read every row once and multiply it by 100 prototypes, the least that labelling needs."""
    rows = open_features(folder)
    prototypes = torch.randn(CLASSES, DIM)

    def work(part: Part, table: np.ndarray) -> torch.Tensor:
        parts = torch.from_numpy(table).split(BLOCK_ROWS)
        return torch.stack([(part.float() @ prototypes.mT).sum(0) for part in parts]).sum(0)

    start = time.perf_counter()
    for _ in rows.each(work):
        pass
    return time.perf_counter() - start


def label_one(folder: Path, method: str, steps: int, threads: int) -> dict:
    """Labels all rows of a folder in this process, between two readings of the same files."""
    torch.set_num_threads(threads)
    count = open_features(folder).n_rows
    before = read_and_multiply(folder)
    marks: dict[int, float] = {}

    def on_progress(stage: str, done: int, total: int) -> None:
        if done % count == 0 and done // count not in marks:
            marks[done // count] = time.perf_counter()
            say(f"{method}: pass {done // count} of {total // count} over {count:,} rows")

    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder.parent) as out:
        support = folder.parent / "features" / "support.csv"
        options = {"method": method, "settings": {"n_iter": steps}, "on_progress": on_progress}
        labels = labeling.label([support], None, Path(out), features=folder, **options)
        seconds = time.perf_counter() - start
    multiplied = (before + read_and_multiply(folder)) / 2
    a_pass = (marks[1 + steps] - marks[1]) / steps
    return {
        "rows": count,
        "method": method,
        "steps": steps,
        "seconds": seconds,
        "pass_seconds": a_pass,
        "read_and_multiply_seconds": multiplied,
        "share": multiplied / a_pass,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "found": sum(one["found"] for one in labels["classes"]),
    }


def label(home: Path, options: argparse.Namespace) -> dict:
    few, many = min(options.rows), max(options.rows)
    plan = [*((EVEN, "cipa", rows) for rows in sorted(options.rows)), (EVEN, "bapa", many), (UNEVEN, "bapa", few)]
    runs = []
    for sizes, method, rows in plan:
        place = home / ("even" if sizes == EVEN else "uneven")
        if not (place / "features" / "support.csv").exists():
            (place / "features").mkdir(parents=True, exist_ok=True)
            synthetic(place / "features", many if sizes == EVEN else few, sizes)
        folder = first_shards(place, rows)
        words = ["--one", str(folder), "--method", method, "--steps", options.steps, "--threads", options.threads]
        run = subprocess.run([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, check=True)
        runs.append(json.loads(run.stdout) | {"sizes": sizes})
        one = runs[-1]
        say(
            f"{method}, {one['rows']:,} rows, class sizes {sizes}: {one['seconds']:.0f} s, {one['peak_gb']:.2f} GB, a "
            f"pass {one['pass_seconds']:.1f} s, {100 * one['share']:.0f} % of the speed of reading and multiplying"
        )
        shutil.rmtree(folder)
    return {"dim": DIM, "classes": CLASSES, "threads": options.threads, "runs": runs}


def photographs(folder: Path, count: int, size: tuple[int, int] = (500, 375)) -> None:
    """JPEG files of 500 × 375 pixels, some 40 kB each: smooth shapes with a little noise, as photographs compress.

    At most 512 are different: more are links to them.
    """
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(len(list(folder.glob("*.jpg"))), count):  # those of --dir from another time are taken again
        path = folder / f"{i:05d}.jpg"
        if i >= 512:
            path.hardlink_to(folder / f"{i % 512:05d}.jpg")
            continue
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(size, Image.BICUBIC)
        noisy = np.asarray(coarse).astype(np.int16) + rng.integers(-12, 12, (*size[::-1], 3), dtype=np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)


def rate(work: Callable[[], object], count: int, times: int = 3) -> float:
    """Pictures per second, the best of several times, so that the cold first batch does not count."""
    best = 0.0
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = max(best, count / (time.perf_counter() - start))
    return best


def extraction(home: Path, options: argparse.Namespace) -> dict:
    count, device, cuda = options.pictures, options.device, options.device != "cpu"
    folder = options.images or home / "photographs"
    if not options.images:
        photographs(folder, count)
    model = model_file(home / "resnet12.safetensors", 64, 84)
    root, found = find([folder])
    size = SHARD_SIZE if cuda else 64  # two cores have work for some seconds only
    listed = write_manifest(home / "photographs.jsonl", root, islice(found, count), shard_size=size)
    entries = listed.read(0)
    torch.set_num_threads(1)
    entries = entries[:BATCH]
    decoding = rate(lambda: decode_batch(listed.root, entries, 84), len(entries))
    torch.set_num_threads(options.threads)
    from protoadapt.vision import networks

    network, about = networks.load(model, device)
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, 3, 84, 84), dtype=np.uint8)
    batches = max(1, min(count, 20_000 if cuda else 256) // BATCH)
    ready = torch.rand(BATCH, 3, 84, 84).to(device).contiguous(memory_format=torch.channels_last)

    @torch.inference_mode()
    def forward() -> None:  # of a batch that is on the GPU: no transfer, no normalisation
        for _ in range(batches):
            rows = network(ready)
        rows.cpu()

    bare = rate(
        forward if cuda else lambda: [embed(network, about, pixels, batch=BATCH) for _ in range(batches)],
        batches * BATCH,
    )
    say(f"decoding {decoding:,.0f} pictures/s a core, the network alone {bare:,.1f}/s")
    job = Job(model, listed, home, 1, device, 84)
    places = [(number, batch) for number in range(len(listed.shards)) for batch in range(job.batches(number))]
    workers = min(options.workers or cores(), len(listed.shards))
    handed_over = rate(lambda: sum(1 for _ in decoded(job, places, workers)), len(places) * BATCH, 2)
    say(f"decoded by {workers} workers and handed over to the process of the GPU {handed_over:,.0f}/s")
    times: list[tuple[float, int]] = []
    start = time.perf_counter()
    done = extract_parts(
        model,
        load_manifest(listed.path),
        empty(home / "extracted"),
        workers=options.workers,
        device=device,
        on_progress=lambda d: times.append((time.perf_counter(), d.made_pictures)) if d.made else None,
    )
    seconds = time.perf_counter() - start
    made = done.made_pictures / seconds
    steady = (times[-1][1] - times[0][1]) / (times[-1][0] - times[0][0])
    say(f"extract: {made:,.1f} pictures/s with its start, {steady:,.1f}/s after that: {100 * steady / bare:.0f} %")
    record = {"pictures": done.made_pictures, "device": device, "hardware": hardware(device)}
    record |= {"workers": options.workers, "of": options.images.parent.name if options.images else "500 × 375, drawn"}
    record |= {"decoding_per_core": decoding, "cores": os.cpu_count(), "network": bare, "handed_over": handed_over}
    return record | {"extract": made, "extract_steady": steady, "share": made / bare, "steady_share": steady / bare}


PARTS = {"identical": identical, "kill": kill, "label": label, "extract": extraction}
QUICK = {"shards": 40, "kills": 3, "rows": [50_000, 100_000], "pictures": 128, "steps": 3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out")
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 2_000_000, 5_000_000, 10_000_000])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pictures", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=None, help="processes of extract (default: one per core)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", help="device of extract")
    parser.add_argument("--images", type=Path, help="folder of the pictures of extract (default: drawn photographs)")
    parser.add_argument("--dir", type=Path, help="folder for all files, 11 GB (default: a temporary one)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--method", default="cipa", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(label_one(options.one, options.method, options.steps, options.threads)))
        return
    for name, value in QUICK.items() if options.quick else ():
        setattr(options, name, value)
    report = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    report |= {"schema": "protoadapt-benchmark/1", "versions": versions()}
    report.setdefault("hardware", hardware())
    with tempfile.TemporaryDirectory() as temporary:
        home = options.dir or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        for part in options.only:
            name = part if options.device == "cpu" else f"{part}-{torch.device(options.device).type}"
            report[name] = PARTS[part](home, options)
            if options.json:
                write_json(options.json, report)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
