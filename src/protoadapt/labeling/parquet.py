"""labels.parquet: what `label --features` says of millions of pictures, block by block."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from protoadapt.core.files import written_whole
from protoadapt.labeling.names import UNKNOWN, group_name
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, AnsweredBlock


@contextmanager
def parquet_writer(
    path: Path, classes: Sequence[str], check: Callable[[], None] = lambda: None
) -> Iterator[Callable[[AnsweredBlock], None]]:
    """Yields a function that appends a block (`AnsweredBlock.labelled`); the file is written whole or not at all.

    One row per picture: file, label, confidence, runner_up, margin, density, unknown, group, support, and its shard and
    row there. `check` may still refuse right before the file is replaced.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    name, number = pa.dictionary(pa.int32(), pa.string()), pa.float32()
    kinds = {"file": pa.string(), "label": name, "confidence": number, "runner_up": name, "margin": number}
    kinds |= {"density": number, "unknown": pa.bool_(), "group": name, "support": pa.bool_(), "shard": pa.int32()}
    schema, labels = pa.schema(kinds | {"row": pa.int32()}), pa.array([*classes, UNKNOWN, None], pa.string())
    # An open file: of a name pyarrow expands a ~, and refuses one that is not text.
    with (
        written_whole(path) as partial,
        open(partial, "wb") as opened,
        pq.ParquetWriter(opened, schema, compression="zstd") as file,
    ):

        def add(block: AnsweredBlock) -> None:
            best, probability, density, group = block.answers
            p, q = probability.T
            groups = pa.array([*map(group_name, range(group.max(initial=-1) + 1)), None], pa.string())
            groups = groups.take(np.where(group < 0, len(groups) - 1, group))  # the last: none
            label = labels.take(np.where(block.codes == NONE_OF_CLASSES, len(classes), best[:, 0]))
            runner_up = labels.take(np.where(block.codes == UNLABELED, best[:, 1], len(classes) + 1))
            place = np.full(len(p), block.part), block.numbers
            sure = p, runner_up, p - q, density
            columns = (block.names, label, *sure, block.answers.unknown, groups, block.codes >= 0, *place)
            file.write_table(pa.Table.from_pydict(dict(zip(schema.names, columns)), schema))

        yield add
        check()
