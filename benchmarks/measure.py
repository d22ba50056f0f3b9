"""How everything here is measured: pieces of work by turns, side by side, and one JSON file of what was found.

Other work on the machine meets all pieces alike, so a ratio is the median over the rounds. CPU seconds, which hardly
depend on it, are counted too.
"""

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from protoadapt.core.files import write_json
from protoadapt.core.provenance import provenance

Times = dict[str, list[tuple[float, float]]]
"""Name → per round, seconds by the clock and on the processor."""


def arguments(doc: str | None, **options: Any) -> argparse.ArgumentParser:
    """A parser with --json, and with an option per keyword: its value is the default and gives the type."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=f"{default}")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    return parser


def processor_seconds() -> float:
    """Of this process and those it has started and that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def by_turns(work: Mapping[str, Callable[[], object]], rounds: int) -> Times:
    """The times of each piece of work, all of them once per round."""
    times: Times = {name: [] for name in work}
    for _ in range(rounds):
        for name, one in work.items():
            start, before = time.perf_counter(), processor_seconds()
            one()
            times[name].append((time.perf_counter() - start, processor_seconds() - before))
    return times


def medians(times: Times) -> dict[str, list[float]]:
    """Name → median seconds by the clock and on the processor."""
    return {name: [statistics.median(side) for side in zip(*rounds)] for name, rounds in times.items()}


def ratio(times: Times, one: str, other: str, processor: bool = False) -> float:
    """Median over the rounds of one time over another."""
    return statistics.median(a[processor] / b[processor] for a, b in zip(times[one], times[other]))


def memory(pid: int | str = "self") -> float:
    """Resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def write(file: Path | None, record: Mapping[str, Any], device: str = "cpu") -> None:
    """Writes what was found and where, if a file is given."""
    if file:
        about = {"schema": "protoadapt-benchmark/1", **provenance(device)}
        about |= {"load": os.getloadavg()[0], "threads": torch.get_num_threads()}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, about | dict(record))
