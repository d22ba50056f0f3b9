"""Official downloads: checked by checksum, and unpacked without trust in their names."""

import shutil
import tarfile
import zlib
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.core.files import scratch_folder
from protoadapt.core.web import OnBytes, fetch
from protoadapt.training.datasets.audit import Report, check_dataset
from protoadapt.training.datasets.registry import find_dataset


def download(name: str, data_dir: str | Path, on_progress: OnBytes = lambda done, total: None) -> Report:
    """Download a dataset from its official address into a folder, unless it is there and complete.

    Returns the report of `check`. Example: `print(download("cifar-fs", "data"))`.
    """
    name, dataset = find_dataset(name)
    folder = Path(data_dir)
    if dataset.url is None or dataset.md5 is None:
        raise UserError(f"{dataset.title} has no official direct download: download it from {dataset.home}")
    if folder.is_dir() and (report := check_dataset(name, folder)).complete:
        return report
    try:
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / dataset.url.rsplit("/", 1)[1]
        if not archive.is_file():
            fetch(dataset.url, archive, dataset.md5, on_progress)
        unpack(archive, folder)
        archive.unlink()
    except OSError as error:
        raise UserError(
            f"{dataset.title} cannot be written to {folder} ({error}): free some space or choose another folder"
        ) from error
    return check_dataset(name, folder)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar file into a folder, all or nothing; names and links that lead out of it are refused."""
    with scratch_folder(folder, ".unpacking-") as scratch:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise UserError(f"{archive} cannot be unpacked ({error}): remove it and run this again") from error
        for item in sorted(scratch.iterdir()):
            if (folder / item.name).is_dir():
                raise UserError(f"{folder / item.name} exists and is not complete: move it away and run this again")
            shutil.move(item, folder / item.name)
