"""`protoadapt data`."""

import sys
from typing import Annotated

import typer

from protoadapt.cli.options import DataDir, DatasetName
from protoadapt.cli.progress import bars
from protoadapt.core.errors import UserError


def data(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)] = "",  # the old spelling of --dataset
    dataset: DatasetName = "",
    data_dir: DataDir = None,
    download: Annotated[bool, typer.Option("--download", help="download it from its official address first")] = False,
) -> None:
    """Check a dataset on disk, or download it.

    Lists which pictures are there, which are missing and where to download them. Exit code 1: incomplete.
    """
    from protoadapt.training import datasets

    if bool(name) == bool(dataset):
        raise UserError("name one dataset: give --dataset NAME with --data DIR, such as --dataset cub --data data")
    dataset = dataset or name
    if download:
        if data_dir is None:
            raise UserError("--download needs a directory to write to: give --data DIR")
        with bars() as report_bytes:
            datasets.download(dataset, data_dir, lambda done, total: report_bytes("bytes", done, total or 0))
    report = datasets.check(dataset, data_dir)
    print(report)
    if not report.complete:
        sys.exit(1)
