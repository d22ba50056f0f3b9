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
OURS = ("BAPA", "BAPA, base mean", "BAPA, base mean and covariance")


def cells(document: dict[str, Any], protocol: str, part: str = "methods") -> dict[str, dict[int, dict[str, Any]]]:
    """Dataset → shot → method → numbers; in place of "methods" "told": of those that are told, beside told BAPA;
    "based": of those that know the base classes' covariance, beside BAPA that does; or "episodes": how many each
    method saw."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
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


def episode_counts(found: dict[str, dict[int, dict[str, int]]]) -> str:
    """How many episodes a cell has, in words, and which methods saw fewer."""
    seen: dict[str, set[int]] = {}
    for shots in found.values():
        for counts in shots.values():
            for name, count in counts.items():
                seen.setdefault(name, set()).add(count)
    usual = seen["BAPA"]

    def words(counts: set[int]) -> str:
        return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))

    fewer = [f"{name} {words(counts)}" for name, counts in seen.items() if counts != usual]
    return f"{words(usual)} episodes per cell" + "".join(f"; {one}" for one in fewer) + "."


HEADLINES = ("balanced", "Dirichlet(2)", "Dirichlet(0.5)", "5 of 20")


def strongest_table(document: dict[str, Any]) -> str:
    """BAPA minus the strongest method that is not told, per protocol and shot: a column per dataset."""

    def entry(part: dict[str, list[float | None]]) -> str:
        rivals = [name for name in part if name not in (*TOLD, *OURS)]
        name = min(rivals, key=lambda rival: part[rival][3] or 0.0)
        return f"{part[name][3]:+.1f} ± {part[name][4]:.1f} {name}"

    body = []
    for protocol in HEADLINES:
        found = cells(document, protocol)
        for shot in (1, 5):
            row = [entry(found[name][shot]) if shot in found.get(name, {}) else "–" for name in document["sets"]]
            body.append([f"{protocol}, {shot}-shot", *row])
    return markdown(["BAPA − the strongest rival", *document["sets"]], body)


PUBLISHED = (
    ("α-TIM", "mini-imagenet", "Dirichlet(2)", (67.4, 82.5), "ResNet-18, Veilleux et al. 2021"),
    ("PT+MAP", "mini-imagenet", "Dirichlet(2)", (60.1, 67.1), "ResNet-18, Veilleux et al. 2021"),
    ("BPA + PT+MAP", "mini-imagenet", "balanced", (83.19, 89.56), "WRN-28-10, Shalam and Korman 2024"),
    ("BPA + PT+MAP", "cifar-fs", "balanced", (87.37, 91.12), "WRN-28-10, Shalam and Korman 2024"),
    ("BPA + PT+MAP", "cub", "balanced", (91.90, 94.63), "WRN-28-10, Shalam and Korman 2024"),
)
"""What papers and their public code report on the same classes and kind of tasks, with other networks."""


def published_table(document: dict[str, Any]) -> str:
    """Published accuracies beside ours, 1- / 5-shot; rows that were not measured are left out."""
    body = []
    for name, dataset, protocol, theirs, network in PUBLISHED:
        shots = cells(document, protocol).get(dataset, {})
        if all(name in shots.get(shot, {}) for shot in (1, 5)):
            ours = [shots[shot][name][0] or 0.0 for shot in (1, 5)]
            apart = " / ".join(f"{own - other:+.1f}" for own, other in zip(ours, theirs))
            pair = " / ".join(f"{own:.1f}" for own in ours)
            body.append([name, f"{dataset}, {protocol}", f"{theirs[0]} / {theirs[1]}", network, pair, apart])
    return markdown(["method", "tasks", "published", "with", "here", "apart"], body)


def numbers(document: dict[str, Any], protocols: Sequence[str] = tuple(TITLES)) -> str:
    """Both tables of every protocol, as Markdown."""
    about = (
        f"1-shot / 5-shot, seed {document['seed']}, on novel classes. † takes the classes to be equally frequent. "
        "PADDLE's scale and UNEM's weights were learned on the validation classes of each dataset, for each protocol "
        "and shot. Differences are paired: ± over episodes, in brackets over classes (jackknife). Slow methods see the "
        "first of the episodes."
    )
    parts = [about, strongest_table(document)]
    for protocol in protocols:
        if found := cells(document, protocol):
            counted = episode_counts(cells(document, protocol, "episodes"))
            parts += [f"### {TITLES[protocol]}", counted, accuracy_table(found), difference_table(found)]
        if told := cells(document, protocol, "told"):
            parts += ["Told that the classes are equal:", difference_table(told, "BAPA, told equal")]
        if based := cells(document, protocol, "based"):
            parts += ["Given the base classes' mean and covariance:", difference_table(based, OURS[-1])]
    parts += ["### Beside published numbers", published_table(document)]
    return "\n\n".join(parts)


DRAWN = ("ProtoNet", "CIPA", "PT+MAP", "BAPA")
"""What the picture shows."""


def bars_of_extremes(record: dict[str, Any], shot: int = 5) -> tuple[list[str], dict[str, list[float]]]:
    """Kinds of queries, and the mean accuracy of each method over the datasets, from `benchmarks/extremes.py`: it has
    every kind for every dataset."""
    rows = [row for part in record["sets"] for row in part["rows"] if row["shot"] == shot]
    cases = [case for case in dict.fromkeys(row["case"] for row in rows) if "foreign" not in case and "25" not in case]
    found = {name: [[row["methods"][name] for row in rows if row["case"] == case] for case in cases] for name in DRAWN}
    return cases, {
        name: [sum(one["accuracy"] for one in case) / len(case) for case in of_cases]
        for name, of_cases in found.items()
    }
