"""Tables of differences: between two trials on the same episodes, and between a row and the paper's."""

from paper.cub_plans import FULL, SMALL_FILES
from paper.plan import Table
from paper.stored_results import NOT_MEASURED, SHOTS, Results
from protoadapt.core.results import Record, class_interval, paired_difference
from protoadapt.report.tables import markdown


def differences_table(table: Table, results: Results) -> str:
    """One line per difference: the paper's and ours, at each number of shots."""
    header = ["difference", "network or pictures"]
    for shot in SHOTS:
        header += [f"{shot}-shot: paper", "here"]
    lines = []
    for difference in table.differences:
        cells = [*difference.words]
        for shot, paper in zip(SHOTS, difference.paper):
            one, other = (results.get(trial, shot, spec) for trial, spec in (difference.one, difference.other))
            cells += [f"{paper:+.2f}" if paper is not None else "", paired(one, other)]
        lines.append(cells)
    return markdown(header, lines)


def paired(one: Record | None, other: Record | None) -> str:
    """The difference of two records with its half-widths over episodes and, where known, over classes."""
    if not one or not other:
        return NOT_MEASURED
    over_classes = class_interval(one, other)
    classes = f" (± {over_classes:.2f})" if over_classes is not None else ""
    return "{:+.2f} ± {:.2f}".format(*paired_difference(one, other)) + classes


def small_files_note(results: Results) -> list[str]:
    """What stands beside the mini-ImageNet rows: the size of their files, and what such files cost on CUB."""
    costs = []
    for words, files in SMALL_FILES.items():
        pairs = [
            [results.get(files[key], shot, "cipa") for key in ((FULL, FULL), ("84 px", "84 px"))] for shot in SHOTS
        ]
        points = [f"{full['accuracy'] - small['accuracy']:.1f}" for full, small in pairs if full and small]
        if len(points) == len(SHOTS):
            costs.append(f"{' / '.join(points)} points on {words}")
    if not costs:
        return []
    return [
        "mini-ImageNet's pictures are JPEG files of 84 × 84 pixels here; the best published results use full-size "
        f"files. On CUB, where both can be had, training and testing on such small files costs {' and '.join(costs)} "
        "(1-shot / 5-shot, CIPA, the same episodes; see “What small files cost”). What they cost on mini-ImageNet is "
        "not measured."
    ]
