"""Damage to files: random changes of bytes, and changes of structure that random ones hardly ever make."""

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
NASTY: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")),
    *(2**31, 2**53, 2**63, -(2**63), 10**24, 10**400, "", "x", "\0", "..", "/", "é", "\ud800", "1", "nan", "a" * 3000),
    *([], [1], [None], [[1]], {}, {"a": 1}, {"self": 1}, [0.2] * 5, ["a", "b"], [1, -1, 2], [float("nan")] * 3),
]
"""Values that files and users give and nobody expects."""


def nasty(rng: Rng) -> Any:
    return NASTY[rng.integers(len(NASTY))]


def changed_bytes(rng: Rng, content: bytes, other: bytes = b"") -> bytes:
    """One to three changes: bits flipped, bytes replaced, inserted, removed, repeated, cut, or spliced with `other`."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(8)
        # Half of the changes hit the beginning, where headers are.
        size = len(data)
        at = int(rng.integers(min(size, 512) if rng.random() < 0.5 else size)) if size else 0
        span = int(rng.integers(1, 17))
        if kind == 0 and size:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at : at + span] = rng.bytes(span)
        elif kind == 2:
            data[at:at] = rng.bytes(span)
        elif kind == 3:
            del data[at : at + span]
        elif kind == 4:
            data[at:at] = data[at : at + span]
        elif kind == 5:
            del data[at:]
        elif kind == 6:
            data[at : at + span] = bytes([0 if rng.random() < 0.5 else 255]) * span
        elif other:
            data[at:] = other[int(rng.integers(len(other))) :]
    return bytes(data)


def changed_text(rng: Rng, content: bytes) -> bytes:
    """A line removed, repeated, moved or emptied, a field replaced, other line ends or another encoding."""
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    cells = lines[at].split(b",")
    cell = int(rng.integers(len(cells)))
    words = [
        b"",
        b'"',
        b"'",
        b"=1+1",
        b"unknown",
        b"\xff",
        b"\0",
        b"../../x",
        b"a" * 200_000,
        "é".encode(),
        b";",
        b"\r",
    ]

    def field() -> bytes:
        cells[cell] = words[rng.integers(len(words))]
        return b"\n".join([*lines[:at], b",".join(cells), *lines[at + 1 :]])

    ways: list[Callable[[], bytes]] = [
        lambda: b"\n".join(lines[:at] + lines[at + 1 :]),
        lambda: b"\n".join(lines[: at + 1] + lines[at:]),
        lambda: b"\n".join(lines[at:] + lines[:at]),
        lambda: b"\n".join([*lines[:at], b"", *lines[at + 1 :]]),
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"\r\n", b"\r"),
        lambda: content.replace(b",", b";"),
        lambda: content.decode("utf-8", "replace").encode("utf-16"),
        lambda: b"\xef\xbb\xbf" + content,
        field,
        field,
        field,
    ]
    return ways[rng.integers(len(ways))]()


def changed_json(rng: Rng, content: bytes) -> bytes:
    """One value anywhere in a JSON document replaced, removed or repeated under another name."""
    document = json.loads(content)
    return json.dumps((changed_value if rng.random() < 0.5 else changed_field)(rng, document)).encode()


def changed_field(rng: Rng, document: Any) -> Any:
    """One value replaced or removed, each field as likely as any other, however long the lists around it are."""
    places: dict[tuple[Any, ...], list[list[Any]]] = {}

    def walk(value: Any, path: list[Any]) -> None:
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, one in inside:
            fields = tuple("*" if isinstance(part, int) else part for part in [*path, key])
            places.setdefault(fields, []).append([*path, key])
            walk(one, [*path, key])

    walk(document, [])
    if not places:
        return nasty(rng)
    same = list(places.values())[rng.integers(len(places))]
    *path, last = same[rng.integers(len(same))]
    around = document
    for key in path:
        around = around[key]
    if rng.random() < 0.25:
        del around[last]
    else:
        around[last] = nasty(rng)
    return document


def changed_line(rng: Rng, content: bytes) -> bytes:
    """One line of a file of JSON lines changed as JSON."""
    lines = content.splitlines(keepends=True)
    at = int(rng.integers(len(lines)))
    lines[at] = changed_json(rng, lines[at]) + b"\n"
    return b"".join(lines)


def changed_value(rng: Rng, value: Any) -> Any:
    """The same value with one part of it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key = list(value)[rng.integers(len(value))]
        draw = rng.random()
        if draw < 0.12:
            return {name: one for name, one in value.items() if name != key}
        if draw < 0.18:
            return value | {str(nasty(rng)): nasty(rng)}
        return value | {key: changed_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = int(rng.integers(len(value)))
        draw = rng.random()
        if draw < 0.1:
            return value[:at]
        if draw < 0.2:
            return value[:at] + [value[at]] * 2 + value[at:]
        return [*value[:at], changed_value(rng, value[at]), *value[at + 1 :]]
    return nasty(rng)


def changed_safetensors(rng: Rng, content: bytes) -> bytes:
    """The header of a safetensors file changed as JSON, or the JSON inside its metadata; lengths then fit again."""
    size = struct.unpack("<Q", content[:8])[0]
    header, tensors = json.loads(content[8 : 8 + size]), content[8 + size :]
    inside = header.get("__metadata__", {})
    if "protoadapt" in inside and rng.random() < 0.6:
        inside["protoadapt"] = json.dumps(changed_value(rng, json.loads(inside["protoadapt"])))
    else:
        header = changed_value(rng, header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if rng.random() < 0.95 else int(rng.integers(2**62))) + text + tensors


def changed_npy(rng: Rng, content: bytes) -> bytes:
    """The header of an .npy array inside an uncompressed archive replaced by another of the same length."""
    at = content.find(b"{'descr'")
    if at < 0:
        return changed_bytes(rng, content)
    end = content.index(b"\n", at)
    kinds = [
        "'<f4'",
        "'|O'",
        "'<f8'",
        "'<U9'",
        "'>i2'",
        "'|S4'",
        "'<c16'",
        "'<M8[s]'",
        "[('a', '<f4')]",
        "'|V8'",
        "__import__",
    ]
    shapes = ["(3,)", "(1000000000000,)", "(-1, 4)", "(0,)", "()", "(2, 3, 4)", "(" * 50, "(9**9**9,)", "(None,)"]
    order = ["True", "False", "1", "None"][rng.integers(4)]
    kind, shape = kinds[rng.integers(len(kinds))], shapes[rng.integers(len(shapes))]
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return content[:at] + text.ljust(end - at)[: end - at] + content[end:]
