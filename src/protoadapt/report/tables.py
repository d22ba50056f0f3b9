"""Result JSON → tables as text, Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from protoadapt.core.errors import unknown
from protoadapt.core.records import class_interval, paired_difference

Row = Sequence[str]


def comparison(results: Sequence[dict[str, Any]], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """Header and rows: method, accuracy, paired difference to the reference where there is one, half-widths of both had
    the classes been others, speed."""
    reference_result = next((r for r in results if r["label"] == reference), None)
    header = ["method", "accuracy"] + ([f"minus {reference}"] if reference_result else [])
    widths = [_widths(result, reference_result) for result in results]
    told = any(own is not None for own, _ in widths)
    header += ["other classes", "seconds", "episodes/s"] if told else ["seconds", "episodes/s"]
    rows = []
    for result, both in zip(results, widths):
        row = [result["label"], f"{result['accuracy']:.2f} ± {result['ci95']:.2f}"]
        if reference_result:
            row.append(
                ""
                if result is reference_result
                else "{:+.2f} ± {:.2f}".format(*paired_difference(result, reference_result))
            )
        if told:
            row.append(", ".join(f"± {width:.1f}" for width in both if width is not None))
        row += [f"{result['seconds']:.2f}", f"{result['episodes'] / max(result['seconds'], 1e-9):,.0f}"]
        rows.append(row)
    return header, rows


def numbers(results: Sequence[dict[str, Any]], reference: str | None = None) -> tuple[list[str], list[list[str]]]:
    """The same for a program to read: one plain number a column."""
    reference_result = next((r for r in results if r["label"] == reference), None)
    difference = [f"minus {reference}", f"minus {reference} ci95"] if reference_result else []
    classes = ["classes ci95", *([f"minus {reference} classes ci95"] if reference_result else [])]
    rows = []
    for r in results:
        row = [r["label"], f"{r['accuracy']:.4f}", f"{r['ci95']:.4f}"]
        if reference_result:
            row += (
                ["", ""]
                if r is reference_result
                else [f"{value:.4f}" for value in paired_difference(r, reference_result)]
            )
        row += ["" if width is None else f"{width:.4f}" for width in _widths(r, reference_result)[: len(classes)]]
        rows.append([*row, f"{r['seconds']:.4f}", f"{r['episodes'] / max(r['seconds'], 1e-9):.1f}"])
    return ["method", "accuracy", "ci95", *difference, *classes, "seconds", "episodes/s"], rows


def _widths(result: dict[str, Any], reference: dict[str, Any] | None) -> tuple[float | None, float | None]:
    """`class_interval` of the accuracy, and of the difference to a reference that is another result."""
    return class_interval(result), class_interval(result, reference) if reference and reference is not result else None


def dataset(features: Mapping[str, Any]) -> str:
    """What the pictures of features are called: one's own folder by its name."""
    return str(features.get("folder") or features.get("dataset") or "")


def origin(features: Mapping[str, Any]) -> str:
    """The same with the split."""
    return " ".join(filter(None, (dataset(features), str(features.get("split") or ""))))


def caption(result: dict[str, Any]) -> str:
    """What a table was measured on, in one line."""
    p, features = result["protocol"], result.get("features", {})
    queries = {
        "balanced": f"{p['query']} queries a class",
        "dirichlet": f"{result['queries']} queries, Dirichlet({p['alpha']:g})",
        "semi": f"{p['query']} queries and {p['unlabeled']} unlabelled a class",
    }[p["kind"]]
    where = origin(features)
    return (f"{where}: " if where else "") + (
        f"{p['way']}-way {p['shot']}-shot, {queries}, {result['episodes']:,} episodes, seed {result['seed']}, 95 % CI"
    )


def text(header: Row, rows: Sequence[Row]) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=240, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())


def markdown(header: Row, rows: Sequence[Row]) -> str:
    def line(cells: Row) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    ruler = "|---|" + "---:|" * (len(header) - 1)
    return "\n".join([line(header), ruler, *(line(row) for row in rows)])


def as_csv(header: Row, rows: Sequence[Row]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue().rstrip("\n")


def latex(header: Row, rows: Sequence[Row]) -> str:
    body = [" & ".join(map(_latex, row)) + r" \\" for row in rows]
    head = " & ".join(map(_latex, header)) + r" \\"
    columns = "l" + "r" * (len(header) - 1)
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
    )


LATEX = {
    **{sign: "\\" + sign for sign in "_%&#${}"},
    **{"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "−": "$-$"},
}


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)


FORMATS = ("text", "markdown", "csv", "latex")


def check_format(form: str) -> None:
    if form not in FORMATS:
        raise unknown("table format", form, FORMATS)


def render(results: Sequence[dict[str, Any]], reference: str | None, form: str) -> str:
    """The comparison under its caption; as csv, plain numbers in columns of their own."""
    check_format(form)
    if form == "csv":
        return as_csv(*numbers(results, reference))
    about, table = caption(results[0]), comparison(results, reference)
    if "other classes" in table[0]:
        about += "; other classes: half-widths of accuracy and difference had others been drawn"
    if form == "latex":
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(about)}}}", latex(*table), r"\end{table}"]
        return "\n".join(lines)
    return f"{about}\n\n{markdown(*table)}" if form == "markdown" else f"{about}\n{text(*table)}"


def by_task(told: Sequence[Mapping[str, Any]]) -> str:
    """A table of `benchmarks/default_model.py`: a row a task and method, a column a network."""
    models = list(dict.fromkeys(entry["model"] for entry in told))
    cells = {(e["way"], e["shot"], e["method"], e["model"]): f"{e['accuracy']:.2f} ± {e['ci95']:.2f}" for e in told}
    lines = dict.fromkeys((e["way"], e["shot"], e["method"]) for e in told)
    rows = [[f"{w}-way {k}-shot", method, *(cells[w, k, method, model] for model in models)] for w, k, method in lines]
    return markdown(["task", "method", *models], rows)
