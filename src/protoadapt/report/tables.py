"""Results as tables: text, Markdown, CSV and LaTeX, and the words on what they were measured on."""

import csv
import io
import shutil
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, compress
from textwrap import wrap
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from protoadapt.core.errors import count, no_such
from protoadapt.core.results import Record, class_interval, compare_runs, paired_difference, right_answers

_Row = Sequence[str]
TABLE_FORMATS = ("text", "markdown", "csv", "latex")
PLAIN = {"runs": "d", "episodes/s": ".1f", "p": ".4g", "p_holm": ".4g"}  # the others have four decimals
_UNKNOWN = "AUROC unknown"
OVER_CLASSES = "± over classes"
OVER_CLASSES_NOTE = "95 % half-widths of the accuracy and of the difference over the choice of classes (jackknife)"
RUNS_NOTES = (
    "spread: standard deviation of the runs' means",
    "p: over episodes, corrected for the number of methods (Holm)",
)
_USUAL = {"crop": "none", "views": 1, "pooling": 1}
ESCAPES = {sign: "\\" + sign for sign in "_%&#${}"}
ESCAPES |= {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "−": "$-$"}


def measures(results: Sequence[Record], reference: str | None = None) -> list[dict[str, float | None]]:
    """The numbers of a comparison, in percentage points and seconds, one dict per result; None where there is none.

    They hold the paired difference to the result labelled `reference` only where that is among the results.
    """
    other = next((r for r in results if r["label"] == reference), None)
    rows = []
    minus = f"minus {reference}"
    for result in results:
        against = other if result is not other else None
        row = {"accuracy": result["accuracy"], "ci95": result["ci95"]}
        if other:
            row[minus], row[f"{minus} ci95"] = paired_difference(result, against) if against else (None, None)
        if unknown := result.get("unknown_auroc"):
            row |= {_UNKNOWN: unknown["mean"], f"{_UNKNOWN} ci95": unknown["ci95"]}
        row["classes ci95"] = class_interval(result)
        if other:
            row[f"{minus} classes ci95"] = class_interval(result, against) if against else None
        seconds = result["seconds"]
        rows.append({**row, "seconds": seconds, "episodes/s": result["episodes"] / max(seconds, 1e-9)})
    return rows


def comparison(results: Sequence[Record], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table for people, on methods that were run on the same episodes.

    Columns: method, accuracy, paired difference (where the reference is among the results), half-widths over classes
    (where any result has them), episodes per second.
    """
    rows = measures(results, reference)
    minus = f"minus {reference}"
    wide = any(row["classes ci95"] is not None for row in rows)
    table = []
    for result, row in zip(results, rows):
        if result["episodes"] == 1:  # one value has no spread
            row = {name: None if name.endswith("ci95") else value for name, value in row.items()}
        cells = {"method": result["label"], "accuracy": _interval(row["accuracy"], row["ci95"])}
        if minus in row:
            cells[minus] = _interval(row[minus], row[f"{minus} ci95"], "+.2f")
        if _UNKNOWN in row:
            cells[_UNKNOWN] = _interval(row[_UNKNOWN], row[f"{_UNKNOWN} ci95"])
        if wide:
            halves = row["classes ci95"], row.get(f"{minus} classes ci95")
            cells[OVER_CLASSES] = ", ".join(f"± {half:.1f}" for half in halves if half is not None)
        table.append(cells | {"episodes/s": f"{row['episodes/s']:,.0f}"})
    return list(table[0]), [list(cells.values()) for cells in table]


def _interval(mean: float | None, half: float | None, form: str = ".2f") -> str:
    return "" if mean is None else f"{mean:{form}} ± {half:.2f}" if half is not None else f"{mean:{form}}"


def by_episodes(results: Iterable[Record]) -> list[list[Record]]:
    """Group results on the same episodes, in order of their first; the same result twice counts once."""
    groups: dict[Hashable, dict[Hashable, Record]] = {}
    for result in results:
        features = result["features"]
        source = str(features.get("hash") or features.get("weights") or "")
        episodes = source, tuple(result["protocol"].items()), result["seed"], result["episodes"]
        same = (result["label"], episodes, right_answers(result).tobytes())
        groups.setdefault(episodes, {}).setdefault(same, result)
    return [list(group.values()) for group in groups.values()]


def text(header: _Row, rows: Sequence[_Row]) -> str:
    """A table for the terminal. Columns that do not fit beside the others follow below, again behind the first."""
    widths = _widths(header, rows)
    blocks = [[0]]
    for i in range(1, len(header)):
        if len(blocks[-1]) > 1 and sum(widths[j] for j in (*blocks[-1], i)) > _columns():
            blocks.append([0])
        blocks[-1].append(i)
    return "\n".join(_block([[row[i] for i in block] for row in (header, *rows)]) for block in blocks)


def _block(rows: Sequence[_Row]) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows[1:]:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=sum(_widths(rows[0], rows)) + 1, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())


def _widths(header: _Row, rows: Sequence[_Row]) -> list[int]:
    """Of the columns with the space between them."""
    return [2 + max(map(cell_len, column)) for column in zip(header, *rows)]


def _columns() -> int:
    """Characters per line of the terminal, 80 where there is none."""
    return shutil.get_terminal_size().columns


def _short_names(header: _Row, rows: Sequence[_Row]) -> tuple[_Row, Sequence[_Row], list[str]]:
    """A table with numbers in place of the methods' settings, if it is too wide, and notes that have the settings."""
    if sum(_widths(header, rows)) <= _columns():
        return header, rows, []
    with_settings = [label for label, *_ in rows if "(" in label]
    short = {label: f"{label.partition('(')[0]} [{i}]" for i, label in enumerate(with_settings, 1)}
    names = short | {f"minus {label}": f"minus {name}" for label, name in short.items()}
    rows = [[names.get(label, label), *cells] for label, *cells in rows]
    notes = [f"[{i}] {label}" for i, label in enumerate(with_settings, 1)]
    return [names.get(name, name) for name in header], rows, notes


def markdown(header: _Row, rows: Sequence[_Row]) -> str:
    """A table in Markdown; all columns but the first are aligned to the right."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---|" + "---:|" * (len(header) - 1), *lines[1:]])


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows by column name as comma-separated values, as plain numbers, empty where there is none."""
    out = io.StringIO()
    table = csv.DictWriter(out, max(rows, key=len), restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow(
            {k: format(v, PLAIN.get(k, ".4f")) if isinstance(v, (float, int)) else v for k, v in row.items()}
        )
    return out.getvalue().rstrip("\n")


def check_format(form: str) -> None:
    """Raise UserError unless `render` knows the format."""
    if form not in TABLE_FORMATS:
        raise no_such("table format", form, TABLE_FORMATS)


def render(results: Sequence[Record], reference: str | None, form: str) -> str:
    """Return one table per set of episodes, each under its caption; in LaTeX all of them side by side.

    `reference` is the label of the result that the others are compared with, `form` one of TABLE_FORMATS; "csv" has
    plain numbers in columns of their own, "latex" needs booktabs.
    """
    groups = by_episodes(results)
    if form == "latex":
        return _latex(groups, reference)
    if form == "csv":
        rows = []
        for group in groups:
            about = {"measured on": caption(group)} if len(groups) > 1 else {}
            rows += [about | {"method": r["label"], **row} for r, row in zip(group, measures(group, reference))]
        return _csv(rows)
    return "\n\n".join(_captioned(caption(group), *comparison(group, reference), form) for group in groups)


def render_runs(results: Sequence[Record], reference: str | None, form: str) -> str:
    """Return one line per method over several runs: mean, spread over runs, paired difference and its p-value.

    A run is one feature file and one seed, and has every method; see `compare_runs`. The rest is as in `render`.
    """
    runs = compare_runs(results, reference)
    minus = f"minus {reference}"
    if form == "csv":
        return _csv([{"method": run.pop("label"), **run} for run in runs])
    header = ["method", "accuracy", "spread", *([minus, "p"] if reference else [])]
    table = []
    for r in runs:
        row = [r["label"], _interval(r["accuracy"], r["ci95"]), _interval(r["spread"], None)]
        if reference:
            p = "" if "p" not in r else f"{r['p_holm']:.3f}" if r["p_holm"] >= 0.001 else "< 0.001"
            row += [_interval(r.get("difference"), r.get("difference_ci95"), "+.2f"), p]
        table.append(row)
    about = caption(results, runs=runs[0]["runs"])
    notes = RUNS_NOTES if reference else RUNS_NOTES[:1]
    if form == "latex":
        return latex_table([(f"mean of {count(runs[0]['runs'], 'run')}", header, table)], "; ".join([about, *notes]))
    return _captioned(about, header, table, form, notes)


def _captioned(about: str, header: _Row, rows: Sequence[_Row], form: str, notes: _Row = ()) -> str:
    """A table below what it was measured on, and above what its columns mean."""
    notes = [*notes, *_over_classes(header)]
    if form == "markdown":
        return "\n\n".join([about, markdown(header, rows), *(["; ".join(notes)] if notes else [])])
    header, rows, settings = _short_names(header, rows)
    lines = [wrap(note, _columns(), initial_indent=" ", subsequent_indent="   ") for note in (*settings, *notes)]
    return "\n".join([*wrap(about, _columns()), text(header, rows), *chain(*lines)])


def _over_classes(header: _Row) -> list[str]:
    """What the column of that name means, where a table has it."""
    return [f"{OVER_CLASSES}: {OVER_CLASSES_NOTE}"] if OVER_CLASSES in header else []


def _latex(groups: Sequence[Sequence[Record]], reference: str | None) -> str:
    """Accuracies and differences without speeds; a group of columns per set of episodes, named by what differs."""
    titles, columns = [], []
    for r, *_ in groups:
        p = r["protocol"]
        words = [origin(r["features"]), run_name(r), f"{p['way']}-way", p["kind"], f"M = {p['unlabeled']}"]
        titles.append([*words, f"seed {r['seed']}", f"{p['shot']}-shot"])
    differ = [len(set(words)) > 1 for words in zip(*titles)][:-1] + [True]
    for title, group in zip(titles, groups):
        header, rows = comparison(group, reference)
        columns.append((" ".join(compress(title, differ)), header[:-1], [row[:-1] for row in rows]))
    shots = " and ".join(dict.fromkeys(f"{group[0]['protocol']['shot']}-" for group in groups))
    about = dict.fromkeys(caption(group, shots) for group in groups)
    names = [name for _, header, _ in columns for name in header]
    return latex_table(columns, "; ".join([*about, *_over_classes(names)]))


def latex_table(groups: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]], caption: str) -> str:
    r"""Return a `table` environment, to be compiled with `\usepackage{booktabs}`.

    `groups` are set side by side: (title, header, rows). The first cell of a row is its label, and rows with the same
    label share a line; the second is "mean ± half-width", and the highest mean is bold.

    >>> print(latex_table([("1-shot", ["method", "accuracy"], [["cipa", "86.17 ± 0.20"]])], "CIFAR-FS"))
    \begin{table}
    \centering
    \caption{CIFAR-FS}
    \begin{tabular}{lr}
    \toprule
    method & 1-shot \\
    \midrule
    cipa & \textbf{86.17} $\pm$ 0.20 \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    titles = [_escaped(title) for title, _, _ in groups]
    widths = [len(header) - 1 for _, header, _ in groups]
    if max(widths) == 1:
        head = [_line(["method", *titles])]
    else:
        ends = [1 + sum(widths[: i + 1]) for i in range(len(groups))]
        rules = [rf"\cmidrule(lr){{{end - width + 1}-{end}}}" for end, width in zip(ends, widths)]
        spans = [rf"\multicolumn{{{width}}}{{c}}{{{title}}}" for width, title in zip(widths, titles)]
        names = [_escaped(name) for _, header, _ in groups for name in header[1:]]
        head = [_line(["", *spans]), " ".join(rules), _line(["method", *names])]
    lines: dict[str, list[str]] = {label: [] for _, _, rows in groups for label, *_ in rows}
    for (_, _, rows), width in zip(groups, widths):
        best = max(float(mean.partition(" ")[0]) for _, mean, *_ in rows)
        cells = {}
        for label, *row in rows:
            mean, space, half = row[0].partition(" ")
            mean = rf"\textbf{{{mean}}}" if float(mean) >= best else mean
            cells[label] = [f"{mean}{space}{_escaped(half)}", *map(_escaped, row[1:])]
        for label, line in lines.items():
            line += cells.get(label, [""] * width)
    body = [_line([_escaped(label), *line]) for label, line in lines.items()]
    tabular = [rf"\begin{{tabular}}{{l{'r' * sum(widths)}}}", r"\toprule", *head, r"\midrule", *body, r"\bottomrule"]
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(caption)}}}"]
    return "\n".join([*begin, *tabular, r"\end{tabular}", r"\end{table}"])


def _escaped(text: str) -> str:
    return "".join(ESCAPES.get(sign, sign) for sign in text)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def dataset(features: Mapping[str, Any]) -> str:
    """The name of the data that features come from: a folder of one's own by its name."""
    return str(features.get("folder") or features.get("dataset") or "")


def origin(features: Mapping[str, Any]) -> str:
    """The same with the split."""
    return " ".join(filter(None, (dataset(features), str(features.get("split") or ""))))


def caption(results: Sequence[Mapping[str, Any]], shots: str = "", runs: int = 1) -> str:
    """What a table was measured on, in one line; `shots` such as "1- and 5-" where it holds several."""
    data = ", ".join(filter(None, dict.fromkeys(origin(result["features"]) for result in results)))
    words = (f"{data}: " if data else "") + _protocol(results[0], shots)
    return f"{words} per run, 95 % CI; {runs} runs" if runs > 1 else f"{words}, seed {results[0]['seed']}, 95 % CI"


def _protocol(result: Mapping[str, Any], shots: str = "") -> str:
    p = result["protocol"]
    queries = {
        "balanced": f"{p['query']} queries per class",
        "dirichlet": f"{result['queries']} queries, Dirichlet({p['alpha']:g})",
        "semi": f"{p['query']} queries and {p['unlabeled']} unlabelled per class",
        "present": f"{result['queries']} queries of {p['present']} classes",
        "one-class": f"{result['queries']} queries of one class",
        "few": count(result["queries"], "query", "queries"),
        "open": f"{p['query']} queries per class, {100 * p['foreign']:g} % of all queries of other classes",
    }[p["kind"]]
    queries += f", {p['distractors']} distractor classes" if p["distractors"] else ""
    return f"{p['way']}-way {shots or str(p['shot']) + '-'}shot, {queries}, {count(result['episodes'], 'episode')}"


def run_name(result: Mapping[str, Any]) -> str:
    """The name of an embedding: its training run, else its weights or its features."""
    features = result["features"]
    return str(_run(result) or features.get("weights") or features.get("hash") or "features")


def _run(result: Mapping[str, Any]) -> object:
    return (result.get("training") or {}).get("run")


def embedding(result: Mapping[str, Any]) -> str:
    """Network, training run, weights, and whatever is unusual about crop, views and pooling."""
    features = result["features"]
    run = _run(result)
    parts = [
        features.get("backbone"),
        f"run {run}" if run else None,
        f"weights {features['weights']}" if features.get("weights") else None,
        *(
            f"{key} {value}"
            for key, usual in _USUAL.items()
            if (value := features.get(key, usual)) not in (usual, None)
        ),
    ]
    return ", ".join(str(part) for part in parts if part)
