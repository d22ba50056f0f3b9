"""Names of files and classes as text that survives csv, JSON, spreadsheets and folders, and is read back unchanged.

File names are bytes on most systems and need not be text. So in csv and JSON a byte that is not UTF-8 is written
`\\xNN`, and a backslash `\\\\`; all other names, with spaces, newlines or any script, stay as they are.

A spreadsheet takes a cell that begins with = + - or @ for a formula. A file name of that kind gets `./` in front, which
leads to the same file and is no option to any program either; a class name gets an apostrophe, which is removed when
it is read.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from protoadapt.core.files import FORMULA
from protoadapt.core.files import file_cell as file_cell

UNKNOWN = "unknown"
"""The label of pictures that belong to none of the classes; no class can have this name."""


def group_name(number: int) -> str:
    """The name of a group of pictures that nobody named, by its number from 0."""
    return f"unnamed-{number + 1}"


def is_group(name: str) -> bool:
    """Whether this is the name of such a group."""
    return re.fullmatch(r"unnamed-[1-9]\d*", name) is not None


def to_text(path: str) -> str:
    """A path of this system as clean text, with "/" between folders."""
    path = path.replace(os.sep, "/") if os.sep != "/" else path.replace("\\", "\\\\")
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def from_text(text: str) -> str:
    """The inverse of `to_text`; a backslash that escapes nothing stands for itself."""

    def decoded(escape: re.Match[bytes]) -> bytes:
        return b"\\" if escape[0] == b"\\\\" else bytes([int(escape[1], 16)])

    raw = re.sub(rb"\\\\|\\x([0-9a-f]{2})", decoded, text.encode("utf-8", "surrogatepass"))
    return raw.decode("utf-8", "surrogateescape")


def name_in(folder: str | Path, file: str) -> str:
    """The name of a file relative to the folder of the pictures, as csv and JSON have it."""
    return to_text(os.path.relpath(file, folder))


def file_of(folder: str | Path, name: str) -> str:
    """The inverse of `name_in`."""
    return os.path.normpath(os.path.join(os.path.abspath(folder), from_text(name)))


def composed(name: str) -> str:
    """A class name in one spelling (NFC): é may be one character or, as macOS writes folders, e and an accent."""
    return unicodedata.normalize("NFC", name)


def class_cell(name: str) -> str:
    """A class name as a cell of a csv file that no spreadsheet takes for a formula."""
    return f"'{name}" if name.lstrip("'").startswith(FORMULA) else name


def class_of_cell(cell: str) -> str:
    """The inverse of `class_cell`."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(FORMULA) else cell


def to_folder(name: str) -> str:
    """A class name as the name of one folder: characters that could lead elsewhere, or are not allowed, become %NN."""
    return re.sub(r'[\x00-\x1f\x7f/\\:*?"<>|%]|^\.|[. ]\Z', lambda match: f"%{ord(match[0]):02X}", name) or "%"


def from_folder(name: str) -> str:
    """The class of a folder, the inverse of `to_folder`; other names with a % stay as they are."""
    plain = unquote(name)
    return plain if to_folder(plain) == name else name


def slips(new: Iterable[str], old: Iterable[str]) -> list[str]:
    """Notes on new classes that may be misspelt: they equal another class up to case and blanks, or an old class up to
    one letter."""
    alike: dict[tuple[str, str], str] = {}
    for name in sorted(known := {*old}):
        for spelling in _spellings(name):
            alike.setdefault(spelling, name)
    notes = []
    for name in sorted({*new} - known):
        spellings = _spellings(name)
        if other := next((alike[spelling] for spelling in spellings if spelling in alike), None):
            notes.append(
                f"{name!r} and {other!r} are two classes with almost the same name: if one is a typing error, "
                f"correct it in the csv and run the same command again"
            )
        alike.setdefault(spellings[0], name)
    return notes


def _spellings(name: str) -> list[tuple[str, str]]:
    """What two names share that differ in case and blanks only or, if they are long enough, in one letter, no digit."""
    plain = re.sub(r"[\s_-]", "", name).casefold()
    shorter = [plain[:at] + plain[at + 1 :] for at, sign in enumerate(plain) if not sign.isdecimal()]
    return [("same", plain), *(("near", one) for one in (plain, *shorter) if len(plain) >= 4)]
