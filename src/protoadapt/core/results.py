"""Results of evaluations: in memory (`Result`), as records in JSON files, and compared.

A result file is one record, or {"results": [record, …]} with what all records have in common written once beside them.
A record says what was run, on what, and how many answers were right in each episode. These counts are one text,
`correct`: base64 of zlib of one unsigned byte per episode (four bytes, little-endian, if a count is above 255). So

    data = zlib.decompress(base64.b64decode(record["correct"]))
    correct = np.frombuffer(data, f"<u{len(data) // record['episodes']}")
"""

import base64
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError, finite, intact, whole
from protoadapt.core.methods import Method
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.core.provenance import provenance
from protoadapt.core.statistics import class_half_width, half_width, holm, mean_over_runs, p_value

Record = dict[str, Any]
"""The JSON form of one result."""
RESULT = "protoadapt-result/2"
"""The schema of a record."""
RESULTS = re.compile(rb'"schema": *"protoadapt-result/')
"""What shows that a file holds results."""
COMMON = ("schema", "protocol", "seed", "queries", "features", "versions", "hardware", "commit")
"""What a file holds once where all its records have the same."""
CHART_LIMIT = 1e12
"""Of seconds and widths in a file: beyond it a chart has no scale."""


@dataclass(frozen=True)
class Result:
    """One method on one sequence of episodes."""

    method: Method
    protocol: Protocol
    seed: int
    correct: np.ndarray  # (E,) right answers in each episode
    seconds: float  # wall time including sampling, after one episode of warm-up
    device: str
    class_episodes: np.ndarray  # (C,) episodes that contain each class
    class_correct: np.ndarray  # (C,) right answers in these
    unknown_auroc: np.ndarray | None = None  # (E,) of telling foreign queries by their largest probability; "open" only

    @property
    def accuracies(self) -> np.ndarray:
        """(E,) in percent."""
        return 100 * self.correct / self.protocol.queries

    @property
    def accuracy(self) -> float:
        """Mean over episodes in percent."""
        return float(self.accuracies.mean())

    @property
    def ci95(self) -> float:
        """95 % half-width over episodes."""
        return half_width(self.accuracies)

    def minus(self, reference: "Result") -> tuple[float, float]:
        """Paired difference to a result on the same episodes, in points, and its 95 % half-width over episodes."""
        drawn = [(len(r.correct), r.seed, r.protocol, r.class_episodes.tolist()) for r in (self, reference)]
        if drawn[0] != drawn[1]:
            raise UserError("the results are not of the same episodes: evaluate both with one seed and protocol")
        difference = self.accuracies - reference.accuracies
        return float(difference.mean()), half_width(difference)

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
        settings = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in self.method.settings.items()}
        record = {
            "schema": RESULT,
            "method": self.method.name,
            "label": self.method.label,
            "arguments": settings,
            "protocol": asdict(self.protocol),
            "seed": int(self.seed),
            "features": features,
            "episodes": len(self.correct),
            "queries": self.protocol.queries,
            "seconds": round(self.seconds, 4),
            "correct": pack(self.correct),
            "classes": {"episodes": self.class_episodes.tolist(), "correct": self.class_correct.tolist()},
        }
        if self.unknown_auroc is not None:
            percent = 100 * self.unknown_auroc
            record["unknown_auroc"] = {"mean": round(float(percent.mean()), 4), "ci95": round(half_width(percent), 4)}
        return _summarised(record) | provenance(self.device)


def _summarised(record: Record) -> Record:
    """A record with the accuracy and the intervals that follow from its right answers."""
    values = 100 * right_answers(record) / record["queries"]
    classes = record.get("classes")
    record = record | {"accuracy": round(float(values.mean()), 4), "ci95": round(half_width(values), 4)}
    if classes:
        over_classes = class_interval(record)
        record["classes"] = classes | {"ci95": None if over_classes is None else round(over_classes, 4)}
    return record


def pack(correct: np.ndarray) -> str:
    """Right answers per episode (E,) as text (see the top of this module)."""
    kind = "<u1" if correct.max(initial=0) < 256 else "<u4"
    return base64.b64encode(zlib.compress(correct.astype(kind).tobytes(), 9)).decode()


def right_answers(record: Record) -> np.ndarray:
    """Right answers per episode (E,) of a record.

    Examples
    --------
    >>> 100 * right_answers(record).mean() / record["queries"]  # the accuracy
    """
    episodes = record["episodes"]
    data = zlib.decompressobj().decompress(base64.b64decode(record["correct"], validate=True), 4 * episodes + 1)
    if len(data) not in (episodes, 4 * episodes):
        raise ValueError(f"{len(data)} bytes for {episodes} episodes")
    return np.frombuffer(data, "<u1" if len(data) == episodes else "<u4").astype(np.int64)


def document_of(records: Sequence[Record], **about: Any) -> Record:
    """One document of one or more records, in which what they have in common is written once.

    `about` are further entries, such as `reference`. `read_results` gives the records back.
    """
    first = records[0]
    common = [key for key in COMMON if all(key in record and record[key] == first[key] for record in records)]
    own = [{key: value for key, value in record.items() if key not in common} for record in records]
    return {"results": own, **about, **{key: first[key] for key in common}}


def read_results(document: Record) -> list[Record]:
    """The records of a parsed result file: the one way in.

    Files are not trusted: accuracies and intervals are those that follow from the right answers.

    Parameters
    ----------
    document : dict
        Parsed JSON: one record, or {"results": [record, …]}.

    Returns
    -------
    list of dict
        Whole records, each also with the document's `reference` and `training`. Read the right answers of one with
        `right_answers(record)`.

    Examples
    --------
    >>> records = read_results(json.loads(Path("r.json").read_text()))
    >>> paired_difference(records[1], records[0])
    """
    common = {key: document[key] for key in ("reference", "training", *COMMON) if key in document}
    with intact("a result is damaged", "write it again with --json"):
        records = document.get("results", [document] if "correct" in document else [])
        return [_checked({**common, **record}) for record in records]


def _checked(record: Record) -> Record:
    """The record of a file, with what follows from its right answers computed again."""
    protocol = Protocol(**record["protocol"])
    unknown = record.get("unknown_auroc")
    fine = (
        isinstance(record["label"], str)
        and isinstance(record["features"], dict)
        and type(record["seed"]) is int  # numpy takes seeds of any length
        and whole(record["episodes"], 1, MOST_EPISODES)
        and finite(record["seconds"], 0, CHART_LIMIT)
        and (not unknown or all(finite(unknown[key], 0, 100) for key in ("mean", "ci95")))
        and right_answers(record).max() <= protocol.queries
        and (not record.get("classes") or _counts_fit(record, protocol.classes))
    )
    if not fine:
        raise ValueError("a number or a name in it cannot be right")
    return _summarised(record | {"protocol": asdict(protocol), "queries": protocol.queries})


def _counts_fit(record: Record, classes: int) -> bool:
    """Whether every episode is counted for as many classes as it has."""
    counts = np.array([record["classes"][key] for key in ("episodes", "correct")], np.int64)  # (2, C)
    totals = np.array([[record["episodes"]], [right_answers(record).sum()]])
    within = (counts >= 0) & (counts <= totals)
    return bool(within.all() and (counts.sum(1, keepdims=True) == classes * totals).all())


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

    None where every episode has all classes, where a record has no counts per class, or where the two are of different
    episodes.
    """
    both = [record, reference or record]
    if not all(r.get("classes") for r in both):
        return None
    drawn = [[r["protocol"], r["seed"], r["episodes"], r["classes"]["episodes"]] for r in both]
    if drawn[0] != drawn[1]:
        return None
    scale = 100 / record["queries"]
    values, sums = right_answers(record), np.array(record["classes"]["correct"])
    if reference:
        values, sums = values - right_answers(reference), sums - np.array(reference["classes"]["correct"])
    return class_half_width(scale * values, np.array(record["classes"]["episodes"]), scale * sums)


def compare_runs(records: Sequence[Record], reference: str | None = None) -> list[dict[str, Any]]:
    """One summary per method over several runs: seeds, feature files, or both.

    A run is one feature file (by hash) and one seed; every run must have every method. Differences to the reference are
    paired by episode within each run. Their p-values (normal distribution, over the episodes of these runs) are
    adjusted over all methods by Holm's correction (`statistics.holm`).

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
        runs.setdefault((record["features"].get("hash"), record["seed"]), {})[record["label"]] = record
    labels = list(dict.fromkeys(record["label"] for record in records))
    if reference not in (None, *labels) or len(labels) * len(runs) != len(records):
        known = ", ".join(map(str, labels))
        raise UserError(
            f"each method needs one result per seed and feature file: give each file once; the reference is one of "
            f"{known}"
        )
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
