"""Names of files and classes as text that survives csv, JSON, spreadsheets and folders, and comes back the same.

File names are bytes on most systems, and may hold what is no text. So in csv and JSON a byte that is not UTF-8 is
written `\\xNN`, and a backslash `\\\\`; all other names, with spaces, newlines or any script, stay as they are.

A spreadsheet takes a cell that begins with = + - or @ for a formula. A file name of that kind gets `./` in front, which
leads to the same file and is no option to any program either; a class name gets an apostrophe, which is taken off again
when it is read.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

from protoadapt.core.files import FORMULA
from protoadapt.core.files import file_cell as file_cell

UNKNOWN = "unknown"
"""No class: pictures that are given this label, or none, have no label."""


def to_text(path: str) -> str:
    """A path of this system, "/" between its folders, as clean text."""
    path = path.replace(os.sep, "/") if os.sep != "/" else path.replace("\\", "\\\\")
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def from_text(text: str) -> str:
    """What `to_text` was given; a backslash that stands for nothing stands for itself."""

    def meant(found: re.Match[bytes]) -> bytes:
        return b"\\" if found[0] == b"\\\\" else bytes([int(found[1], 16)])

    raw = re.sub(rb"\\\\|\\x([0-9a-f]{2})", meant, text.encode("utf-8", "surrogatepass"))
    return raw.decode("utf-8", "surrogateescape")


def composed(name: str) -> str:
    """A class name in one spelling (NFC): é may be one character or, as macOS writes folders, e and an accent."""
    return unicodedata.normalize("NFC", name)


def class_cell(name: str) -> str:
    return f"'{name}" if name.lstrip("'").startswith(FORMULA) else name


def class_of_cell(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(FORMULA) else cell


def to_folder(name: str) -> str:
    """A class as the name of one folder: what could lead elsewhere, or no disk takes, is written %NN."""
    safe = re.sub(r'[\x00-\x1f\x7f/\\:*?"<>|%]', lambda found: f"%{ord(found[0]):02X}", name)
    safe = re.sub(r"^\.|[. ]$", lambda found: f"%{ord(found[0]):02X}", safe)
    return safe or "%"


def from_folder(name: str) -> str:
    """The class whose folder it is; other names that hold a % stay what they are."""
    plain = unquote(name)
    return plain if to_folder(plain) == name else name


def slips(new: Iterable[str], old: Iterable[str]) -> list[str]:
    """What to say of new classes that are another one but for case, blanks or, beside an old class, one letter."""
    plain = {name: re.sub(r"[\s_-]", "", name).casefold() for name in sorted({*new, *old})}
    known, notes = set(old), []
    for name in (name for name in plain if name not in known):
        alike = [other for other in plain if other != name and plain[other] == plain[name]]
        alike = [other for other in alike if other in known or other < name]
        alike += [other for other in plain if other in known and _one_letter(plain[name], plain[other])]
        notes += [f"new class {name!r} beside {alike[0]!r}: one of them may be a slip"] if alike else []
    return notes


def _one_letter(name: str, other: str) -> bool:
    """Whether one of them has a letter more than the other, or another one in its place; a digit is no slip."""
    short, long = sorted((name, other), key=len)
    same = next((i for i, (a, b) in enumerate(zip(short, long)) if a != b), len(short))
    rest, longer = short[same:], long[same:]
    another = rest[:1].isalpha() and rest[1:] == longer[1:]
    return len(short) >= 4 and longer[:1].isalpha() and (another or rest == longer[1:])
