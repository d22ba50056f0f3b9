"""Record JSON as tables: text, Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from protoadapt.core.errors import unknown
from protoadapt.core.records import Record, class_interval, paired_difference, right_answers
from protoadapt.report.captions import caption, origin, run_name
from protoadapt.report.latex import Columns, latex_table

Row = Sequence[str]
FORMATS = ("text", "markdown", "csv", "latex")
OVER_CLASSES = "± over classes"
OVER_CLASSES_NOTE = "95 % half-widths of the accuracy and of the difference over the choice of classes (jackknife)"


class Measure(NamedTuple):
    """One line of a comparison, in percentage points and seconds; None where it cannot be computed."""

    label: str
    accuracy: float
    ci95: float
    difference: tuple[float, float] | None  # to the reference, with its half-width
    classes: float | None  # half-width over the choice of classes
    difference_classes: float | None
    seconds: float
    rate: float


def measures(results: Sequence[Record], reference: str | None = None) -> list[Measure]:
    """Accuracy of each result and its paired difference to the result labelled `reference`, with both intervals."""
    other = next((r for r in results if r["label"] == reference), None)
    lines = []
    for r in results:
        against = other if r is not other else None
        difference = (paired_difference(r, against), class_interval(r, against)) if against else (None, None)
        speed = (r["seconds"], r["episodes"] / max(r["seconds"], 1e-9))
        lines.append(
            Measure(r["label"], r["accuracy"], r["ci95"], difference[0], class_interval(r), difference[1], *speed)
        )
    return lines


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
    lines = measures(results, reference)
    compared = any(r["label"] == reference for r in results)
    wide = any(line.classes is not None for line in lines)
    header = ["method", "accuracy", *([f"minus {reference}"] if compared else []), *([OVER_CLASSES] if wide else [])]
    rows = []
    for line in lines:
        row = [line.label, f"{line.accuracy:.2f} ± {line.ci95:.2f}"]
        row += ["{:+.2f} ± {:.2f}".format(*line.difference) if line.difference else ""] if compared else []
        widths = (line.classes, line.difference_classes)
        row += [", ".join(f"± {width:.1f}" for width in widths if width is not None)] if wide else []
        rows.append([*row, f"{line.seconds:.2f}", f"{line.rate:,.0f}"])
    return [*header, "seconds", "episodes/s"], rows


def numbers(results: Sequence[Record], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The same for a program: one plain number per column, empty where there is none."""
    compared = any(r["label"] == reference for r in results)
    minus = f"minus {reference}"
    header = ["method", "accuracy", "ci95", *([minus, f"{minus} ci95"] if compared else []), "classes ci95"]
    header += [f"{minus} classes ci95"] if compared else []
    rows = []
    for line in measures(results, reference):
        values = [line.accuracy, line.ci95, *((line.difference or (None, None)) if compared else ()), line.classes]
        values += [line.difference_classes] if compared else []
        cells = ["" if value is None else f"{value:.4f}" for value in (*values, line.seconds)]
        rows.append([line.label, *cells, f"{line.rate:.1f}"])
    return [*header, "seconds", "episodes/s"], rows


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
        raise unknown("table format", form, FORMATS)


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
    columns = []
    for title, group in zip(map(" ".join, zip(*apart)), groups):
        header, rows = comparison(group, reference)
        highest = max(round(r["accuracy"], 2) for r in group)
        best = {r["label"] for r in group if round(r["accuracy"], 2) == highest}
        columns.append(Columns(title, header[1:-2], {label: cells[:-2] for label, *cells in rows}, best))
    shots = dict.fromkeys(f"{r['protocol']['shot']}-" for r in first)
    about = "; ".join(dict.fromkeys(caption(r, " and ".join(shots)) for r in first))
    about += f"; {OVER_CLASSES}: {OVER_CLASSES_NOTE}" if any(OVER_CLASSES in c.header for c in columns) else ""
    return latex_table(columns, about)
