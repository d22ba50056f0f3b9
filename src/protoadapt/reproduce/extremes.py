"""Few queries, one class alone, foreign pictures: what `benchmarks/extremes.py` wrote to results/extremes-….json."""

from pathlib import Path
from typing import Any

from protoadapt.report.tables import markdown
from protoadapt.reproduce.networks import read

AGAINST = ("ProtoNet, support-centred", "CIPA", "α-TIM")
COMMAND = "`python benchmarks/extremes.py FEATURES --json results/extremes-NAME.json`"


def extremes(folder: Path) -> str:
    """A section of the results: a table for each set of features in the files."""
    found = [read(file) for file in sorted(folder.glob("extremes*.json"))]
    parts = ["## Extreme queries", f"{COMMAND}. 5-way tasks as they come in use; foreign pictures are not scored."]
    for told in found:
        for one in told["sets"]:
            about = one["features"]
            where = " ".join(str(about[key]) for key in ("dataset", "split") if about.get(key)) or one["name"]
            words = f"{where}, {told['episodes']:,} tasks a line, seed {told['seed']}, {told['hardware']}"
            words += f", weights {about['weights']}" if about.get("weights") else ""
            parts += [f"{words}:", markdown(*table(one["rows"]))]
    return "\n\n".join(parts if found else [*parts, "Not measured: not run yet."])


def table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Accuracies by method, then what BAPA has more than three of them, paired."""
    names = list(rows[0]["methods"])
    against = [name for name in AGAINST if name in names]
    body = [
        [row["case"], str(row["shot"])]
        + [f"{row['methods'][name]['accuracy']:.1f}" for name in names]
        + ["{bapa_minus:+.1f} ± {bapa_minus_ci95:.1f}".format(**row["methods"][name]) for name in against]
        for row in rows
    ]
    return ["queries", "shot", *names, *(f"BAPA − {name}" for name in against)], body
