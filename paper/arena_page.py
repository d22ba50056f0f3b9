"""Tables of the arena from its JSON: one per protocol, all methods, all datasets."""

from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

from paper.arena import LEAGUES
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
KNOWING = {
    "BAPA": "knowing nothing of the tasks",
    "BAPA, fitted": "with settings found on validation tasks of the same kind",
    "BAPA, whitened": "knowing how base classes vary",
    "BAPA, sizes given": "that take classes to be equally frequent",
}
"""What the methods of each league know."""
HEADLINES = ("balanced", "Dirichlet(2)", "Dirichlet(0.5)", "5 of 20", "one class")

Rows = dict[str, dict[str, Any]]
"""Method → its numbers."""


def cells(document: dict[str, Any], protocol: str, part: str = "methods") -> dict[str, dict[int, Rows]]:
    """Dataset → shot → method → numbers, or with "episodes" how many each method saw."""
    found: dict[str, dict[int, Rows]] = {}
    for name, measured in document["sets"].items():
        for cell in measured["cells"]:
            if cell["protocol"] == protocol:
                found.setdefault(name, {})[cell["shot"]] = cell[part]
    return found


def _lines(found: dict[str, dict[int, Rows]], names: Sequence[str], entry: Callable[[Rows, str], str]) -> list[Any]:
    """A line per method, a column per dataset, 1- / 5-shot."""
    return [
        [name, *(" / ".join(entry(part, name) for _, part in sorted(shots.items())) for shots in found.values())]
        for name in names
    ]


def _methods(found: dict[str, dict[int, Rows]]) -> list[str]:
    return list(dict.fromkeys(name for shots in found.values() for part in shots.values() for name in part))


def accuracy_table(found: dict[str, dict[int, Rows]]) -> str:
    """Accuracies: a row per method, a column per dataset, 1- / 5-shot."""

    def entry(part: Rows, name: str) -> str:
        if name not in part:
            return "–"
        auroc = part[name].get("auroc")
        return f"{part[name]['accuracy'][0]:.1f}" + (f" ({auroc:.0f})" if auroc is not None else "")

    even = {*LEAGUES["BAPA, sizes given"], "BAPA, sizes given"}
    body = _lines(found, _methods(found), entry)
    return markdown(["method", *found], [[name + (" †" if name in even else ""), *rest] for name, *rest in body])


def difference_table(found: dict[str, dict[int, Rows]], ours: str, rivals: Sequence[str]) -> str:
    """A form of BAPA minus some methods: paired, ± over episodes and (± over classes)."""

    def entry(part: Rows, name: str) -> str:
        if name not in part:
            return "–"
        mean, half, wide = difference(part[name], ours)
        return f"{mean:+.1f} ± {half:.1f}" + ("" if wide is None else f" ({wide:.1f})")

    return markdown([f"{ours} −", *found], _lines(found, [one for one in rivals if one in _methods(found)], entry))


def difference(row: dict[str, Any], ours: str) -> Sequence[Any]:
    """A form of BAPA minus a method: mean, ± over episodes, ± over classes."""
    return row["bapa" if ours == "BAPA" else "peer"]


def league_table(document: dict[str, Any], ours: str) -> str:
    """A form of BAPA minus its strongest rival, per protocol and shot: a column per dataset."""

    def entry(part: Rows) -> str:
        there = [name for name in LEAGUES[ours] if name in part and ours in part]
        if not there:
            return "–"
        name = min(there, key=lambda one: difference(part[one], ours)[0])
        mean, half, _ = difference(part[name], ours)
        return f"{mean:+.1f} ± {half:.1f} {name}"

    body = []
    for protocol in HEADLINES if ours != "BAPA, sizes given" else HEADLINES[:1]:
        found = cells(document, protocol)
        for shot in (1, 5):
            row = [entry(found.get(name, {}).get(shot, {})) for name in document["sets"]]
            body.append([f"{protocol}, {shot}-shot", *row])
    return markdown([f"{ours} − its strongest rival", *document["sets"]], body)


def balance_table(document: dict[str, Any]) -> str:
    """Per rival, over all protocols, datasets and shots: in how many cells BAPA, knowing as much, is ahead, level
    (within the interval over episodes) and behind. Methods that take classes to be even count on balanced tasks."""
    body = []
    for ours, rivals in LEAGUES.items():
        for rival in rivals:
            differences = [
                difference(cell["methods"][rival], ours)
                for measured in document["sets"].values()
                for cell in measured["cells"]
                if {rival, ours} <= cell["methods"].keys()
                and (ours != "BAPA, sizes given" or cell["protocol"] == "balanced")
            ]
            if differences:
                ahead, behind = (sum(side * d > half for d, half, _ in differences) for side in (1, -1))
                counts = [str(count) for count in (ahead, len(differences) - ahead - behind, behind)]
                body.append([ours, rival, *counts, f"{median(d for d, _, _ in differences):+.1f}"])
    return markdown(["form of BAPA", "rival", "ahead", "level", "behind", "median difference"], body)


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
            ours = [shots[shot][name]["accuracy"][0] for shot in (1, 5)]
            apart = " / ".join(f"{own - other:+.1f}" for own, other in zip(ours, theirs))
            pair = " / ".join(f"{own:.1f}" for own in ours)
            body.append([name, f"{dataset}, {protocol}", f"{theirs[0]} / {theirs[1]}", network, pair, apart])
    return markdown(["method", "tasks", "published", "with", "here", "apart"], body)


def numbers(document: dict[str, Any], protocols: Sequence[str] = tuple(TITLES)) -> str:
    """BAPA beside its strongest rival in each league, then the tables of every protocol, as Markdown."""
    about = (
        f"1-shot / 5-shot, seed {document['seed']}, on novel classes. † takes the classes to be equally frequent. "
        "Differences are paired: ± over episodes, in brackets over classes (jackknife). Slow methods see the first of "
        "the episodes."
    )
    if "note" in document:
        about += f" {document['note']}."
    parts = [about, "In how many cells BAPA is ahead of each rival, over all tables below:", balance_table(document)]
    every = {name for one in document["sets"].values() for cell in one["cells"] for name in cell["methods"]}
    leagues = [ours for ours in LEAGUES if ours in every]
    for ours in leagues:
        parts += [f"### Methods {KNOWING[ours]}", league_table(document, ours)]
    for protocol in protocols:
        if not (found := cells(document, protocol)):
            continue
        counted = episode_counts(cells(document, protocol, "episodes"))
        parts += [f"### {TITLES[protocol]}", counted, accuracy_table(found)]
        for ours in leagues:
            if ours != "BAPA, sizes given" or protocol == "balanced":
                parts += [f"Methods {KNOWING[ours]}:", difference_table(found, ours, LEAGUES[ours])]
    parts += ["### Beside published numbers", published_table(document)]
    return "\n\n".join(parts)


DRAWN = ("ProtoNet", "CIPA", "PT+MAP", "BAPA")
"""What the picture shows."""


def bars(document: dict[str, Any], shot: int = 5) -> tuple[list[str], dict[str, list[float]]]:
    """Kinds of queries, and the mean accuracy of each method of DRAWN over the datasets that have them."""
    found = {protocol: cells(document, protocol) for protocol in TITLES if protocol not in ("30 % foreign", "5 of all")}

    def accuracies(protocol: str, name: str) -> list[float]:
        return [shots[shot][name]["accuracy"][0] for shots in found[protocol].values() if shot in shots]

    return [*found], {name: [mean(accuracies(protocol, name)) for protocol in found] for name in DRAWN}
