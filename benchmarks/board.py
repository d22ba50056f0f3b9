"""The page with 1,000 and with 5,000 pictures in headless chromium: how soon it shows, how smoothly it scrolls, how
much memory it takes, and how long after a correction all other pictures have their new names.

    python benchmarks/board.py [--pictures 1000,5000] [--corrections 20] [--json FILE]

Pictures are drawn and their features made up, 20 classes of lite0's width with 5 labels each: the board is written
into a folder as `serve --keep` leaves it, served by a process of its own, and opened. Times are taken inside the page,
from a key to the frame that shows the answer. A frame is late if it took more than two of a screen with 60 per second.
Sizes that FILE holds already and that are not measured this time stay in it.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, sync_playwright
from threadpoolctl import threadpool_limits

from protoadapt.app.board import Board, Picture, add, change, labelling, name_board
from protoadapt.app.session import new_session
from protoadapt.core.provenance import hardware, versions
from protoadapt.vision import networks
from protoadapt.vision.pictures.decode import shrunk

WAY, SHOTS, DRAWN = 20, 5, 100
MODEL = "lite0"
FLAGS = ["--no-sandbox", "--enable-precise-memory-info"]

FIRST = """async () => {
  for (;;) {
    const image = document.querySelector(".tile img");
    if (image?.complete && image.naturalWidth) return performance.now();
    await new Promise(requestAnimationFrame);
  }
}"""
SCROLL = """async () => {
  const grid = document.querySelector("#grid");
  const frames = [];
  let [last, most] = [performance.now(), 0];
  const start = last;
  while (grid.scrollTop + grid.clientHeight < grid.scrollHeight - 1) {
    grid.scrollTop += grid.clientHeight / 4;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    most = Math.max(most, document.querySelectorAll(".tile").length);
    last = now;
  }
  return { seconds: (last - start) / 1000, frames, most };
}"""
CORRECT = """async (key) => {
  const board = document.querySelector(".board");
  const start = performance.now();
  document.querySelector("#grid").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  await new Promise(requestAnimationFrame);
  const shown = performance.now() - start;
  while (board.classList.contains("busy")) await new Promise(requestAnimationFrame);
  return { shown, answered: performance.now() - start };
}"""


def drawings() -> list[tuple[bytes, bytes]]:
    """The two copies that the page keeps of each of some drawn pictures."""
    rng = np.random.default_rng(0)
    copies = []
    for _ in range(DRAWN):
        image = Image.new("RGB", (800, 600), tuple(rng.integers(90, 240, 3).tolist()))
        pen = ImageDraw.Draw(image)
        for _ in range(40):
            x, y, size = rng.integers(0, 800), rng.integers(0, 600), rng.integers(20, 160)
            pen.ellipse((x, y, x + size, y + size * 2 // 3), fill=tuple(rng.integers(0, 256, 3).tolist()))
        content = BytesIO()
        image.save(content, "JPEG", quality=90)
        large, small = shrunk(content.getvalue(), 800, 192)
        copies.append((large, small))
    return copies


def pictures(count: int, width: int) -> tuple[list[Picture], list[str | None]]:
    """Pictures of classes that overlap a little, and the labels of the first few of each."""
    rng = np.random.default_rng(0)
    means = rng.gamma(0.5, 1.0, (WAY, width))
    rows = np.maximum(means[np.arange(count) % WAY] + rng.normal(0, 1.6, (count, width)), 0).astype(np.float32)
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(count)]
    names = [f"class {i % WAY:02d}/{i:05d}.jpg" if i < WAY * SHOTS else f"{i:05d}.jpg" for i in range(count)]
    labels = [f"class {i % WAY:02d}" if i < WAY * SHOTS else None for i in range(count)]
    return [Picture(*one) for one in zip(names, keys, rows)], labels


def naming(board: Board, metadata: dict[str, Any]) -> float:
    """Milliseconds of processor time that naming takes on one core, as the median of three.

    It hardly depends on what else the machine does; two threads that wait for each other on a busy one would.
    """
    times = []
    torch.get_num_threads()  # which sets their number, once
    with threadpool_limits(1):
        name_board(board, metadata)  # warm
        for _ in range(3):
            start = time.process_time()
            name_board(board, metadata)
            times.append(1000 * (time.process_time() - start))
    return statistics.median(times)


@contextmanager
def served(home: Path) -> Iterator[tuple[str, int]]:
    """Address and process of `serve --keep`."""
    command = [sys.executable, "-m", "protoadapt", "serve", "--port", "0", "--model", MODEL, "--keep", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().split()[1], server.pid  # type: ignore[union-attr]
        finally:
            server.terminate()


def resident(pid: int) -> int:
    """Resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def page_memory(browser: Browser) -> int:
    """Resident megabytes of the largest process that draws pages."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return max(resident(one["id"]) for one in found if one["type"] == "renderer")


def measured(browser: Browser, count: int, corrections: int, copies: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    """All measurements of one size."""
    _, metadata = networks.load(MODEL)
    width = 1280
    added, labels = pictures(count, width)
    board = add(Board(), added)[0]
    board = change(board, labelling(board, {i: name for i, name in enumerate(labels) if name}))[0]
    record: dict[str, Any] = {"pictures": count, "load": os.getloadavg()[0]}
    record["naming_cpu_ms"] = naming(board, metadata)
    with tempfile.TemporaryDirectory() as folder:
        session = new_session(Path(folder), metadata["weights"])
        for i, one in enumerate(added):
            session.keep(one.key, copies[i % len(copies)])
        session.add(added, [], labels)
        with served(Path(folder)) as (address, pid):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{address}#board={session.id}")
            record["first_picture_s"] = page.evaluate(FIRST) / 1000
            record["memory_page_mb"], record["memory_server_mb"] = page_memory(browser), resident(pid)
            scrolled = page.evaluate(SCROLL)
            frames = scrolled["frames"]
            record |= {"scroll_s": scrolled["seconds"], "frames": len(frames), "tiles_in_page": scrolled["most"]}
            record |= {"longest_frame_ms": max(frames), "late_frames": sum(one > 2000 / 60 + 1 for one in frames)}
            record["median_frame_ms"] = statistics.median(frames)
            record["memory_page_after_mb"] = page_memory(browser)
            page.keyboard.press("s")
            page.wait_for_selector(".tile.focus")
            steps = [page.evaluate(CORRECT, "123456789"[i % 9]) for i in range(corrections)]
            for key in ("shown", "answered"):
                times = sorted(step[key] for step in steps)
                record |= {f"{key}_median_ms": statistics.median(times), f"{key}_most_ms": times[-1]}
            record["memory_server_after_mb"] = resident(pid)
            page.close()
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in record.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", default="1000,5000")
    parser.add_argument("--corrections", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    copies = drawings()
    record: dict[str, Any] = {"schema": "protoadapt-benchmark/1", "hardware": hardware(), "versions": versions()}
    record |= {"threads": torch.get_num_threads(), "classes": WAY, "labels": WAY * SHOTS, "sizes": []}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        record["browser"] = browser.version
        for count in map(int, options.pictures.split(",")):
            record["sizes"].append(measured(browser, count, options.corrections, copies))
            print(record["sizes"][-1], flush=True)
        browser.close()
    if options.json:
        before = json.loads(options.json.read_text())["sizes"] if options.json.exists() else []
        measured_now = {one["pictures"] for one in record["sizes"]}
        record["sizes"] += [one for one in before if one["pictures"] not in measured_now]
        record["sizes"].sort(key=lambda one: one["pictures"])
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
