"""Text files that list the pictures of a dataset."""

from pathlib import Path

from protoadapt.core.errors import UserError


def read_text(path: Path) -> str:
    """The content of a list, which must be UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start}): download it again, or save it as UTF-8"
        ) from error
