"""Files that are there whole or not at all."""

import errno
import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from protoadapt.core.errors import UserError

FULL = {getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS")}
"""Only writing fails for these."""


def check_output(path: str | Path, *inputs: str | Path | None) -> Path:
    """A path that can become a file: not a folder or a device, not one of the inputs. Asked before the work is done."""
    path = Path(path)
    if not path.name or path.is_dir():
        raise UserError(f"{str(path)!r} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{str(path)!r} is no ordinary file and is left alone: give another name")
    for given in inputs:
        if given is not None and path.exists() and Path(given).exists() and path.samefile(given):
            raise UserError(f"{str(path)!r} is also read: writing there would destroy it, give another name")
    return path


def check_output_folder(path: Path) -> None:
    """Asked before the work is done."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{str(path)!r} is a file: give a folder")


def unchanged_since_now(path: Path) -> Callable[[], None]:
    """A function to call before the file is replaced: it refuses if somebody wrote to it meanwhile.

    It compares contents, so that it sees every edit, also one that takes an earlier one back.
    """

    def content() -> bytes | None:
        return path.read_bytes() if path.is_file() else None

    before = content()

    def check() -> None:
        if content() != before:
            raise UserError(f"{str(path)!r} was changed while this ran, and is left as it is: run the same again")

    return check


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A hidden name to write to, which takes the place of `path` when all went well and vanishes otherwise.

    It is another one each time, as threads may write the same file, and short, as the file's may be as long as can be.
    """
    path = check_output(path)
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    ours = True  # not what the caller does besides writing, such as reading another file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        mode = partial.stat().st_mode  # as any new file here has it; some libraries write theirs for the owner alone
        ours = False
        yield partial
        ours = True
        partial.chmod(mode)
        os.replace(partial, path)
    except OSError as error:
        if not ours and error.errno not in FULL and str(partial) not in map(str, (error.filename, error.filename2)):
            raise
        reason = error.strerror or str(error)
        raise UserError(f"{str(path)!r} cannot be written ({reason}): make room or choose another place") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


LIST_OF_NUMBERS = re.compile(r"\[\n[-+\d.eE,\s]+\]")


def write_json(path: Path, value: Any) -> None:
    """One JSON file, whole or not at all; long lists of numbers take one line each."""
    text = LIST_OF_NUMBERS.sub(lambda found: " ".join(found[0].split()), json.dumps(value, indent=1))
    with written_whole(path) as partial:
        write_synced(partial, text.encode() + b"\n")


def write_synced(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


FORMULA = ("=", "+", "-", "@", "\t", "\r")


def file_cell(name: str) -> str:
    """A file's name in a csv, where a spreadsheet would take it for a formula: ./ leads to the same file."""
    return f"./{name}" if name.startswith(FORMULA) else name
