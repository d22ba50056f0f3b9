"""The rule of `records_plans`, applied to stored results: which candidate is the main row."""

from math import hypot

import numpy as np

from paper.plan import Trial
from paper.records_plans import VALIDATION
from paper.stored_results import NOT_MEASURED, SHOTS, Results
from protoadapt.core.records import class_interval
from protoadapt.report.tables import markdown


def judged(trials: dict[str, Trial], results: Results) -> tuple[float, float] | None:
    """The mean accuracy of a candidate over validation classes, and its 95 % half-width over classes.

    Half-widths over the same classes are averaged, as if their errors were one; those of mini-ImageNet and of CUB are
    independent. None where a result is missing.
    """
    records = {where: [results.get(trial, shot, "cipa") for shot in SHOTS] for where, trial in trials.items()}
    if not all(record for pair in records.values() for record in pair):
        return None
    mean = float(np.mean([record["accuracy"] for pair in records.values() for record in pair if record]))
    widths = {where: [class_interval(record) or 0.0 for record in pair if record] for where, pair in records.items()}
    mini = np.mean(widths["mini-ImageNet"]) / len(trials)
    cub = sum(np.mean(width) for where, width in widths.items() if where != "mini-ImageNet") / len(trials)
    return mean, hypot(mini, cub)


def winner(results: Results) -> str | None:
    """The candidate that the rule chooses, among those with all results."""
    means = {words: judged(trials, results) for words, trials in VALIDATION.items()}
    measured = {words: mean[0] for words, mean in means.items() if mean}
    return max(measured, key=measured.__getitem__) if measured else None


def choice_table(results: Results) -> str:
    """One line per candidate: its accuracies on validation classes, their mean, and the mark of the chosen one."""
    chosen, lines = winner(results), []
    for words, trials in VALIDATION.items():
        cells = []
        for trial in trials.values():
            records = [results.get(trial, shot, "cipa") for shot in SHOTS]
            cells.append(" / ".join(f"{r['accuracy']:.2f}" if r else NOT_MEASURED for r in records))
        mean = judged(trials, results)
        score = f"{mean[0]:.2f} (± {mean[1]:.2f})" if mean else NOT_MEASURED
        lines.append(
            [words, *cells, f"**{score}**" if words == chosen else score, "main row" if words == chosen else ""]
        )
    return markdown(["candidate", *next(iter(VALIDATION.values())), "mean", "chosen"], lines)
