"""Tables of parts, as `extract --manifest` writes them."""

from pathlib import Path

import numpy as np

from protoadapt.core.parts import write_index, write_part

MADE = {"weights": "w", "engine": "torch", "views": 1, "manifest": "m"}
MODEL = {"model": "tiny", "weights": "w", "size": 16, "mean": [0.5] * 3, "std": [0.25] * 3}


def write_table(folder: Path, table: np.ndarray, size: int, **other: object) -> None:
    """A table of these rows in parts of `size`, as `extract --manifest` writes one."""
    pieces = [table[start : start + size] for start in range(0, len(table), size)]
    for number, rows in enumerate(pieces):
        names = [f"{number}/{row}.jpg" for row in range(len(rows))]
        contents = [f"{number * size + row:064x}" for row in range(len(rows))]
        lists = {"names": names, "numbers": list(range(len(rows))), "contents": contents}
        write_part(folder, number, rows, lists, {"of": "o", "broken": [], **MADE, **other})
    write_index(folder, {**MADE, "model": MODEL, "root": "/r", "parts": len(pieces), "pictures": len(table)})
