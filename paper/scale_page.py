"""The numbers of docs/scale.md, from what benchmarks/scale.py wrote, and the arithmetic from them to 64 GPUs."""

from collections.abc import Mapping
from typing import Any

from protoadapt.report.tables import markdown

MILLION = 1_000_000


def numbers(told: Mapping[str, Any]) -> str:
    """Markdown; parts that were not measured are left out."""
    parts = [f"Written from `results/benchmark-scale.json` (`python benchmarks/scale.py`), {told['hardware']}."]
    if "identical" in told:
        parts.append(_identical(told["identical"], told.get("kill")))
    if "label" in told:
        parts.append(_label(told["label"]))
    if "extract" in told:
        parts += _extract(told["extract"], told.get("extract-cuda"))
    return "\n\n".join(parts)


def _identical(told: Mapping[str, Any], kill: Mapping[str, Any] | None) -> str:
    ways = told["ways"]
    same = "the same bytes" if all(way["same_bytes"] for way in ways.values()) else "DIFFERENT bytes"
    times = ", ".join(f"{name} ({way['seconds']:.0f} s)" for name, way in ways.items())
    text = f"{told['shards']:,} small shards by {times}: {same}."
    if kill:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in kill["kills"].items())
        end = "identical" if kill["identical"] else "NOT identical"
        text += f" Killed with SIGKILL ({kinds}) and run again: {end}, {kill['done_twice']} shards done twice."
    return text


def _label(told: Mapping[str, Any]) -> str:
    rows = [
        [
            *(run["method"], run["sizes"], f"{run['rows']:,}", f"{run['seconds']:.0f}", f"{run['pass_seconds']:.2f}"),
            *(f"{run['read_and_multiply_seconds']:.2f}", f"{100 * run['share']:.0f} %", f"{run['peak_gb']:.2f}"),
        ]
        for run in told["runs"]
    ]
    header = [
        "method",
        "class sizes",
        "rows",
        "seconds in all",
        "a pass",
        "read and multiplied once",
        "share",
        "peak GB",
    ]
    largest = max(told["runs"], key=lambda run: (run["rows"], run["method"] == "bapa"))
    per = largest["rows"] * (largest["steps"] + 2) / largest["seconds"] / told["threads"]
    return (
        f"Labelling synthetic rows of {told['dim']} dimensions, {told['classes']} classes, {told['threads']} cores. "
        "Beside a pass over all rows, the same files read once and multiplied by one matrix of that size, in the same "
        "run; CIPA needs two such products a pass, BAPA three where class sizes differ. That yardstick varies: see "
        "both of the largest size.\n\n"
        f"{markdown(header, rows)}\n\n"
        f"Within a pass shards are independent, and each process takes its part: at {per:,.0f} rows a second and "
        f"core, {largest['steps'] + 2} passes over 100 million rows take "
        f"{100 * MILLION * (largest['steps'] + 2) / per / 64 / 60:.0f} minutes on 64 cores, reading not counted where "
        "the disk is slower than that."
    )


def _extract(told: Mapping[str, Any], gpu: Mapping[str, Any] | None) -> list[str]:
    decoding = told["decoding_per_core"]
    limit = _limit(decoding * told["cores"], told["network"])
    parts = [
        f"Extraction on {told['hardware']}, ResNet-12 at 84 pixels, JPEG files of 500 × 375: {told['extract']:,.1f} "
        f"pictures/s, {100 * told['share']:.0f} % of the network alone in one process ({told['network']:,.1f}/s). "
        f"Decoding alone reaches {decoding:,.0f} pictures/s a core: {limit} limits."
    ]
    return parts if gpu is None else [*parts, *_gpus(gpu)]


def _gpus(told: Mapping[str, Any]) -> list[str]:
    """One GPU as measured, and the arithmetic from it to more of them."""
    rate, forward, cores = told["extract_steady"], told["network"], told["cores"]
    each = told["decoding_per_core"]
    decoding = each * cores
    limit = _limit(decoding, forward)
    more = f"; {forward / rate:.1f} times as many cores would keep the GPU busy" if decoding < forward else ""
    rows = [
        [str(gpus), f"{gpus * cores:,}", f"{gpus * rate:,.0f}"]
        + [_time(pictures * MILLION / gpus / rate) for pictures in (1, 10, 100)]
        for gpus in (1, 8, 64)
    ]
    header = ["GPUs", "cores beside them", "pictures/s", "1 million", "10 million", "100 million"]
    return [
        f"On {told['hardware']} with {cores} cores: {rate:,.0f} pictures/s once begun, {100 * rate / forward:.0f} % of "
        f"the network alone ({forward:,.0f}/s). Decoding alone reaches {each:,.0f} pictures/s a core, "
        f"{decoding:,.0f}/s in all: {limit} limits, with what it takes to hand the pictures over{more}.",
        "What to expect of more GPUs with as many cores each: shards are independent, so the measured pictures/s are "
        "multiplied by their number, and a time is pictures divided by that. The disk must keep up: at 40 kB a picture "
        f"a GPU reads {rate * 0.04:,.0f} MB/s.\n\n{markdown(header, rows)}",
    ]


def _limit(decoding: float, network: float) -> str:
    return "decoding" if decoding < network else "the network"


def _time(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
