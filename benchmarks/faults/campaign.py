"""Runs cases in a worker process, notices those that crash, hang or grow, and counts how they ended."""

import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.faults import choices, page, passed_on, processes, reading
from benchmarks.faults.damage import Rng
from benchmarks.faults.world import World
from protoadapt.core.errors import UserError

Case = Callable[[Rng, World], str]
PARTS: dict[str, tuple[Case, int]] = {
    "features": (reading.features, 10_000),
    "pictures": (reading.pictures, 5_000),
    "files": (reading.files, 5_000),
    "settings": (choices.settings, 5_000),
    "kills": (processes.kills, 120),
    "limits": (processes.limits, 120),
    "together": (processes.together, 40),
    "requests": (page.requests, 2_000),
    "page": (page.kills, 60),
    "passed on": (passed_on.passed_on, 4_000),
}
"""The cases of each part, and how many a full campaign has."""
PROCESSES = ("kills", "limits", "together", "page")
"""Parts whose cases start processes of their own, and so may take longer."""
HANG_SECONDS, MOST_GB = 30.0, 4.0


def run_case(part: str, seed: int, number: int, world: World) -> tuple[str, str]:
    """How a case ended, and the finding: empty, or the traceback."""
    rng = np.random.default_rng([seed, list(PARTS).index(part), number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return PARTS[part][0](rng, world), ""
        except UserError as error:
            one_line = "\n" not in str(error).strip() and len(str(error)) < 5000
            return "refused", "" if one_line else f"the sentence has several lines: {str(error)[:500]}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return "found", "".join(traceback.format_exception(error, limit=-6))[-3000:]


def run_part(
    part: str, seed: int, numbers: Iterable[int], place: Path, on_case: Callable[[dict[str, Any]], None]
) -> None:
    """Runs cases in a worker process, another one after each that crashes, hangs or grows too large."""
    left = list(numbers)
    while left:
        receive, send = os.pipe()
        child = os.fork()
        if not child:
            os.close(receive)
            _work(part, seed, left, place, send)
        os.close(send)
        done = _watch(child, receive, part, left, on_case)
        left = left[done:]


def _work(part: str, seed: int, numbers: list[int], place: Path, send: int) -> None:
    torch.set_num_threads(1)
    world = World(place)
    for number in numbers:
        os.write(send, b"\n")  # a case begins
        begin = time.process_time(), time.monotonic()
        how, finding = run_case(part, seed, number, world)
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6
        record = {"case": number, "how": how, "finding": finding, "gb": round(peak, 3)}
        record["seconds"] = round(min(time.process_time() - begin[0], time.monotonic() - begin[1]), 3)
        os.write(send, json.dumps(record).encode() + b"\n")
        if peak > MOST_GB:
            os._exit(0)
    os._exit(0)


def _watch(child: int, receive: int, part: str, numbers: list[int], on_case: Callable[[dict[str, Any]], None]) -> int:
    """Takes the records of a worker; returns the number of cases that it has done, the last one perhaps a finding."""
    done, rest, alone = 0, b"", part in PROCESSES
    begin = time.monotonic()
    while done < len(numbers):
        ready, _, _ = select.select([receive], [], [], 1.0)
        chunk = os.read(receive, 1 << 16) if ready else b""
        if ready and not chunk:
            break  # the worker has ended
        rest += chunk
        *lines, rest = rest.split(b"\n")
        for line in lines:
            begin = time.monotonic()
            if not line:
                continue
            record = json.loads(line)
            if record["gb"] > MOST_GB and not record["finding"]:
                record["finding"] = f"it took {record['gb']} GB"
            if record["seconds"] > HANG_SECONDS and not alone and not record["finding"]:
                record["finding"] = f"it took {record['seconds']} s"
            done += 1
            on_case(record)
        if time.monotonic() - begin > (10 if alone else 4) * HANG_SECONDS:  # of wall time, on a busy machine
            os.kill(child, signal.SIGKILL)
            break
    os.close(receive)
    _, status = os.waitpid(child, 0)
    if done < len(numbers) and not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0):
        hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        words = "it hangs" if hung else f"the process died ({status})"
        on_case({"case": numbers[done], "how": "found", "finding": words, "gb": 0.0, "seconds": 0.0})
        done += 1
    return done


class Counts:
    """What a campaign has seen of each part; kept in a file, so that an interrupted one continues."""

    def __init__(self, file: Path, seed: int):
        self.file = file
        stored = json.loads(file.read_text()) if file.exists() else {}
        self.parts: dict[str, dict[str, Any]] = stored["parts"] if stored.get("seed") == seed else {}
        self.seed = seed

    def add(self, part: str, record: dict[str, Any]) -> None:
        counts = self.parts.setdefault(
            part, {"done": 0, "how": {}, "findings": [], "gb": 0.0, "slowest": 0.0, "cpu": 0.0}
        )
        counts["done"] += 1
        counts["how"] = dict(Counter(counts["how"]) + Counter([record["how"]]))
        counts["gb"], counts["slowest"] = max(counts["gb"], record["gb"]), max(counts["slowest"], record["seconds"])
        counts["cpu"] = round(counts["cpu"] + record["seconds"], 3)
        if record["finding"]:
            counts["findings"].append({"case": record["case"], "what": record["finding"]})
            print(
                f"FOUND {part} {record['case']}: {record['finding'].strip().splitlines()[-1][:200]}",
                file=sys.stderr,
                flush=True,
            )
        if counts["done"] % 100 == 0 or record["finding"] or part in PROCESSES:
            self.save()

    def again(self, part: str) -> list[int]:
        """The cases that were findings, which are counted anew."""
        counts = self.parts.get(part)
        if not counts:
            return []
        numbers, counts["findings"] = [finding["case"] for finding in counts["findings"]], []
        counts["done"] -= len(numbers)
        counts["how"] = {how: n for how, n in counts["how"].items() if how != "found"}
        return numbers

    def save(self) -> None:
        partial = self.file.with_suffix(".new")
        partial.write_text(json.dumps({"seed": self.seed, "parts": self.parts}))
        partial.replace(self.file)


def run(seed: int, place: Path | None = None, share: float = 1.0, parts: Iterable[str] = PARTS) -> Counts:
    """Runs the cases of some parts that are still to be done, each part's first `share`, and earlier findings again."""
    place = place or Path(tempfile.gettempdir(), f"protoadapt-faults-{seed}")
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o755)
    torch.set_num_threads(1)
    World(place)  # built once, before any process is forked
    counts = Counts(place / "counts.json", seed)
    for part in parts:
        done, number = counts.parts.get(part, {}).get("done", 0), round(share * PARTS[part][1])
        run_part(
            part,
            seed,
            [*counts.again(part), *range(done, number)],
            place,
            lambda record, part=part: counts.add(part, record),
        )
        counts.save()
    return counts
