"""Requests per second of `serve --classifier`, beside the bare network's pictures per second in the same run.

    python -m benchmarks.serve [--seconds 10] [--model lite0] [--flat 10000] [--json FILE]

A classifier is fitted on made-up photographs, served by a process of its own, and asked by 1, 8 and 64 clients for some
seconds each, one picture per request; between these turns the bare network computes ready batches of 16. The load
generator shares the machine's cores with the server. Then a small network is served, and asked `--flat` times: the
server's memory after the first tenth and at the end is recorded.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
import numpy as np
import torch

from benchmarks import measure
from benchmarks.labeling import photograph
from paper.networks import save_fp16
from protoadapt.labeling import label
from protoadapt.vision import networks
from protoadapt.vision.embed import FORWARD, embed_batches
from protoadapt.vision.networks.backbones import build

CLIENTS = (1, 8, 64)


def bare(network: torch.nn.Module, about: dict[str, Any], seconds: float) -> float:
    """Pictures per second of the network alone."""
    batch = np.zeros((FORWARD, 3, about["size"], about["size"]), np.uint8)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in embed_batches(network, about, [(None, batch)]):
            done += len(batch)
    return done / (time.perf_counter() - start)


def load(address: str, contents: list[bytes], clients: int, seconds: float, most: int = 1 << 30) -> dict[str, Any]:
    """Requests per second, errors and latencies of so many clients."""
    times: list[float] = []
    errors: list[str] = []
    end, lock = time.perf_counter() + seconds, Lock()

    def client(number: int) -> None:
        with httpx.Client(base_url=address, timeout=120) as visitor:
            for i in range(number, 1 << 30, clients):
                if time.perf_counter() > end or len(times) >= most:
                    return
                start = time.perf_counter()
                try:
                    answer = visitor.post("/api/predict", content=contents[i % len(contents)])
                    problem = None if answer.status_code == 200 else str(answer.status_code)
                except httpx.HTTPError as error:
                    problem = type(error).__name__
                with lock:
                    times.append(time.perf_counter() - start)
                    errors.extend([problem] if problem else [])

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    took, ordered = time.perf_counter() - start, sorted(times)
    share = {"median_ms": 1000 * statistics.median(ordered), "p95_ms": 1000 * ordered[int(0.95 * (len(ordered) - 1))]}
    return {"clients": clients, "requests": len(times), "per_second": len(times) / took, "errors": errors[:5], **share}


@contextmanager
def serving(folder: Path, model: str) -> Iterator[tuple[str, int, list[bytes]]]:
    """The address and process of a server with a classifier of this network, and pictures to send."""
    rng = np.random.default_rng(0)
    for i in range(24):
        file = folder / "photos" / ("red" if i % 2 else "blue") / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        photograph(rng, tint=(1, 0.4, 0.4) if i % 2 else (0.4, 0.4, 1)).save(file, quality=85)
    contents = [file.read_bytes() for file in sorted(folder.glob("photos/*/*"))]
    label([folder / "photos"], folder / "photos", folder / "named", model=model)
    command = [sys.executable, "-m", "protoadapt", "serve", "--port", "0", "--model", model]
    command += ["--classifier", str(folder / "named" / "classifier.safetensors")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[1]  # type: ignore[union-attr]
            load(address, contents, 2, 2.0)  # warm
            yield address, server.pid, contents
        finally:
            server.terminate()


def small_network(file: Path) -> str:
    """A network so small that ten thousand requests take minutes: memory depends on the server, not on the network."""
    about = {"backbone": "resnet12", "width": 8, "crop": "none", "dataset": "nothing", "size": 24}
    save_fp16(build("resnet12", 8), about | {"mean": [0.5] * 3, "std": [0.25] * 3}, file)
    return str(file)


def main() -> None:
    given = measure.arguments(__doc__, seconds=10.0, model="lite0", flat=10_000).parse_args()
    network, about = networks.load(given.model)
    turns, flat = [], []
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), given.model) as (address, _, contents):
        for clients in CLIENTS:
            alone = bare(network, about, given.seconds)
            turn = load(address, contents, clients, given.seconds)
            turns.append({"bare": alone, **turn, "ratio": turn["per_second"] / alone})
            print(turns[-1], flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = small_network(Path(folder, "small.safetensors"))
        with serving(Path(folder), model) as (address, pid, contents):
            for requests in (given.flat // 10, given.flat):
                flood = load(address, contents, 8, 3600, requests)
                flat.append({**flood, "memory_mb": round(measure.memory(pid))})
                print(flat[-1], flush=True)
    measure.write(given.json, {"model": given.model, "turns": turns, "flat": flat})


if __name__ == "__main__":
    main()
