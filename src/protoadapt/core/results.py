"""Results of evaluations: in memory (`Result`), and as records in JSON files.

A result file is one record, or {"results": [record, …]} with what all records have in common written once beside them.
A record says what was run, on what, and how many answers were right in each episode. These counts are one text,
`correct`: base64 of zlib of one unsigned byte per episode (four bytes, little-endian, if a count is above 255). So

    data = zlib.decompress(base64.b64decode(record["correct"]))
    correct = np.frombuffer(data, f"<u{len(data) // record['episodes']}")
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.methods import Method
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.core.provenance import provenance
from protoadapt.core.statistics import class_half_width, half_width
from protoadapt.core.untrusted import BROKEN, finite, whole

Record = dict[str, Any]
"""The JSON form of one result."""
RESULT = "protoadapt-result/2"
"""The schema of a record."""
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

    @property
    def ci95_classes(self) -> float | None:
        """95 % half-width over classes (`class_half_width`); None where every episode has all classes."""
        return class_half_width(self.accuracies, self.class_episodes, 100 * self.class_correct / self.protocol.queries)

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
            "accuracy": round(self.accuracy, 4),
            "ci95": round(self.ci95, 4),
            "episodes": len(self.correct),
            "queries": self.protocol.queries,
            "seconds": round(self.seconds, 4),
            "correct": pack(self.correct),
            "classes": {
                "ci95": None if self.ci95_classes is None else round(self.ci95_classes, 4),
                "episodes": self.class_episodes.tolist(),
                "correct": self.class_correct.tolist(),
            },
        }
        if self.unknown_auroc is not None:
            percent = 100 * self.unknown_auroc
            record["unknown_auroc"] = {"mean": round(float(percent.mean()), 4), "ci95": round(half_width(percent), 4)}
        return record | provenance(self.device)


def pack(correct: np.ndarray) -> str:
    """Right answers per episode (E,) as text (see the top of this module)."""
    kind = "<u1" if correct.max(initial=0) < 256 else "<u4"
    return base64.b64encode(zlib.compress(correct.astype(kind).tobytes(), 9)).decode()


def right_answers(record: Record) -> np.ndarray:
    """Right answers per episode (E,) of a record. Raises ValueError where it has none.

    Examples
    --------
    >>> 100 * right_answers(record).mean() / record["queries"]  # the accuracy
    """
    episodes, decoder = record["episodes"], zlib.decompressobj()
    try:
        data = decoder.decompress(base64.b64decode(record["correct"], validate=True), 4 * episodes + 1)
    except (TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"not base64 of zlib ({error})") from error
    if not decoder.eof or len(data) not in (episodes, 4 * episodes):
        raise ValueError(f"{len(data)} bytes for {episodes} episodes")
    return np.frombuffer(data, f"<u{len(data) // episodes}").astype(np.int64)


def document_of(records: Sequence[Record], **about: Any) -> Record:
    """One document of one or more records, in which what they have in common is written once.

    `about` are further entries, such as `reference`. `read_results` gives the records back.
    """
    first = records[0]
    common = [key for key in COMMON if all(key in record and record[key] == first[key] for record in records)]
    own = [{key: value for key, value in record.items() if key not in common} for record in records]
    return {"results": own, **about, **{key: first[key] for key in common}}


def read_results(document: Record) -> list[Record]:
    """The records of a parsed result file, checked.

    The one way in for result files: files are not trusted, so every number is recomputed from the right answers.

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
    records = document.get("results", [document] if "correct" in document else [])
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UserError("its 'results' is not a list of results: write it again with --json")
    common = {key: document[key] for key in ("reference", "training", *COMMON) if key in document}
    return [_checked({**common, **record}) for record in records]


VALID: dict[str, Callable[[Record], bool]] = {
    "label": lambda r: isinstance(r["label"], str),
    "protocol": lambda r: bool(Protocol(**r["protocol"])),
    "features": lambda r: isinstance(r["features"], dict),
    "seed": lambda r: type(r["seed"]) is int,  # numpy takes seeds of any length
    "episodes": lambda r: whole(r["episodes"], 1, MOST_EPISODES),
    "queries": lambda r: whole(r["queries"], 1),
    "seconds": lambda r: finite(r["seconds"], 0, CHART_LIMIT),
    "accuracy": lambda r: finite(r["accuracy"], 0, 100),
    "ci95": lambda r: finite(r["ci95"], 0, 100),
    "unknown_auroc": lambda r: all(finite(r["unknown_auroc"][key], 0, 100) for key in ("mean", "ci95")),
    "correct": lambda r: _answers_fit(r),
    "classes": lambda r: _classes_fit(r),
}
"""Whether the value of a name is one, in a record whose earlier ones are."""
OPTIONAL = ("unknown_auroc", "classes")


def _checked(record: Record) -> Record:
    for key, valid in VALID.items():
        try:
            fine, reason = valid(record) if key not in OPTIONAL or record.get(key) is not None else True, ""
        except BROKEN as error:
            fine, reason = False, f" ({error})" if isinstance(error, UserError) else ""
        if not fine:
            raise UserError(f"a result has no valid {key!r}{reason}: write it again with --json")
    return {**record, "protocol": asdict(Protocol(**record["protocol"]))}


def _answers_fit(record: Record) -> bool:
    """Whether the right answers are those of so many queries, and give the stated accuracy."""
    accuracies = 100 * right_answers(record) / record["queries"]
    computed, stated = (accuracies.mean(), half_width(accuracies)), (record["accuracy"], record["ci95"])
    return accuracies.max() <= 100 and np.allclose(computed, stated, rtol=0, atol=1e-3)  # files hold four digits


def _classes_fit(record: Record) -> bool:
    """Whether every episode is counted for as many classes as it has, and the stated interval follows."""
    counts = np.array([record["classes"]["episodes"], record["classes"]["correct"]])  # (2, C)
    correct, scale = right_answers(record), 100 / record["queries"]
    totals = np.array([[len(correct)], [correct.sum()]])
    whole_counts = counts.dtype.kind in "iu" and counts.ndim == 2 and ((counts >= 0) & (counts <= totals)).all()
    if not whole_counts or (counts.sum(1, keepdims=True) != Protocol(**record["protocol"]).classes * totals).any():
        return False
    computed, stated = class_half_width(scale * correct, counts[0], scale * counts[1]), record["classes"]["ci95"]
    if computed is None or stated is None:
        return computed is stated
    return finite(stated, 0, CHART_LIMIT) and abs(computed - stated) < 1e-3
