"""Results as tables: text, Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress

from rich import box
from rich.console import Console
from rich.table import Table

from protoadapt.core.comparisons import class_interval, compare_runs, paired_difference
from protoadapt.core.errors import count, no_such
from protoadapt.core.results import Record, right_answers
from protoadapt.report.captions import caption, caption_of_runs, origin, run_name
from protoadapt.report.latex import latex_table

Row = Sequence[str]
FORMATS = ("text", "markdown", "csv", "latex")
SPEED = {"seconds": ".2f", "episodes/s": ",.0f"}
PLAIN = {"runs": "d", "episodes/s": ".1f", "p": ".4g", "p Holm": ".4g"}  # the others have four decimals
UNKNOWN = "AUROC unknown"
OVER_CLASSES = "± over classes"
OVER_CLASSES_NOTE = "95 % half-widths of the accuracy and of the difference over the choice of classes (jackknife)"
RUNS_NOTES = (
    "spread: standard deviation of the runs' means",
    "p: over episodes, corrected for the number of methods (Holm)",
)


def measures(results: Sequence[Record], reference: str | None = None) -> list[dict[str, float | None]]:
    """The numbers of a comparison, in percentage points and seconds, one dict per result; None where there is none.

    They hold the paired difference to the result labelled `reference` only where that is among the results.
    """
    other = next((r for r in results if r["label"] == reference), None)
    rows, minus = [], f"minus {reference}"
    for result in results:
        against = other if result is not other else None
        row = {"accuracy": result["accuracy"], "ci95": result["ci95"]}
        if other:
            mean, half = paired_difference(result, against) if against else (None, None)
            row |= {minus: mean, f"{minus} ci95": half}
        if unknown := result.get("unknown_auroc"):
            row |= {UNKNOWN: unknown["mean"], f"{UNKNOWN} ci95": unknown["ci95"]}
        row["classes ci95"] = class_interval(result)
        if other:
            row[f"{minus} classes ci95"] = class_interval(result, against) if against else None
        seconds = result["seconds"]
        rows.append({**row, "seconds": seconds, "episodes/s": result["episodes"] / max(seconds, 1e-9)})
    return rows


def comparison(results: Sequence[Record], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table for people, on methods that were run on the same episodes.

    Columns: method, accuracy, paired difference (where the reference is among the results), half-widths over classes
    (where any result has them), seconds, episodes per second.
    """
    rows, minus = measures(results, reference), f"minus {reference}"
    wide = any(row["classes ci95"] is not None for row in rows)
    table = []
    for result, row in zip(results, rows):
        if result["episodes"] == 1:  # one value has no spread
            row = {name: None if name.endswith("ci95") else value for name, value in row.items()}
        cells = {"method": result["label"], "accuracy": _interval(row["accuracy"], row["ci95"], ".2f")}
        if minus in row:
            cells[minus] = _interval(row[minus], row[f"{minus} ci95"], "+.2f")
        if UNKNOWN in row:
            cells[UNKNOWN] = _interval(row[UNKNOWN], row[f"{UNKNOWN} ci95"], ".2f")
        if wide:
            halves = row["classes ci95"], row.get(f"{minus} classes ci95")
            cells[OVER_CLASSES] = ", ".join(f"± {half:.1f}" for half in halves if half is not None)
        table.append(cells | {name: format(row[name], form) for name, form in SPEED.items()})
    return list(table[0]), [list(cells.values()) for cells in table]


def _interval(mean: float | None, half: float | None, form: str) -> str:
    return "" if mean is None else f"{mean:{form}} ± {half:.2f}" if half is not None else f"{mean:{form}}"


def _plain(row: dict[str, float | None]) -> dict[str, str]:
    """Numbers for a program, empty where there is none."""
    return {name: "" if value is None else format(value, PLAIN.get(name, ".4f")) for name, value in row.items()}


def by_episodes(results: Iterable[Record], key: Callable[[Record], Hashable] | None = None) -> list[list[Record]]:
    """Group results on the same episodes, in order of their first; the same result twice counts once.

    `key` groups by something else.
    """
    groups: dict[Hashable, dict[Hashable, Record]] = {}
    for result in results:
        episodes = _episodes(result)
        same = (result["label"], episodes, right_answers(result).tobytes())
        groups.setdefault(key(result) if key else episodes, {}).setdefault(same, result)
    return [list(group.values()) for group in groups.values()]


def _episodes(result: Record) -> Hashable:
    """What is equal for results on the same episodes."""
    features = result["features"]
    source = str(features.get("hash") or features.get("weights") or "")
    return source, tuple(result["protocol"].items()), result["seed"], result["episodes"]


def text(header: Row, rows: Sequence[Row]) -> str:
    """A table for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=240, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())


def markdown(header: Row, rows: Sequence[Row]) -> str:
    """A table in Markdown; all columns but the first are aligned to the right."""

    def line(cells: Row) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    ruler = "|---|" + "---:|" * (len(header) - 1)
    return "\n".join([line(header), ruler, *(line(row) for row in rows)])


def as_csv(header: Row, rows: Sequence[Mapping[str, str]]) -> str:
    """Rows by column name as comma-separated values."""
    out = io.StringIO()
    table = csv.DictWriter(out, header, restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue().rstrip("\n")


def check_format(form: str) -> None:
    """Raise UserError unless `render` knows the format."""
    if form not in FORMATS:
        raise no_such("table format", form, FORMATS)


def render(results: Sequence[Record], reference: str | None, form: str) -> str:
    """Return one table per set of episodes, each under its caption; in LaTeX all of them side by side.

    `reference` is the label of the result that the others are compared with, `form` one of FORMATS; "csv" has plain
    numbers in columns of their own, "latex" needs booktabs.
    """
    check_format(form)
    groups = by_episodes(results)
    if form == "csv":
        rows = [
            {"measured on": caption(group[0]), "method": result["label"], **_plain(row)}
            for group in groups
            for result, row in zip(group, measures(group, reference))
        ]
        header = max((list(row) for row in rows), key=len)
        return as_csv(header[len(groups) == 1 :], rows)  # of one group, all are measured on the same
    if form == "latex":
        return _latex(groups, reference)
    return "\n\n".join(_captioned(caption(group[0]), *comparison(group, reference), form) for group in groups)


def render_runs(results: Sequence[Record], reference: str | None, form: str) -> str:
    """Return one line per method over several runs: mean, spread over runs, paired difference and its p-value.

    A run is one feature file and one seed, and has every method; see `compare_runs`. The rest is as in `render`.
    """
    check_format(form)
    runs, minus = compare_runs(results, reference), f"minus {reference}"
    if form == "csv":
        names = {"runs": "runs", "accuracy": "accuracy", "ci95": "ci95", "spread": "spread"}
        if reference:
            names |= {"difference": minus, "difference_ci95": f"{minus} ci95", "difference_spread": f"{minus} spread"}
            names |= {"p": "p", "p_holm": "p Holm"}
        rows = [{"method": r["label"], **_plain({name: r.get(key) for key, name in names.items()})} for r in runs]
        return as_csv(["method", *names.values()], rows)
    header = ["method", "accuracy", "spread", *([minus, "p"] if reference else [])]
    table = []
    for r in runs:
        spread = "" if r["spread"] is None else f"{r['spread']:.2f}"
        row = [r["label"], _interval(r["accuracy"], r["ci95"], ".2f"), spread]
        if reference:
            p = "" if "p" not in r else f"{r['p_holm']:.3f}" if r["p_holm"] >= 0.001 else "< 0.001"
            row += [_interval(r.get("difference"), r.get("difference_ci95"), "+.2f"), p]
        table.append(row)
    about, notes = caption_of_runs(results), RUNS_NOTES if reference else RUNS_NOTES[:1]
    if form == "latex":
        return latex_table([(f"mean of {count(runs[0]['runs'], 'run')}", header, table)], "; ".join([about, *notes]))
    return _captioned(about, header, table, form, notes)


def _captioned(about: str, header: Row, rows: Sequence[Row], form: str, notes: Row = ()) -> str:
    """A table below what it was measured on, and above what its columns mean."""
    notes = [*notes, *_over_classes(header)]
    if form == "markdown":
        return "\n\n".join([about, markdown(header, rows), *(["; ".join(notes)] if notes else [])])
    return "\n".join([about, text(header, rows), *(f" {note}" for note in notes)])


def _over_classes(header: Row) -> list[str]:
    """What the column of that name means, where a table has it."""
    return [f"{OVER_CLASSES}: {OVER_CLASSES_NOTE}"] if OVER_CLASSES in header else []


def _latex(groups: Sequence[Sequence[Record]], reference: str | None) -> str:
    """Accuracies and differences without seconds; a group of columns per set of episodes, named by what differs."""
    first = [group[0] for group in groups]
    titles = []
    for r in first:
        p = r["protocol"]
        words = [origin(r["features"]), run_name(r), f"{p['way']}-way", p["kind"], f"M = {p['unlabeled']}"]
        titles.append([*words, f"seed {r['seed']}", f"{p['shot']}-shot"])
    differ = [len(set(words)) > 1 for words in zip(*titles)][:-1] + [True]
    columns = []
    for title, group in zip(titles, groups):
        header, rows = comparison(group, reference)
        rows = [row[: -len(SPEED)] for row in rows]
        columns.append((" ".join(compress(title, differ)), header[: -len(SPEED)], rows))
    shots = " and ".join(dict.fromkeys(f"{r['protocol']['shot']}-" for r in first))
    about = "; ".join(dict.fromkeys(caption(r, shots) for r in first))
    notes = _over_classes([name for _, header, _ in columns for name in header])
    return latex_table(columns, "; ".join([about, *notes]))
