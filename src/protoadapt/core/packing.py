"""Result files: right answers packed as text, and several records in one document.

A record is the JSON form of one result. Its `correct` holds the right answers per episode as text: "b85:" and base85 of
zlib of one unsigned byte per episode (two or four bytes, little-endian, where a count is above 255 or 65,535). To
read it:

    data = zlib.decompress(base64.b85decode(record["correct"].removeprefix("b85:")))
    correct = np.frombuffer(data, f"<u{len(data) // record['episodes']}")

A document of several records, {"results": [record, …]}, may hold once, beside them, what all of them share, and a
record with `minus` holds its right answers as differences to those of the record of that number, modulo 256: methods
mostly fail on the same episodes, so differences are shorter. `read_results` returns whole records.
Older records are read too: those with base64, without a prefix, and those of schema protoadapt-result/1, where
`correct` is a list of numbers.
"""

import base64
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from protoadapt.core.protocol import MOST_EPISODES
from protoadapt.core.untrusted import whole

SHARED = ("schema", "protocol", "seed", "queries", "features", "versions", "hardware", "commit")
"""Written once where all records of a document have the same."""
BASE85 = "b85:"  # a prefix that base64, which older files have, cannot begin with

Record = dict[str, Any]


def pack(correct: np.ndarray) -> str:
    """Right answers per episode (E,) as text: base85 of zlib of bytes (see the top of this module)."""
    largest = correct.max(initial=0)
    kind = "<u1" if largest < 2**8 else "<u2" if largest < 2**16 else "<u4"
    # The counts are close to independent draws: repeats are rare, so only their frequencies are worth coding.
    coder = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    return BASE85 + base64.b85encode(coder.compress(correct.astype(kind).tobytes()) + coder.flush()).decode()


def right_answers(record: Record) -> np.ndarray:
    """Right answers per episode (E,) of a record, packed or a list of numbers. Raises ValueError where it has none.

    Examples
    --------
    >>> 100 * right_answers(record).mean() / record["queries"]  # the accuracy
    """
    correct = record.get("correct")
    if not isinstance(correct, str):
        return numbers(correct)
    episodes = record["episodes"]
    try:
        packed = correct.removeprefix(BASE85)
        content = base64.b64decode(packed, validate=True) if packed == correct else base64.b85decode(packed)
        coder = zlib.decompressobj()
        data = coder.decompress(content, 4 * episodes + 1)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"not base85 of zlib ({error})") from error
    if not coder.eof or len(data) not in (episodes, 2 * episodes, 4 * episodes):
        raise ValueError(f"{len(data)} bytes for {episodes} episodes")
    return np.frombuffer(data, f"<u{len(data) // episodes}").astype(np.int64)


def numbers(values: Any) -> np.ndarray:
    """Raises ValueError where anything but numbers is among the values."""
    array = np.array(values)
    if array.dtype.kind not in "iuf":
        raise ValueError("not all are numbers")
    return array


def together(records: Sequence[Record], **about: Any) -> Record:
    """One document of one or more records, in which what all of them share is written once, and right answers as
    differences where that is shorter; `read_results` returns the same records. `about` are further entries, such as
    `reference`."""
    missing = object()
    shared = {
        key: records[0][key] for key in SHARED if all(r.get(key, missing) == records[0].get(key) for r in records)
    }
    answers = [right_answers(record) for record in records]
    short = [record | _shortest(answers[:number], answers[number]) for number, record in enumerate(records)]
    return {"results": [{k: v for k, v in r.items() if k not in shared} for r in short], **about, **shared}


def _shortest(earlier: Sequence[np.ndarray], correct: np.ndarray) -> Record:
    """The shortest form of right answers: their own, or their differences to those of an earlier record."""
    forms: list[Record] = [{"correct": pack(correct)}]
    for number, other in enumerate(earlier):
        if len(other) >= len(correct) and max(other.max(), correct.max()) < 256:
            forms.append({"minus": number, "correct": pack((correct - other[: len(correct)]) % 256)})
    return min(forms, key=lambda form: len(form["correct"]))


def records_of(document: Record) -> list[Record]:
    """The whole records of a document, not checked: each with what it shares with the others and its own answers."""
    shared = {key: document[key] for key in SHARED if key in document}
    found: list[Record] = []
    for record in document["results"]:
        with suppress(KeyError, TypeError, ValueError):  # what cannot be completed keeps its `minus`, and is not valid
            record = _complete({**shared, **record}, found)
        found.append({**shared, **record})
    return found


def _complete(record: Record, earlier: Sequence[Record]) -> Record:
    """The record with its own right answers. Raises KeyError, TypeError or ValueError where that cannot be."""
    if "minus" not in record:
        return record
    if not whole(record["minus"], 0, len(earlier) - 1):
        raise ValueError(f"no earlier record has the number {record['minus']}")
    other = earlier[record["minus"]]
    if not all(whole(r["episodes"], 1, MOST_EPISODES) for r in (record, other)):
        raise ValueError("not a number of episodes")
    correct = (right_answers(record) + right_answers(other)[: record["episodes"]]) % 256
    return {key: value for key, value in record.items() if key != "minus"} | {"correct": pack(correct)}
