"""Official downloads: resumed after a break, checked by checksum, and unpacked without trust in their names."""

import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.core.files import scratch_folder
from protoadapt.training.datasets.audit import Report, check_dataset
from protoadapt.training.datasets.registry import find_dataset

_BLOCK = 1 << 16
TIMEOUT = 60  # seconds without a byte

OnBytes = Callable[[int, int | None], None]
"""on_progress(done, total): bytes on disk and bytes in all, None where the server does not say."""


def download(name: str, data_dir: str | Path, on_progress: OnBytes = lambda done, total: None) -> Report:
    """Download a dataset from its official address into a folder, unless it is complete; a second call continues.

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
    """Download a URL to a file. Until it is complete and its md5 is right, the file has the suffix .part."""
    part = target.with_name(f"{target.name}.part")
    reason = "the connection was closed"
    try:
        complete = _transfer(url, part, on_progress)
    except (OSError, http.client.HTTPException) as error:  # urllib's errors are OSErrors
        complete = getattr(error, "code", 0) == 416  # nothing after what we have: the md5 decides
        reason = str(error)
    if not complete:
        raise UserError(
            f"{url} cannot be downloaded ({reason}): run this again, it continues at {_size(part):,} bytes, or "
            f"download the file by hand"
        )
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
    if digest != md5:
        part.unlink()
        raise UserError(f"{url} has md5 {digest} instead of {md5}: the file was removed, run this again")
    os.replace(part, target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(url: str, part: Path, on_progress: OnBytes) -> bool:
    """One request for what comes after the end of `part`. True when the file is complete."""
    start = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            start = 0  # the server has no ranges and sends everything again
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with part.open("ab" if start else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                on_progress(file.tell(), total)
    return total is None or _size(part) == total


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
