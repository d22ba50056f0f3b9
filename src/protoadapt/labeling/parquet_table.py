"""labels.parquet: the labels of any number of pictures, written block by block."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError, install
from protoadapt.core.files import written_whole
from protoadapt.labeling.names import UNKNOWN
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, AnsweredBlock

OURS = re.compile(rb"\APAR1.*runner_up", re.DOTALL)
"""What shows that a file is such a table: its columns, which are listed at its end."""
PARQUET = "labels.parquet"
GROUP = 1 << 17
"""Rows that are written together, at least."""


def check_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"labels of --features are written as Parquet, which needs pyarrow: {install('scale')}"
        ) from error


@contextmanager
def parquet_writer(
    path: Path, classes: Sequence[str], check: Callable[[], None] = lambda: None
) -> Iterator[Callable[[AnsweredBlock], None]]:
    """Yields a function that appends a block (`AnsweredBlock.labelled`); the file is written whole or not at all.

    One row per picture: file, label, confidence, runner_up, margin, familiarity, unknown, support, and its shard and
    row there. `check` may still refuse right before the file is replaced.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        [("file", pa.string()), ("label", name), ("confidence", pa.float32()), ("runner_up", name)]
        + [("margin", pa.float32()), ("familiarity", pa.float32()), ("unknown", pa.bool_()), ("support", pa.bool_())]
        + [("shard", pa.int32()), ("row", pa.int32())]
    )
    labels = pa.array([*classes, UNKNOWN], pa.string())
    waiting: list[Any] = []

    def named(codes: np.ndarray, none: np.ndarray | None = None) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=none), labels)

    def table(block: AnsweredBlock) -> Any:
        support, (best, probability, familiarity, unknown) = block.codes >= 0, block.answers
        labelled, (p, q) = np.where(block.codes == NONE_OF_CLASSES, len(classes), best[:, 0]), probability.T
        columns = [pa.array(block.names, pa.string()), named(labelled), pa.array(p.astype(np.float32))]
        columns += [named(best[:, 1], block.codes != UNLABELED), pa.array((p - q).astype(np.float32))]
        columns += [pa.array(familiarity.astype(np.float32)), pa.array(unknown)]
        columns += [pa.array(support), pa.array(np.full(len(support), block.part, np.int32)), pa.array(block.numbers)]
        return pa.table(columns, schema)

    # An open file: of a name pyarrow expands a ~, and refuses one that is not text.
    with (
        written_whole(path) as partial,
        open(partial, "wb") as opened,
        pq.ParquetWriter(opened, schema, compression="zstd") as file,
    ):

        def flush() -> None:
            if waiting:
                file.write_table(pa.concat_tables(waiting), row_group_size=1 << 20)
                waiting.clear()

        def add(block: AnsweredBlock) -> None:
            waiting.append(table(block))
            if sum(map(len, waiting)) >= GROUP:
                flush()

        yield add
        flush()
        check()
