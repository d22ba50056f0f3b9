"""Tables of benchmarks/extremes.py from its JSON: extreme sets of queries, all methods on the same tasks."""

from collections.abc import Sequence
from typing import Any

from protoadapt.report.tables import markdown

AGAINST = ("ProtoNet, support-centred", "CIPA", "α-TIM")
"""Methods that BAPA is compared with, paired by episode."""


def table(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one feature file: one row per kind of queries, 1-shot / 5-shot per cell."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], []).append(row["methods"])
    names = list(rows[0]["methods"])
    against = [name for name in AGAINST if name in names]
    body = [
        [case]
        + [" / ".join(f"{shot[name]['accuracy']:.1f}" for shot in shots) for name in names]
        + [
            " / ".join("{bapa_minus:+.1f} ± {bapa_minus_ci95:.1f}".format(**shot[name]) for shot in shots)
            for name in against
        ]
        for case, shots in cases.items()
    ]
    return ["queries", *names, *(f"BAPA − {name}" for name in against)], body


def numbers(record: dict[str, Any]) -> str:
    """All its tables as Markdown, each with its dataset."""
    parts = []
    for part in record["sets"]:
        about = part["features"]
        trained, shown = about.get("trained_on"), f"{about.get('dataset')} ({about.get('split')} classes)"
        crop = f", cut to {about['crop']}" if about.get("crop") not in (None, "none") else ""
        where = shown + crop + (f", network trained on {trained}" if trained else "")
        parts += [f"**{where}**", markdown(*table(part["rows"]))]
    few = record["sets"][0]["rows"][0]["methods"].get("α-TIM", {}).get("episodes", 0)
    note = (
        f"{record['episodes']:,} tasks per cell, {record['way']}-way, 1-shot / 5-shot, seed {record['seed']}, 95 % CI"
    )
    return "\n\n".join(
        [
            f"{note}; α-TIM only the first {few:.0f}, so compare it by the difference, not by its column."
            if few
            else f"{note}.",
            *parts,
        ]
    )
