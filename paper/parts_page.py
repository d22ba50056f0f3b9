"""Tables of benchmarks/bapa_parts.py from its JSON: what each part of BAPA earns."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from protoadapt.report.tables import markdown


def numbers(record: dict[str, Any]) -> str:
    """Two tables as Markdown: parts that are left out, and settings that are changed."""
    sets = ", ".join(record["sets"])
    about = (
        f"{record['episodes']} tasks per cell, 5-way, seed {record['seed']}, validation classes of {sets}: accuracy "
        f"without the part minus that of BAPA, on the same tasks, 1-shot / 5-shot, mean over the sets; last the lowest "
        f"and the highest on one set."
    )
    return "\n\n".join([about, _table(record, "without", record["parts"]), _table(record, "with", record["changed"])])


def _table(record: dict[str, Any], first: str, variants: Sequence[str]) -> str:
    cells = [cell for one in record["sets"].values() for cell in one["cells"]]
    protocols = list(dict.fromkeys(cell["protocol"] for cell in cells))
    shots = sorted({cell["shot"] for cell in cells})

    def entry(variant: str, protocol: str) -> str:
        found = [
            [cell["rows"][variant][0] for cell in cells if (cell["protocol"], cell["shot"]) == (protocol, shot)]
            for shot in shots
        ]
        return " / ".join(f"{mean(values):+.1f}" if values else "–" for values in found)

    def extremes(variant: str) -> str:
        values = [cell["rows"][variant][0] for cell in cells]
        return f"{min(values):+.1f} … {max(values):+.1f}"

    body = [[variant, *(entry(variant, one) for one in protocols), extremes(variant)] for variant in variants]
    return markdown([first, *protocols, "one set"], body)
