"""Records of results compared: paired differences of two, and means over the runs of several seeds or features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.results import Record, right_answers
from protoadapt.core.statistics import class_half_width, half_width, holm, mean_over_runs, p_value


def paired_differences(record: Record, reference: Record) -> np.ndarray:
    """Differences in points over the episodes that both records have: the first ones are the same."""
    episodes = min(record["episodes"], reference["episodes"])
    one, other = (right_answers(r)[:episodes] for r in (record, reference))
    return 100 * (one - other) / record["queries"]


def paired_difference(record: Record, reference: Record) -> tuple[float, float]:
    """Mean paired difference in points and its 95 % half-width over episodes."""
    difference = paired_differences(record, reference)
    return float(difference.mean()), half_width(difference)


def class_interval(record: Record, reference: Record | None = None) -> float | None:
    """95 % half-width over classes of the accuracy, or of the paired difference to a reference.

    None where a record has no counts per class, or where the two are of different episodes.
    """
    both = [record, reference] if reference else [record]
    if not all(r.get("classes") for r in both):
        return None
    drawn = [[r["protocol"], r["seed"], r["episodes"], r["classes"]["episodes"]] for r in both]
    if drawn[0] != drawn[-1]:
        return None
    values = [100 / r["queries"] * right_answers(r) for r in both]
    sums = [100 / r["queries"] * np.array(r["classes"]["correct"]) for r in both]
    if reference:
        values, sums = [values[0] - values[1]], [sums[0] - sums[1]]
    return class_half_width(values[0], np.array(record["classes"]["episodes"]), sums[0])


def compare_runs(records: Sequence[Record], reference: str | None = None) -> list[dict[str, Any]]:
    """One summary per method over several runs: seeds, feature files, or both.

    A run is one feature file (by hash) and one seed; every run must have every method. Differences to the reference are
    paired by episode within each run. Their p-values (normal distribution, over the episodes of these runs) are
    adjusted over all methods by Holm's correction (`protoadapt.core.statistics.holm`).

    Parameters
    ----------
    records : sequence of dict
        Records from `Result.to_json` or `read_results`, in any order.
    reference : str, optional
        Label of the method to subtract.

    Returns
    -------
    list of dict
        In order of first appearance: `label`, `runs` (number), `accuracy`, `ci95`, `spread` (standard deviation over
        runs, None for one run); with a reference, for every other method, `difference`, `difference_ci95`,
        `difference_spread`, `p` and `p_holm`.

    Examples
    --------
    >>> records = [r.to_json(**t.about) for t in tables for s in range(3)
    ...            for r in compare(t.features, t.labels, ["protonet", "cipa"], seed=s)]
    >>> compare_runs(records, "protonet")[1]["p_holm"]
    """
    runs: dict[tuple, dict[str, Record]] = {}
    for record in records:
        same_run = runs.setdefault((record["features"].get("hash"), record["seed"]), {})
        if record["label"] in same_run:
            raise UserError(f"{record['label']} has two results with seed {record['seed']} on the same features")
        same_run[record["label"]] = record
    labels = list(dict.fromkeys(record["label"] for record in records))
    if missing := [label for run in runs.values() for label in labels if label not in run]:
        raise UserError(f"{missing[0]} has no result for some run: evaluate every method with every seed and file")
    if reference is not None and reference not in labels:
        raise UserError(f"the reference {reference!r} is not among the methods {', '.join(labels)}")
    summaries = []
    for label in labels:
        own = [run[label] for run in runs.values()]
        mean, width, spread = mean_over_runs([100 * right_answers(r) / r["queries"] for r in own])
        summary = {"label": label, "runs": len(own), "accuracy": mean, "ci95": width, "spread": spread}
        if reference is not None and label != reference:
            differences = [paired_differences(run[label], run[reference]) for run in runs.values()]
            mean, width, spread = mean_over_runs(differences)
            summary |= {"difference": mean, "difference_ci95": width, "difference_spread": spread}
            summary["p"] = p_value(mean, width)
        summaries.append(summary)
    compared = [summary for summary in summaries if "p" in summary]
    for summary, adjusted in zip(compared, holm([summary["p"] for summary in compared])):
        summary["p_holm"] = adjusted
    return summaries
