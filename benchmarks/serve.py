"""Requests per second of `serve --classifier`, beside the bare network's pictures per second in the same run.

    python benchmarks/serve.py [--seconds 10] [--model lite0] [--flat 10000] [--json FILE]

A classifier is fitted on made-up photographs, served by a process of its own, and asked by 1, 8 and 64 clients for some
seconds each, one picture per request; between these turns the bare network computes ready batches of 16. The load
generator shares the machine's cores with the server. Then a small network is served, and asked `--flat` times: the
server's memory after the first tenth and at the end is recorded.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import torch
from labeling import photograph

from protoadapt.core.provenance import hardware, versions
from protoadapt.labeling import label
from protoadapt.vision import networks
from protoadapt.vision.embed import FORWARD, embed_batches
from protoadapt.vision.networks.backbones import build
from protoadapt.vision.networks.model_files import save_fp16

CLIENTS = (1, 8, 64)


def photographs(folder: Path, count: int) -> list[Path]:
    """JPEGs of drawn photographs in two tints."""
    rng = np.random.default_rng(0)
    files = []
    for i in range(count):
        files.append(folder / ("red" if i % 2 else "blue") / f"{i}.jpg")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        photograph(rng, (1, 0.4, 0.4) if i % 2 else (0.4, 0.4, 1)).save(files[-1], quality=85)
    return files


def bare(network: torch.nn.Module, about: dict, seconds: float) -> float:
    """Pictures per second of the network alone."""
    batch = np.zeros((FORWARD, 3, about["size"], about["size"]), np.uint8)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in embed_batches(network, about, [(None, batch)]):
            done += len(batch)
    return done / (time.perf_counter() - start)


def load(address: str, contents: list[bytes], clients: int, seconds: float, most: int = 1 << 30) -> dict:
    """Requests per second, errors and latencies of so many clients."""
    times: list[float] = []
    errors: list[str] = []
    end, lock = time.perf_counter() + seconds, threading.Lock()

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
    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, ordered = time.perf_counter() - start, sorted(times)
    share = {"median_ms": 1000 * statistics.median(ordered), "p95_ms": 1000 * ordered[int(0.95 * (len(ordered) - 1))]}
    return {"clients": clients, "requests": len(times), "per_second": len(times) / took, "errors": errors[:5], **share}


def memory(pid: int) -> int:
    """Resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


@contextmanager
def serving(folder: Path, model: str) -> Iterator[tuple[str, int, list[bytes]]]:
    """The address and process of a server with a classifier of this network, and pictures to send."""
    files = photographs(folder / "photos", 24)
    label([folder / "photos"], folder / "photos", folder / "named", model=model)
    command = [sys.executable, "-m", "protoadapt", "serve", "--port", "0", "--model", model]
    command += ["--classifier", str(folder / "named" / "classifier.safetensors")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[1]  # type: ignore[union-attr]
            contents = [file.read_bytes() for file in files]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--model", default="lite0")
    parser.add_argument("--flat", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    network, about = networks.load(options.model)
    record: dict = {"schema": "protoadapt-benchmark/1", "hardware": hardware(), "versions": versions()}
    record |= {"model": options.model, "threads": torch.get_num_threads(), "load": os.getloadavg()[0], "turns": []}
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), options.model) as (address, _, contents):
        for clients in CLIENTS:
            turn = {"bare": bare(network, about, options.seconds)}
            turn |= load(address, contents, clients, options.seconds)
            record["turns"].append(turn | {"ratio": turn["per_second"] / turn["bare"]})
            print(
                {key: round(v, 2) if isinstance(v, float) else v for key, v in record["turns"][-1].items()}, flush=True
            )
    with tempfile.TemporaryDirectory() as folder:
        model = small_network(Path(folder, "small.safetensors"))
        with serving(Path(folder), model) as (address, pid, contents):
            record["flat"] = []
            for requests in (options.flat // 10, options.flat):
                flood = load(address, contents, 8, 3600, requests)
                record["flat"].append(flood | {"memory_mb": memory(pid)})
                print(record["flat"][-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
