"""Methods over several runs (seeds, feature files) in one table, with p-values corrected for multiple comparisons."""

from collections.abc import Sequence
from typing import Any

from protoadapt.core.errors import count
from protoadapt.core.records import Record, compare_runs
from protoadapt.report.captions import caption, origin
from protoadapt.report.latex import Columns, latex_table
from protoadapt.report.tables import as_csv, check_format, markdown, text

NOTE = "spread: standard deviation of the runs' means; p: over episodes, corrected for the number of methods (Holm)"


def render_runs(records: Sequence[Record], reference: str | None, form: str) -> str:
    """Return one line per method: its mean over all runs, the spread over runs, the paired difference and its p-value.

    Parameters
    ----------
    records : result JSON, every method on every run; a run is one feature file and one seed.
    reference : label of the method that the others are compared with, or None.
    form : "text", "markdown", "csv" (plain numbers in columns of their own) or "latex" (booktabs).
    """
    check_format(form)
    lines = compare_runs(records, reference)
    if form == "csv":
        return as_csv(*_numbers(lines, reference))
    header = ["method", "accuracy", "spread", *([f"minus {reference}", "p"] if reference else [])]
    rows = [[line["label"], *_cells(line, reference)] for line in lines]
    if form == "latex":
        highest = max(round(line["accuracy"], 2) for line in lines)
        best = {line["label"] for line in lines if round(line["accuracy"], 2) == highest}
        columns = Columns(
            f"mean of {count(lines[0]['runs'], 'run')}", header[1:], {label: cells for label, *cells in rows}, best
        )
        return latex_table([columns], _caption(records, lines))
    table = markdown(header, rows) if form == "markdown" else text(header, rows)
    return _caption(records, lines) + ("\n\n" if form == "markdown" else "\n") + table


def _caption(records: Sequence[Record], lines: Sequence[dict[str, Any]]) -> str:
    files = len({record["features"].get("hash") for record in records})
    seeds = list(dict.fromkeys(record["seed"] for record in records))
    sources = ", ".join(filter(None, dict.fromkeys(origin(record["features"]) for record in records)))
    setting = caption({**records[0], "features": {}}).replace(f" episodes, seed {seeds[0]}", " episodes per run")
    runs = f"{count(lines[0]['runs'], 'run')}: {count(files, 'feature file')} × {count(len(seeds), 'seed')}"
    return f"{sources + ': ' if sources else ''}{setting}; {runs}; {NOTE}"


def _cells(line: dict[str, Any], reference: str | None) -> list[str]:
    cells = [f"{line['accuracy']:.2f} ± {line['ci95']:.2f}", _or_empty(line["spread"], ".2f")]
    if reference and "p" in line:
        cells += [
            f"{line['difference']:+.2f} ± {line['difference_ci95']:.2f}",
            f"{line['p_holm']:.3f}" if line["p_holm"] >= 0.001 else "< 0.001",
        ]
    return cells + ["", ""] if reference and "p" not in line else cells


def _numbers(lines: Sequence[dict[str, Any]], reference: str | None) -> tuple[list[str], list[list[str]]]:
    names = {"accuracy": "accuracy", "ci95": "ci95", "spread": "spread"}
    if reference:
        minus = f"minus {reference}"
        names |= {"difference": minus, "difference_ci95": f"{minus} ci95", "difference_spread": f"{minus} spread"}
    rows = []
    for line in lines:
        row = [line["label"], str(line["runs"]), *(_or_empty(line.get(name), ".4f") for name in names)]
        rows.append([*row, *(_or_empty(line.get(name), ".4g") for name in ("p", "p_holm") if reference)])
    return ["method", "runs", *names.values(), *(["p", "p Holm"] if reference else [])], rows


def _or_empty(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
