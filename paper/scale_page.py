"""The numbers of docs/scale.md, from what benchmarks/scale.py wrote."""

from collections.abc import Mapping
from typing import Any

from protoadapt.report.tables import markdown

MILLION = 1_000_000


def numbers(record: Mapping[str, Any]) -> str:
    """Markdown; parts that are not measured are left out."""
    parts = [f"Written from `results/benchmark-scale.json` (`python -m benchmarks.scale`), {record['hardware']}."]
    if "label" in record:
        parts.append(_label(record["label"]))
    if "extract" in record:
        parts += _extract(record["extract"], record.get("extract-cuda"), record.get("extract-cuda-small"))
    return "\n\n".join(parts)


def _label(record: Mapping[str, Any]) -> str:
    rows = [
        [
            run["method"],
            run["sizes"],
            f"{run['rows']:,}",
            f"{run['seconds']:.0f}",
            f"{run['pass_seconds']:.2f}",
            f"{run['read_and_multiply_seconds']:.2f}",
            f"{100 * run['share']:.0f} %",
            f"{run['peak_gb']:.2f}",
        ]
        for run in record["runs"]
    ]
    header = [
        "method",
        "class sizes",
        "rows",
        "total seconds",
        "seconds per pass",
        "read and multiply once",
        "share",
        "peak GB",
    ]
    largest = max(record["runs"], key=lambda run: (run["rows"], run["method"] == "bapa"))
    per = largest["rows"] * (largest["steps"] + 2) / largest["seconds"] / record["threads"]
    return (
        f"Labelling synthetic rows of {record['dim']} dimensions, {record['classes']} classes, {record['threads']} "
        "cores. For comparison with one pass over all rows, the same run reads the files once and multiplies them by "
        "one matrix of that size; CIPA needs two such products per pass, BAPA three where class sizes differ. This "
        "measure varies: compare the two rows of the largest size.\n\n"
        f"{markdown(header, rows)}\n\n"
        f"Within a pass shards are independent, and each process takes its part: at {per:,.0f} rows per second and "
        f"core, {largest['steps'] + 2} passes over 100 million rows take "
        f"{100 * MILLION * (largest['steps'] + 2) / per / 64 / 60:.0f} minutes on 64 cores, if the disk can read as "
        "fast."
    )


def _extract(record: Mapping[str, Any], gpu: Mapping[str, Any] | None, small: Mapping[str, Any] | None) -> list[str]:
    decoding = record["decoding_per_core"]
    limit = _limit(decoding * record["cores"], record["network"])
    parts = [
        f"Extraction on {record['hardware']}, ResNet-12 at 84 pixels, JPEG files of 500 × 375: "
        f"{record['extract']:,.1f} pictures/s, {100 * record['share']:.0f} % of the network alone in one process "
        f"({record['network']:,.1f}/s). "
        f"Decoding alone reaches {decoding:,.0f} pictures/s per core: {limit} limits."
    ]
    if small is not None:
        parts.append(
            f"On {small['hardware']} with {small['cores']} cores, small pictures ({small['of']}): "
            f"{small['extract_steady']:,.0f} pictures/s in steady state, "
            f"{100 * small['extract_steady'] / small['network']:.0f} % of the forward pass alone on a ready batch "
            f"({small['network']:,.0f}/s)."
        )
    return parts if gpu is None else [*parts, _gpu(gpu)]


def _gpu(record: Mapping[str, Any]) -> str:
    rate, forward, cores, each = (record[key] for key in ("extract_steady", "network", "cores", "decoding_per_core"))
    more = f"; {forward / rate:.1f} times as many cores would keep the GPU busy" if each * cores < forward else ""
    return (
        f"On {record['hardware']} with {cores} cores: {rate:,.0f} pictures/s in steady state, "
        f"{100 * rate / forward:.0f} % of the network alone ({forward:,.0f}/s). Decoding alone reaches {each:,.0f} "
        f"pictures/s per core, {each * cores:,.0f}/s in all: {_limit(each * cores, forward)} limits{more}. Parts are "
        f"independent, so more GPUs with as many cores each multiply this; the disk must keep up: at 40 kB per picture "
        f"a GPU reads {rate * 0.04:,.0f} MB/s."
    )


def _limit(decoding: float, network: float) -> str:
    return "decoding" if decoding < network else "the network"
