"""The rule of `choice_plans`, applied to stored results: which candidate is chosen."""

from math import sqrt

import numpy as np

from paper.choice_plans import MAIN_METHODS, Choice
from paper.plan import Trial
from paper.stored_results import NOT_MEASURED, SHOTS, Results, accuracy
from protoadapt.core.results import class_interval
from protoadapt.report.tables import markdown


def judged(trials: dict[str, Trial], results: Results) -> tuple[float, float] | None:
    """The mean accuracy of a candidate over validation classes, and its 95 % half-width over classes.

    Half-widths over the classes of one dataset are averaged, as if their errors were one; datasets are independent.
    None where a result is missing.
    """
    records = [(trial.dataset, results.get(trial, shot, "cipa")) for trial in trials.values() for shot in SHOTS]
    if not all(record for _, record in records):
        return None
    mean = float(np.mean([record["accuracy"] for _, record in records if record]))
    widths: dict[str, float] = {}
    for dataset, record in records:
        widths[dataset] = widths.get(dataset, 0) + (class_interval(record) or 0.0 if record else 0.0) / len(records)
    return mean, sqrt(sum(width**2 for width in widths.values()))


def winner(choice: Choice, results: Results) -> str | None:
    """The candidate that the rule chooses, among those with all results."""
    means = {words: judged(choice.trials(run), results) for words, run in choice.candidates.items()}
    measured = {words: mean[0] for words, mean in means.items() if mean}
    return max(measured, key=measured.__getitem__) if measured else None


def choice_table(choice: Choice, results: Results) -> str:
    """One line per candidate: its accuracies on validation classes, their mean, and the mark of the chosen one."""
    chosen, lines = winner(choice, results), []
    for words, run in choice.candidates.items():
        trials, cells = choice.trials(run), []
        for trial in trials.values():
            records = [results.get(trial, shot, "cipa") for shot in SHOTS]
            cells.append(" / ".join(f"{r['accuracy']:.2f}" if r else NOT_MEASURED for r in records))
        mean = judged(trials, results)
        score = f"{mean[0]:.2f} (± {mean[1]:.2f})" if mean else NOT_MEASURED
        mark = "chosen" if words == chosen else ""
        lines.append([words, *cells, f"**{score}**" if mark else score, mark])
    return markdown(["candidate", *choice.where, "mean", ""], lines)


def choice_section(choice: Choice, results: Results) -> list[str]:
    """The table of candidates; where novel classes are measured here, those of the chosen one."""
    parts, chosen = [choice_table(choice, results)], winner(choice, results)
    run = choice.candidates[chosen] if chosen else None
    if not run or not choice.novel_trials(run):
        return parts
    lines = []
    for trial in choice.novel_trials(run):
        found = [[results.get(trial, shot, spec) for shot in SHOTS] for spec in MAIN_METHODS]
        lines.append([str(trial.views), f"{trial.pooling:g}", *(" / ".join(map(accuracy, pair)) for pair in found)])
    seconds = [f"{results.training(one)['seconds']:.0f}" for one in run.cycles if results.training(one)]
    words = f"Novel classes, {chosen}, 1-shot / 5-shot; {' + '.join(seconds)} s of training:"
    return [*parts, words, markdown(["views", "pooling", *MAIN_METHODS], lines)]
