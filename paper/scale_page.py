"""The numbers of docs/scale.md, from what benchmarks/scale.py wrote."""

from collections.abc import Mapping
from typing import Any

from protoadapt.report.tables import markdown

MILLION = 1_000_000


def numbers(record: Mapping[str, Any]) -> str:
    """Markdown."""
    about = f"Written from `results/benchmark-scale.json` (`python -m benchmarks.scale`), {record['hardware']}."
    small = _small_pictures(record["extract-cuda-small"])
    return "\n\n".join([about, _label(record["label"]), _cpu(record["extract"]), small, _gpu(record["extract-cuda"])])


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


def _cpu(record: Mapping[str, Any]) -> str:
    decoding = record["decoding_per_core"]
    limit = _limit(decoding * record["cores"], record["network"])
    return (
        f"Extraction on {record['hardware']}, ResNet-12 at 84 pixels, JPEG files of 500 × 375: "
        f"{record['extract']:,.1f} pictures/s, {100 * record['share']:.0f} % of the network alone in one process "
        f"({record['network']:,.1f}/s). "
        f"Decoding alone reaches {decoding:,.0f} pictures/s per core: {limit} limits."
    )


def _small_pictures(record: Mapping[str, Any]) -> str:
    return (
        f"On {record['hardware']} with {record['cores']} cores, small pictures ({record['of']}): "
        f"{record['extract_steady']:,.0f} pictures/s in steady state, "
        f"{100 * record['extract_steady'] / record['network']:.0f} % of the forward pass alone on a ready batch "
        f"({record['network']:,.0f}/s)."
    )


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
