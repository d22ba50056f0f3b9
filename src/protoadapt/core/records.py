"""Results of evaluations: in memory (`Result`), as JSON records, read back and compared.

A record is the JSON form of one result; `protoadapt.core.packing` says how files hold it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from protoadapt.core.errors import UserError
from protoadapt.core.methods import Method
from protoadapt.core.packing import Record, numbers, pack, records_of, right_answers
from protoadapt.core.packing import together as together  # public here too
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.core.provenance import provenance
from protoadapt.core.statistics import class_half_width, half_width, holm, mean_over_runs, p_value
from protoadapt.core.untrusted import finite, whole

SCHEMA = "protoadapt-result/2"
SCHEMAS = (SCHEMA, "protoadapt-result/1")  # that are read
LARGEST = 1e12
"""Of seconds and widths in a file: beyond it a chart has no scale."""


@dataclass(frozen=True)
class Result:
    """One method on one sequence of episodes."""

    method: Method
    protocol: Protocol
    seed: int
    correct: np.ndarray  # (E,) right answers in each episode
    queries: int  # per episode, foreign ones not counted
    seconds: float  # wall time including sampling, after one episode of warm-up
    device: str
    class_episodes: np.ndarray  # (C,) episodes that contain each class
    class_correct: np.ndarray  # (C,) right answers in these
    unknown_auroc: np.ndarray | None = None  # (E,) of telling foreign queries by their largest probability; "open" only

    @property
    def accuracies(self) -> np.ndarray:
        """(E,) in percent."""
        return 100 * self.correct / self.queries

    @property
    def accuracy(self) -> float:
        """Mean over episodes in percent."""
        return float(self.accuracies.mean())

    @property
    def ci95(self) -> float:
        """95 % half-width over episodes."""
        return half_width(self.accuracies)

    @property
    def ci95_classes(self) -> float | None:
        """95 % half-width over classes (`class_half_width`); None where every episode has all classes."""
        return class_half_width(self.accuracies, self.class_episodes, 100 * self.class_correct / self.queries)

    def minus(self, reference: "Result") -> tuple[float, float]:
        """Paired difference to a result on the same episodes, in points, and its 95 % half-width over episodes."""
        difference = self._difference(reference)
        return float(difference.mean()), half_width(difference)

    def minus_classes(self, reference: "Result") -> float | None:
        """95 % half-width of the same difference over classes."""
        sums = 100 * (self.class_correct - reference.class_correct) / self.queries
        return class_half_width(self._difference(reference), self.class_episodes, sums)

    def _difference(self, reference: "Result") -> np.ndarray:
        one, other = (
            (len(r.correct), r.queries, r.seed, r.protocol, r.class_episodes.tolist()) for r in (self, reference)
        )
        if one != other:
            raise UserError("the results are not of the same episodes: evaluate both with one seed and protocol")
        return self.accuracies - reference.accuracies

    @property
    def _unknown(self) -> Record:
        """Mean and 95 % half-width over episodes of the AUROC, in percent, where there are foreign queries."""
        if self.unknown_auroc is None:
            return {}
        percent = 100 * self.unknown_auroc
        return {"unknown_auroc": {"mean": round(float(percent.mean()), 4), "ci95": round(half_width(percent), 4)}}

    def to_json(self, /, **features: Any) -> Record:
        """The record of this result: a plain dict that json.dumps accepts.

        Parameters
        ----------
        **features
            What is known of the features (hash, dataset, views, …), for example `**table.about`.

        Examples
        --------
        >>> record = evaluate(table.features, table.labels).to_json(**table.about)
        >>> right_answers(record).mean() / record["queries"]
        """
        over_classes = self.ci95_classes
        return {
            "schema": SCHEMA,
            "method": self.method.name,
            "label": self.method.label,
            "arguments": {name: _plain(value) for name, value in self.method.settings.items()},
            "protocol": asdict(self.protocol),
            "seed": int(self.seed),
            "features": features,
            "accuracy": round(self.accuracy, 4),
            "ci95": round(self.ci95, 4),
            "episodes": len(self.correct),
            "queries": int(self.queries),
            "seconds": round(self.seconds, 4),
            "correct": pack(self.correct),
            "classes": {
                "ci95": None if over_classes is None else round(over_classes, 4),
                "episodes": self.class_episodes.tolist(),
                "correct": self.class_correct.tolist(),
            },
            **self._unknown,
            **provenance(self.device),
        }


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (Tensor, np.ndarray, np.generic)) else value


def read_results(document: Record) -> list[Record]:
    """The records of a JSON document, checked: one record, or {"results": [record, …]}.

    The one way in for result files: files are not trusted, so every number is recomputed from the right answers.

    Parameters
    ----------
    document : dict
        Parsed JSON, of today's schema or an older one.

    Returns
    -------
    list of dict
        Records, each with what it shares with the others, and with the document's `reference` and `training`. Read the
        right answers of one with `right_answers(record)`.

    Examples
    --------
    >>> records = read_results(json.loads(Path("r.json").read_text()))
    >>> paired_difference(records[1], records[0])
    """
    records = document.get("results", [document] if "correct" in document else [])
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UserError("its 'results' is not a list of results: write it again with --json")
    about = {key: document[key] for key in ("reference", "training") if document.get(key)}
    return [_checked({**about, **record}) for record in records_of({**document, "results": records})]


def _checked(record: Record) -> Record:
    valid = {
        **{key: finite(record.get(key), 0, 100) for key in ("accuracy", "ci95")},
        "episodes": whole(record.get("episodes"), 1, MOST_EPISODES),
        "queries": whole(record.get("queries"), 1),
        "seconds": finite(record.get("seconds"), 0, LARGEST),
        "seed": type(record.get("seed")) is int,  # numpy takes seeds of any length
        "label": isinstance(record.get("label"), str),
        **{key: isinstance(record.get(key), dict) for key in ("protocol", "features")},
        "minus": "minus" not in record,
        "unknown_auroc": "unknown_auroc" not in record or _auroc_fits(record["unknown_auroc"]),
    }
    valid |= {"correct": all(valid.values()) and _answers_fit(record)}
    wrong = [key for key, well in valid.items() if not well]
    if wrong:
        raise UserError(f"a result has no valid {wrong[0]!r}: write it again with --json")
    try:
        protocol = Protocol.from_record(record["protocol"])
    except (TypeError, ValueError) as error:
        raise UserError(f"a result's protocol is not valid ({error}): write it again with --json") from error
    if record.get("classes") and not _classes_fit(record, protocol):
        raise UserError("a result has no valid 'classes': write it again with --json")
    return {**record, "protocol": asdict(protocol)}


def _auroc_fits(stated: Any) -> bool:
    return isinstance(stated, dict) and all(finite(stated.get(key), 0, 100) for key in ("mean", "ci95"))


def _answers_fit(record: Record) -> bool:
    """Whether the right answers are those of so many episodes and queries, and give the stated accuracy."""
    try:
        accuracies = 100 * right_answers(record) / record["queries"]
    except (TypeError, ValueError):
        return False
    if accuracies.shape != (record["episodes"],) or not ((accuracies >= 0) & (accuracies <= 100)).all():
        return False
    computed, stated = (accuracies.mean(), half_width(accuracies)), (record["accuracy"], record["ci95"])
    return np.allclose(computed, stated, rtol=0, atol=1e-3)  # files hold four digits


def _classes_fit(record: Record, protocol: Protocol) -> bool:
    """Whether every episode is counted for as many classes as it has, and the stated interval follows."""
    try:
        stated = record["classes"]["ci95"]
        class_episodes, class_correct = (numbers(record["classes"][key]) for key in ("episodes", "correct"))
    except (KeyError, TypeError, ValueError):
        return False
    correct = right_answers(record)
    if class_episodes.ndim != 1 or class_episodes.shape != class_correct.shape:
        return False
    for counts, total in ((class_episodes, len(correct)), (class_correct, int(correct.sum()))):
        if not ((counts >= 0) & (counts <= total)).all() or int(counts.sum()) != protocol.classes * total:
            return False
    scale = 100 / record["queries"]
    computed = class_half_width(scale * correct, class_episodes, scale * class_correct)
    if computed is None or stated is None:
        return computed is stated
    return finite(stated, 0, LARGEST) and abs(computed - stated) < 1e-3


# Comparisons of records.


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

    None where a record has no counts per class, as older ones, or where the two are of different episodes.
    """
    both = [record, reference] if reference else [record]
    if not all(r.get("classes") for r in both):
        return None
    one, *other = ([r["protocol"], r["seed"], r["episodes"], r["classes"]["episodes"]] for r in both)
    if other not in ([], [one]):
        return None
    scale = 100 / record["queries"]
    values = [scale * right_answers(r) for r in both]
    sums = [scale * np.array(r["classes"]["correct"]) for r in both]
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
    for run in runs.values():
        missing = [label for label in labels if label not in run]
        if missing:
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
