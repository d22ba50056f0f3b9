"""`protoadapt data`."""

import sys
from functools import partial
from typing import Annotated

from protoadapt.cli.options import DataDir, DatasetName, option
from protoadapt.cli.progress import bars
from protoadapt.core.errors import UserError


def data_command(
    dataset: DatasetName = "",
    data_dir: DataDir = None,
    download: Annotated[bool, option("download it from its official address first", flag="--download")] = False,
) -> None:
    """Check a dataset on disk, or download it.

    Lists which pictures are there, which are missing and where to download them. Exit code 1: incomplete.
    """
    from protoadapt.training import datasets
    from protoadapt.training.datasets.registry import DATASETS

    if not dataset:
        raise UserError(f"no dataset is named: give --dataset with one of {', '.join(DATASETS)}")
    if download:
        if data_dir is None:
            raise UserError("--download needs a directory to write to: give --data DIR")
        with bars() as report:
            datasets.download(dataset, data_dir, partial(report, "bytes"))
    found = datasets.check_dataset(dataset, data_dir)
    print(found.text)
    if not found.complete:
        sys.exit(1)
