"""Tables of the arena from its JSON: one per protocol, all methods, all datasets."""

from collections.abc import Sequence
from typing import Any

from protoadapt.report.tables import markdown

TITLES = {
    "balanced": "Balanced: 15 queries per class",
    "Dirichlet(2)": "Imbalanced: 75 queries, class shares from Dirichlet(2)",
    "Dirichlet(0.5)": "Strongly imbalanced: 75 queries, class shares from Dirichlet(0.5)",
    "5 of 20": "Five classes present among twenty candidates, 75 queries",
    "5 of all": "Five classes present among all novel classes, 75 queries",
    "one class": "One class: 40 queries, all of the same class",
    "1 query": "One query",
    "3 queries": "Three queries",
    "10 queries": "Ten queries",
    "30 % foreign": "Open: 30 % of the queries are of other classes; accuracy over the rest, AUROC in brackets",
}
TOLD = ("PT+MAP", "BPA + PT+MAP", "TIM-ADM", "BAPA, told equal")
"""Take the classes to be equally frequent."""


def cells(
    document: dict[str, Any], protocol: str, part: str = "methods"
) -> dict[str, dict[int, dict[str, list[float | None]]]]:
    """Dataset → shot → method → numbers; "told" in place of "methods": of those that are told, beside told BAPA."""
    found: dict[str, dict[int, dict[str, list[float | None]]]] = {}
    for name, measured in document["sets"].items():
        for cell in measured["cells"]:
            if cell["protocol"] == protocol and part in cell:
                found.setdefault(name, {})[cell["shot"]] = cell[part]
    return found


def accuracy_table(found: dict[str, dict[int, dict[str, list[float | None]]]]) -> str:
    """Accuracies: a row per method, a column per dataset, 1- / 5-shot."""
    names = list(dict.fromkeys(name for shots in found.values() for part in shots.values() for name in part))

    def entry(values: list[float | None]) -> str:
        return f"{values[0]:.1f}" + (f" ({values[6]:.0f})" if len(values) > 6 else "")

    body = [
        [name + (" †" if name in TOLD else "")]
        + [
            " / ".join(entry(part[name]) if name in part else "–" for _, part in sorted(shots.items()))
            for shots in found.values()
        ]
        for name in names
    ]
    return markdown(["method", *found], body)


def difference_table(found: dict[str, dict[int, dict[str, list[float | None]]]], ours: str = "BAPA") -> str:
    """BAPA minus each method that knows as much: paired, ± over episodes and (± over classes)."""
    names = list(dict.fromkeys(name for shots in found.values() for part in shots.values() for name in part))
    rivals = [name for name in names if (name in TOLD) == (ours in TOLD) and name != ours]

    def entry(values: list[float | None]) -> str:
        wide = "" if values[5] is None else f" ({values[5]:.1f})"
        return f"{values[3]:+.1f} ± {values[4]:.1f}{wide}"

    body = [
        [name]
        + [
            " / ".join(entry(part[name]) if name in part else "–" for _, part in sorted(shots.items()))
            for shots in found.values()
        ]
        for name in rivals
    ]
    return markdown([f"{ours} −", *found], body)


def numbers(document: dict[str, Any], protocols: Sequence[str] = tuple(TITLES)) -> str:
    """Both tables of every protocol, as Markdown."""
    about = (
        f"{document['episodes']:,} episodes per cell, 1-shot / 5-shot, seed {document['seed']}, on novel classes; "
        f"α-TIM, BAVARDAGE and α-AM the first {document['slow_episodes']:,}. † takes the classes to be equally "
        "frequent. PADDLE's scale and UNEM's weights were learned on the validation classes of each dataset, for each "
        "protocol and shot. Differences are paired: ± over episodes, in brackets over classes (jackknife)."
    )
    parts = [about]
    for protocol in protocols:
        if found := cells(document, protocol):
            parts += [f"### {TITLES[protocol]}", accuracy_table(found), difference_table(found)]
        if told := cells(document, protocol, "told"):
            parts += ["Told that the classes are equal:", difference_table(told, "BAPA, told equal")]
    return "\n\n".join(parts)


DRAWN = ("ProtoNet", "CIPA", "PT+MAP", "α-TIM", "PADDLE", "BAPA")
"""What the picture shows."""


def bars(document: dict[str, Any], shot: int = 5) -> tuple[list[str], dict[str, list[float]]]:
    """Protocols, and for each method that has them all its mean accuracy over the datasets."""
    protocols = [words for words in TITLES if cells(document, words) and words not in ("5 of all", "30 % foreign")]

    def mean(words: str, name: str) -> float | None:
        found = [shots.get(shot, {}).get(name) for shots in cells(document, words).values()]
        values = [row[0] for row in found if row and row[0] is not None]
        return sum(values) / len(values) if values and len(values) == len(found) else None

    series = {name: [mean(words, name) for words in protocols] for name in DRAWN}
    return protocols, {name: values for name, values in series.items() if None not in values}  # type: ignore[misc]


def bars_of_extremes(record: dict[str, Any], shot: int = 5) -> tuple[list[str], dict[str, list[float]]]:
    """The same from the tables of extreme queries (`benchmarks/extremes.py`)."""
    rows = [row for part in record["sets"] for row in part["rows"] if row["shot"] == shot]
    cases = [case for case in dict.fromkeys(row["case"] for row in rows) if "foreign" not in case and "25" not in case]
    series = {}
    for name in DRAWN:
        found = [[row["methods"].get(name) for row in rows if row["case"] == case] for case in cases]
        if all(all(case) for case in found):
            series[name] = [sum(one["accuracy"] for one in case) / len(case) for case in found]
    return cases, series
