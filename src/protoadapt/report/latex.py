"""LaTeX tables with booktabs: groups of columns side by side, the best accuracy in bold."""

from collections.abc import Sequence

ESCAPES = {
    **{sign: "\\" + sign for sign in "_%&#${}"},
    **{"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "−": "$-$"},
}


def escaped(text: str) -> str:
    """Plain text as LaTeX."""
    return "".join(ESCAPES.get(sign, sign) for sign in text)


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
    titles = [escaped(title) for title, _, _ in groups]
    widths = [len(header) - 1 for _, header, _ in groups]
    if max(widths) == 1:
        head = [_line(["method", *titles])]
    else:
        ends = [1 + sum(widths[: i + 1]) for i in range(len(groups))]
        rules = [rf"\cmidrule(lr){{{end - width + 1}-{end}}}" for end, width in zip(ends, widths)]
        spans = [rf"\multicolumn{{{width}}}{{c}}{{{title}}}" for width, title in zip(widths, titles)]
        names = [escaped(name) for _, header, _ in groups for name in header[1:]]
        head = [_line(["", *spans]), " ".join(rules), _line(["method", *names])]
    lines: dict[str, list[str]] = {label: [] for _, _, rows in groups for label, *_ in rows}
    for (_, _, rows), width in zip(groups, widths):
        best = max(float(mean.partition(" ")[0]) for _, mean, *_ in rows)
        cells = {label: _bold_from(best, [*map(escaped, row)]) for label, *row in rows}
        for label, line in lines.items():
            line += cells.get(label, [""] * width)
    body = [_line([escaped(label), *line]) for label, line in lines.items()]
    tabular = [rf"\begin{{tabular}}{{l{'r' * sum(widths)}}}", r"\toprule", *head, r"\midrule", *body, r"\bottomrule"]
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(caption)}}}"]
    return "\n".join([*begin, *tabular, r"\end{tabular}", r"\end{table}"])


def _bold_from(best: float, row: list[str]) -> list[str]:
    """A row whose mean is bold if it is at least `best`."""
    mean, space, half = row[0].partition(" ")
    return [rf"\textbf{{{mean}}}{space}{half}" if float(mean) >= best else row[0], *row[1:]]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
