"""Official downloads: checked by checksum, and unpacked without trust in their names."""

import hashlib
import http.client
import shutil
import tarfile
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.core.files import scratch_folder, written_whole
from protoadapt.training.datasets.audit import Report, check_dataset
from protoadapt.training.datasets.registry import find_dataset

_BLOCK = 1 << 16
TIMEOUT = 60  # seconds without a byte

OnBytes = Callable[[int, int | None], None]
"""on_progress(done, total): bytes on disk and bytes in all, None where the server does not say."""


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


def fetch(url: str, target: Path, md5: str, on_progress: OnBytes = lambda done, total: None) -> None:
    """Download a URL to a file, which is there once it is complete and its md5 is right."""
    digest = hashlib.md5(usedforsecurity=False)
    with written_whole(target) as partial:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as response, partial.open("wb") as file:
                length = response.headers.get("Content-Length")
                while block := response.read(_BLOCK):
                    file.write(block)
                    digest.update(block)
                    on_progress(file.tell(), int(length) if length else None)
            if digest.hexdigest() != md5:
                raise OSError(f"its md5 is {digest.hexdigest()} instead of {md5}")
        except (OSError, http.client.HTTPException) as error:  # urllib's errors are OSErrors
            raise UserError(
                f"{url} cannot be downloaded ({error}): run this again, or download the file by hand"
            ) from error


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
