"""Of the arena's numbers: in how many cells BAPA is ahead of each rival, level with it and behind."""

from collections.abc import Sequence
from statistics import median

from paper.arena import BASED, EVEN, FITTED, OURS, QUICK, SLOW, TOLD_EQUAL, Row
from protoadapt.report.tables import markdown

COLUMNS = {
    "balanced": ("balanced",),
    "Dirichlet(2)": ("Dirichlet(2)",),
    "Dirichlet(0.5)": ("Dirichlet(0.5)",),
    "few of many": ("5 of 20", "5 of all"),
    "one class": ("one class",),
    "few queries": ("1 query", "3 queries", "10 queries"),
    "foreign 30 %": ("30 % foreign",),
    "5 of 30": ("25 + 5 foreign",),
    "25 of 30": ("5 + 25 foreign",),
}
RIVALS = [one for one in (*QUICK, *FITTED, *SLOW) if one not in (OURS, TOLD_EQUAL)]


def balance_table(rows: Sequence[Row]) -> str:
    """A line per rival, a column per kind of queries: cells in which BAPA is ahead, level (within the interval over
    tasks) and behind; at the end the median difference."""

    def line(words: str, chosen: Sequence[Row]) -> list[str]:
        counts = []
        for protocols in COLUMNS.values():
            there = [one for one in chosen if one.cell.split("/")[1] in protocols]
            ahead, behind = (sum(side * one.difference > one.difference_interval for one in there) for side in (1, -1))
            counts.append(f"{ahead}·{len(there) - ahead - behind}·{behind}" if there else "")
        return [words, *counts, f"{median(one.difference for one in chosen):+.1f}" if chosen else ""]

    plain = [one for one in rows if one.cell.endswith("/plain")]
    whitened = [one for one in rows if one.cell.endswith("/whitened") and one.against == OURS]
    groups = {rival: [one for one in plain if (one.method, one.against) == (rival, OURS)] for rival in RIVALS}
    groups |= {f"{one}, sizes given": [r for r in plain if (r.method, r.against) == (one, TOLD_EQUAL)] for one in EVEN}
    groups[BASED] = [one for one in whitened if one.method == BASED]
    groups["others, whitened"] = [one for one in whitened if one.method in RIVALS]
    return markdown(["rival", *COLUMNS, "median"], [line(words, some) for words, some in groups.items()])


def numbers(rows: Sequence[Row]) -> str:
    """The table, and of how many tasks it is, as Markdown."""
    if not rows:
        return "Not measured yet."
    sets, cells = {one.cell.split("/")[0] for one in rows}, {one.cell for one in rows}
    counts = sorted({one.episodes for one in rows})
    words = f"{len(cells)} cells of {len(sets)} sets, {' or '.join(f'{one:,}' for one in counts)} tasks each."
    return f"{balance_table(rows)}\n\n{words}"
