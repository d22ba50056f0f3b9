"""LaTeX tables with booktabs: groups of columns side by side, the best accuracy in bold."""

from collections.abc import Sequence
from typing import NamedTuple

ESCAPES = {
    **{sign: "\\" + sign for sign in "_%&#${}"},
    **{"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "−": "$-$"},
}


class Columns(NamedTuple):
    """A group of columns: lines with the same label are set on one line of the table."""

    title: str
    header: Sequence[str]
    rows: dict[str, Sequence[str]]  # by label; the first cell is "mean ± half-width"
    best: set[str]  # labels whose mean is bold


def escaped(text: str) -> str:
    """Plain text as LaTeX."""
    return "".join(ESCAPES.get(sign, sign) for sign in text)


def latex_table(groups: Sequence[Columns], caption: str) -> str:
    r"""Return a `table` environment, to be compiled with `\usepackage{booktabs}`.

    >>> print(latex_table([Columns("1-shot", ["accuracy"], {"cipa": ["86.17 ± 0.20"]}, {"cipa"})], "CIFAR-FS"))
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
    widths = [len(group.header) for group in groups]
    starts = [2 + sum(widths[:i]) for i in range(len(groups))]
    if max(widths) == 1:
        head = [_line(["method", *(escaped(group.title) for group in groups)])]
    else:
        titles = [rf"\multicolumn{{{w}}}{{c}}{{{escaped(group.title)}}}" for w, group in zip(widths, groups)]
        rules = " ".join(rf"\cmidrule(lr){{{start}-{start + w - 1}}}" for start, w in zip(starts, widths))
        head = [_line(["", *titles]), rules]
        head += [_line(["method", *(escaped(name) for group in groups for name in group.header)])]
    body = []
    for label in dict.fromkeys(label for group in groups for label in group.rows):
        cells = []
        for group in groups:
            mean, *rest = map(escaped, group.rows.get(label, [""] * len(group.header)))
            number, sign, half = mean.partition(" ")
            cells += [rf"\textbf{{{number}}}{sign}{half}" if label in group.best else mean, *rest]
        body.append(_line([escaped(label), *cells]))
    tabular = [rf"\begin{{tabular}}{{l{'r' * sum(widths)}}}", r"\toprule", *head, r"\midrule", *body, r"\bottomrule"]
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(caption)}}}"]
    return "\n".join([*begin, *tabular, r"\end{tabular}", r"\end{table}"])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
