"""Official downloads: resumed where they broke off, checked, unpacked without trust."""

import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from protoadapt.core.errors import UserError
from protoadapt.training.datasets.audit import Report, check
from protoadapt.training.datasets.registry import find_dataset

BLOCK = 1 << 16
TIMEOUT = 60  # seconds without a byte
TRIES = 3  # in a row that bring nothing new


def download(name: str, data_dir: str | Path, progress: bool = True) -> Report:
    """Fetch a dataset that has an official address, unless it is there already. Run again, it goes on."""
    name, dataset = find_dataset(name)
    folder = Path(data_dir)
    if dataset.url is None or dataset.md5 is None:
        raise UserError(f"{dataset.title} has no official direct download; it is had at {dataset.home}")
    if folder.is_dir() and (report := check(name, folder)).complete:
        return report
    try:
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / dataset.url.rsplit("/", 1)[1]
        if not archive.is_file():
            fetch(dataset.url, archive, dataset.md5, progress)
        unpack(archive, folder)
        archive.unlink()
    except OSError as error:
        raise UserError(
            f"{dataset.title} cannot be written to {folder} ({error}): make room or choose another"
        ) from error
    return check(name, folder)


def fetch(url: str, target: Path, md5: str, progress: bool = True) -> None:
    """The bytes of a URL in a file that appears only when whole and right; until then it is called .part."""
    part = target.with_name(f"{target.name}.part")
    columns = (TextColumn(target.name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task(target.name, total=None)
        idle, whole, reason = 0, False, ""
        while not whole:
            before = _size(part)
            try:
                whole = _transfer(url, part, lambda done, total: bar.update(task, completed=done, total=total))
                reason = "the transfer broke off"
            except urllib.error.HTTPError as error:
                if error.code < 500 and error.code != 416:
                    raise UserError(f"{url} answers {error.code} {error.reason}: get the file by hand") from error
                whole, reason = error.code == 416, str(error)  # 416: nothing after what we have; the checksum decides
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
                reason = str(error)
            idle = 0 if _size(part) > before else idle + 1
            if not whole and idle == TRIES:
                raise UserError(
                    f"{url} cannot be fetched ({reason}): run this again, it goes on at {_size(part):,} bytes"
                )
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != md5:
        part.unlink()
        raise UserError(f"{url} came with md5 {found} and not {md5}: it was removed, run this again")
    os.replace(part, target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(url: str, part: Path, tell: Callable[[int, int | None], None]) -> bool:
    """One request, from where the file ends. True when the server has no more."""
    start = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            start = 0  # it knows no ranges and sends everything again
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with part.open("ab" if start else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                tell(file.tell(), total)
    return total is None or _size(part) == total


def unpack(archive: Path, folder: Path) -> None:
    """A tar file's content in the folder, all or nothing; names that lead out of it, links and devices are refused."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as scratch:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter="data")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise UserError(f"{archive} cannot be unpacked ({error}): remove it and run this again") from error
        for item in sorted(Path(scratch).iterdir()):
            if (folder / item.name).is_dir():
                raise UserError(f"{folder / item.name} is there and not complete: move it away and run this again")
            shutil.move(item, folder / item.name)
