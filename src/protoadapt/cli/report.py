"""The command that makes a page of result files."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output, written_whole

LARGEST = 1 << 29  # bytes of a JSON file


def report(
    given: Annotated[
        list[Path], typer.Argument(metavar="RESULT.json|RUN|labels.json...", help="files, or folders of them")
    ],
    out: Annotated[
        Path | None, typer.Option(help="the page, one HTML file (default: report.html; of labels, beside labels.json)")
    ] = None,
) -> None:
    """One HTML file on labels or results.

    It opens anywhere: labels to check, or accuracy tables, charts and training curves.
    """
    from protoadapt.report.html import report_page

    if out is not None:
        check_output(out, *given)
    documents = {str(file): document for path in given for file, document in _documents(path)}
    out = out or _usual_place(documents)
    for name, document in documents.items():
        if Path(name).resolve().parent != out.resolve().parent:
            document.pop("folder", None)  # its links to pictures begin there
    page = report_page(documents)
    with written_whole(out) as partial:
        partial.write_bytes(page.encode())
    print(f"{count(len(documents), 'file')} → {out}")


def _usual_place(documents: Mapping[str, Any]) -> Path:
    """Where `label` writes it, or here. As nobody named that file, nothing is lost there but labels made anew."""
    from protoadapt.report.html import LABELS, is_labels_page

    first, document = next(iter(documents.items()))
    labels = document.get("schema") == LABELS  # and nothing else, as those stand alone
    out = check_output(Path(first).with_name("report.html") if labels else Path("report.html"))
    if out.exists() and not (labels and is_labels_page(out.read_bytes())):
        raise UserError(f"{str(out)!r} is there already: give --out {out} to replace it, or another name")
    return out


def _documents(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """What reports are made of: the file, or all such files in the folder."""
    from protoadapt.report.html import readable

    if not path.is_dir():
        document = _read(path)
        if not readable(document):
            raise UserError(f"{str(path)!r} is no result, run or labels file of protoadapt: give one that --json wrote")
        yield path, document
        return
    found = 0
    for file in sorted(path.rglob("*.json")):
        try:
            document = _read(file)
        except UserError as error:
            print(f"passed over: {error}", file=sys.stderr)
            continue
        if readable(document):
            found += 1
            yield file, document
    if not found:
        raise UserError(
            f"there is no result in {str(path)!r}: evaluate --json writes them, and train when it has finished"
        )


def _read(file: Path) -> Any:
    if not file.is_file():
        raise UserError(f"there is no file {str(file)!r}: check the path")
    if file.stat().st_size > LARGEST:
        raise UserError(f"{str(file)!r} has more than {LARGEST >> 20} MB: that is no report's")
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(file)!r} cannot be read as JSON: it is truncated or of another kind") from error
