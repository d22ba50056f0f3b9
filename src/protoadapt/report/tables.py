"""Record JSON as tables: text, Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from protoadapt.core.errors import no_such
from protoadapt.core.records import Record, class_interval, paired_difference, right_answers
from protoadapt.report.captions import caption, origin, run_name
from protoadapt.report.latex import Columns, latex_table

Row = Sequence[str]
FORMATS = ("text", "markdown", "csv", "latex")
SPEED = {"seconds": ".2f", "episodes/s": ",.0f"}
OVER_CLASSES = "± over classes"
OVER_CLASSES_NOTE = "95 % half-widths of the accuracy and of the difference over the choice of classes (jackknife)"


def columns(results: Sequence[Record], reference: str | None = None) -> dict[str, list[float | None]]:
    """Return the numbers of a comparison by column, in percentage points and seconds; None where there is none.

    The paired difference to the result labelled `reference` has columns only where that is among the results.
    """
    other = next((r for r in results if r["label"] == reference), None)
    compared = [(r, other if r is not other else None) for r in results]
    differences = [paired_difference(r, against) if against else (None, None) for r, against in compared]
    minus, seconds = f"minus {reference}", [r["seconds"] for r in results]
    table = {key: [r[key] for r in results] for key in ("accuracy", "ci95")}
    if other:
        table |= {minus: [mean for mean, _ in differences], f"{minus} ci95": [half for _, half in differences]}
    table["classes ci95"] = [class_interval(r) for r in results]
    if other:
        table[f"{minus} classes ci95"] = [class_interval(r, against) if against else None for r, against in compared]
    return {**table, "seconds": seconds, "episodes/s": [r["episodes"] / max(r["seconds"], 1e-9) for r in results]}


def comparison(results: Sequence[Record], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table for people.

    Parameters
    ----------
    results : result JSON of methods on the same episodes.
    reference : label of the result that the others are compared with; no such column where it is not among them.

    Returns
    -------
    Columns: method, accuracy, paired difference, half-widths over classes (where any result has them), seconds,
    episodes per second.
    """
    table, minus, n = columns(results, reference), f"minus {reference}", len(results)
    widths = list(zip(table["classes ci95"], table.get(f"{minus} classes ci95", [None] * n)))
    out = {"method": [r["label"] for r in results], "accuracy": _with_half_width(table, "accuracy", "ci95", ".2f")}
    if minus in table:
        out[minus] = _with_half_width(table, minus, f"{minus} ci95", "+.2f")
    if any(own is not None for own, _ in widths):
        out[OVER_CLASSES] = [", ".join(f"± {width:.1f}" for width in both if width is not None) for both in widths]
    out |= {name: [format(value, form) for value in table[name]] for name, form in SPEED.items()}
    return list(out), [list(row) for row in zip(*out.values())]


def _with_half_width(table: dict[str, list[float | None]], mean: str, half: str, form: str) -> list[str]:
    return ["" if m is None else f"{m:{form}} ± {h:.2f}" for m, h in zip(table[mean], table[half])]


def numbers(results: Sequence[Record], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The same for a program: one plain number per column, empty where there is none."""
    table = columns(results, reference)
    rows = zip(*([_plain(value, name) for value in values] for name, values in table.items()))
    return ["method", *table], [[r["label"], *row] for r, row in zip(results, rows)]


def _plain(value: float | None, name: str) -> str:
    return "" if value is None else f"{value:.1f}" if name == "episodes/s" else f"{value:.4f}"


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


def as_csv(header: Row, rows: Sequence[Row]) -> str:
    """A table as comma-separated values."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue().rstrip("\n")


def check_format(form: str) -> None:
    """Raise UserError unless `render` knows the format."""
    if form not in FORMATS:
        raise no_such("table format", form, FORMATS)


def render(results: Sequence[Record], reference: str | None, form: str) -> str:
    """Return one table per set of episodes, each under its caption; in LaTeX all of them side by side.

    Parameters
    ----------
    results : result JSON.
    reference : label of the result that the others are compared with, or None.
    form : "text", "markdown", "csv" (plain numbers in columns of their own) or "latex" (booktabs).
    """
    check_format(form)
    groups = by_episodes(results)
    if form == "latex":
        return _latex(groups, reference)
    if form == "csv":
        tables = [numbers(group, reference) for group in groups]
        if len(groups) == 1:
            return as_csv(*tables[0])
        header = ["measured on", *max((header for header, _ in tables), key=len)]
        rows = [
            dict(zip(own, row)) | {"measured on": caption(g[0])}
            for g, (own, rows) in zip(groups, tables)
            for row in rows
        ]
        return as_csv(header, [[row.get(name, "") for name in header] for row in rows])
    parts = []
    for group in groups:
        about, table = caption(group[0]), comparison(group, reference)
        about += f"; {OVER_CLASSES}: {OVER_CLASSES_NOTE}" if OVER_CLASSES in table[0] else ""
        parts.append(f"{about}\n\n{markdown(*table)}" if form == "markdown" else f"{about}\n{text(*table)}")
    return "\n\n".join(parts)


def _latex(groups: Sequence[Sequence[Record]], reference: str | None) -> str:
    """Accuracies and differences without seconds; a group of columns per set of episodes, named by what differs."""
    first = [group[0] for group in groups]
    parts = [
        [origin(r["features"]) for r in first],
        [run_name(r) for r in first],
        [f"{r['protocol']['way']}-way" for r in first],
        [r["protocol"]["kind"] for r in first],
        [f"M = {r['protocol']['unlabeled']}" for r in first],
        [f"seed {r['seed']}" for r in first],
    ]
    apart = [part for part in parts if len(set(part)) > 1] + [[f"{r['protocol']['shot']}-shot" for r in first]]
    side_by_side = []
    for title, group in zip(map(" ".join, zip(*apart)), groups):
        header, rows = comparison(group, reference)
        highest = max(round(r["accuracy"], 2) for r in group)
        best = {r["label"] for r in group if round(r["accuracy"], 2) == highest}
        side_by_side.append(Columns(title, header[1:-2], {label: cells[:-2] for label, *cells in rows}, best))
    shots = dict.fromkeys(f"{r['protocol']['shot']}-" for r in first)
    about = "; ".join(dict.fromkeys(caption(r, " and ".join(shots)) for r in first))
    about += f"; {OVER_CLASSES}: {OVER_CLASSES_NOTE}" if any(OVER_CLASSES in c.header for c in side_by_side) else ""
    return latex_table(side_by_side, about)
