"""The numbers of docs/scale.md, from what benchmarks/scale.py wrote, and the arithmetic from them to 64 GPUs."""

from collections.abc import Mapping
from typing import Any

from protoadapt.report.tables import markdown

TRAINED = 19_600
"""Images a second, forward and backward: ResNet-12, 84 pixels, one H200, compiled, bf16. Measured while training."""
CORES = 16
"""Beside each GPU, to decode."""
MILLION = 1_000_000


def numbers(told: Mapping[str, Any]) -> str:
    """Markdown; parts that were not measured are said to be missing."""
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
            *(run["method"], f"{run['rows']:,}", f"{run['seconds']:.0f}", f"{run['pass_seconds']:.2f}"),
            *(f"{run['read_and_multiply_seconds']:.2f}", f"{100 * run['share']:.0f} %", f"{run['peak_gb']:.2f}"),
        ]
        for run in told["runs"]
    ]
    header = ["method", "rows", "seconds in all", "a pass", "read and multiplied once", "share", "peak GB"]
    largest = max(told["runs"], key=lambda run: (run["rows"], run["method"] == "bapa"))
    per = largest["rows"] * (largest["steps"] + 2) / largest["seconds"] / told["threads"]
    return (
        f"Labelling synthetic rows of {told['dim']} dimensions, {told['classes']} classes, {told['threads']} cores. "
        "Beside a pass over all rows, the same files read once and multiplied by one matrix of that size, in the same "
        f"run; CIPA needs two such products a pass, BAPA three.\n\n{markdown(header, rows)}\n\n"
        f"Within a pass shards are independent, and each process takes its part: at {per:,.0f} rows a second and "
        f"core, {largest['steps'] + 2} passes over 100 million rows take "
        f"{100 * MILLION * (largest['steps'] + 2) / per / 64 / 60:.0f} minutes on 64 cores, reading not counted where "
        "the disk is slower than that."
    )


def _extract(told: Mapping[str, Any], gpu: Mapping[str, Any] | None) -> list[str]:
    decoding = told["decoding_per_core"]
    parts = [
        f"Extraction on {told['hardware']}, ResNet-12 at 84 pixels, JPEG files of 500 × 375: "
        f"{told['extract']:,.1f} pictures/s, {100 * told['share']:.0f} % of the network alone "
        f"({told['network']:,.1f}/s). Decoding alone reaches {decoding:,.0f} pictures/s a core: the network limits."
    ]
    if gpu:
        decoding, forward = gpu["decoding_per_core"], gpu["network"]
        source = f"measured: {forward:,.0f} pictures/s in batches of 64"
        parts.append(
            f"On {gpu['hardware']} with {gpu['cores']} cores: {gpu['extract']:,.0f} pictures/s "
            f"({100 * gpu['share']:.0f} % of the network alone, {forward:,.0f}/s); decoding {decoding:,.0f} pictures/s "
            f"a core, {decoding * gpu['cores']:,.0f}/s in all: "
            f"{'decoding' if decoding * gpu['cores'] < forward else 'the network'} limits."
        )
    else:
        forward = 3.0 * TRAINED
        source = f"not measured: three times the {TRAINED:,}/s of forward and backward together"
    rows = []
    for gpus in (1, 8, 64):
        network, cores = gpus * forward, gpus * CORES * decoding
        slower = min(network, cores)
        rows.append(
            [
                *(str(gpus), f"{network:,.0f}", f"{cores:,.0f}", "decoding" if cores < network else "the network"),
                *(_time(10 * MILLION / slower), _time(100 * MILLION / slower)),
            ]
        )
    header = ["GPUs", "network, pictures/s", f"decoding, {CORES} cores each", "limit", "10 million", "100 million"]
    parts.append(
        f"What to expect of more GPUs (one H200 {source}), with {CORES} cores beside each: shards are independent, so "
        "pictures/s are multiplied by their number, and the slower of network and decoding counts. "
        f"A GPU is kept busy by {forward / decoding:,.0f} cores. Smaller pictures decode faster; a disk or a network "
        f"that delivers less than that limits before both.\n\n{markdown(header, rows)}"
    )
    return parts


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds > 5400 else f"{seconds / 60:.0f} min" if seconds > 90 else "a minute"
