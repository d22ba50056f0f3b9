"""`protoadapt report`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import argument, option
from protoadapt.cli.progress import say
from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output, write_text

LARGEST = 1 << 29  # bytes of a JSON file
WAY_OUT = "give a file that `evaluate --json` or `compare --json` wrote"


def report_command(
    sources: Annotated[
        list[Path],
        argument("result JSON files, a labels.json or check.json, training runs, or directories of them", "FILE|DIR"),
    ],
    out: Annotated[
        Path | None, option("the HTML page (default: report.html; for labels, beside labels.json)", "FILE")
    ] = None,
    form: Annotated[
        str | None,
        option("a table of the results instead: text, markdown, csv or latex (for booktabs)", flag="--format"),
    ] = None,
) -> None:
    """Make one HTML page from results or labels.

    Of results: accuracy tables, charts and training curves. Of labels: the named pictures, to be checked. The page is
    one file that opens in any browser without a network.
    """
    from protoadapt.report.documents import OF_PICTURES, report_page, results_table

    if out is not None:
        check_output(out, *sources)
    documents = {str(file): document for path in sources for file, document in _documents(path)}
    if form is not None:
        content = results_table(documents, form) + "\n"
        if out is None:
            return print(content, end="")
    else:
        out = out or _usual_place(documents)
        for name, document in documents.items():
            if document.get("schema") in OF_PICTURES:
                documents[name] = _with_pictures(document, Path(name).parent, out.parent)
        content = report_page(documents)
    write_text(out, content)
    print(f"{count(len(documents), 'file')} → {out}")


def _with_pictures(document: dict[str, Any], folder: Path, page: Path) -> dict[str, Any]:
    """Labels with the small pictures beside them, and links to the pictures, which start at the labels' own folder."""
    from protoadapt.labeling.thumbnails import with_images

    document = with_images(document, folder)
    if folder.resolve() != page.resolve():
        document.pop("folder", None)
    return document


def _usual_place(documents: Mapping[str, Any]) -> Path:
    """The page's default path. As the user did not name it, it replaces nothing but a page of labels."""
    from protoadapt.report.documents import LABELS, is_labels_page

    first, document = next(iter(documents.items()))
    labels = document.get("schema") == LABELS  # labels are never mixed with results
    out = check_output(Path(first).with_name("report.html") if labels else Path("report.html"))
    if out.exists() and not (labels and is_labels_page(out.read_bytes())):
        raise UserError(f"{str(out)!r} exists: give --out {out} to replace it, or another name")
    return out


def _documents(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The file, or all readable results below the directory; where there are none, the labels."""
    from protoadapt.report.documents import CHECK, LABELS, is_readable

    if not path.is_dir():
        document = _read(path)
        if not is_readable(document):
            raise UserError(f"{str(path)!r} is not a result, run or labels file of protoadapt: {WAY_OUT}")
        yield path, document
        return
    found: dict[bool, dict[Path, Any]] = {True: {}, False: {}}  # labels, and all others
    for file in sorted(path.rglob("*.json")):
        try:
            document = _read(file)
        except UserError as error:
            say(f"skipped: {error}")
            continue
        if is_readable(document) and document.get("schema") != CHECK:  # which has a page of its own
            found[document.get("schema") == LABELS][file] = document
    if not (found[True] or found[False]):
        raise UserError(f"no result in {str(path)!r}: `evaluate --json` writes them, and `train` at the end of a run")
    for file in found[True] if found[False] else ():
        say(f"skipped: {str(file)!r} holds labels, which have a report of their own")
    yield from (found[False] or found[True]).items()


def _read(file: Path) -> Any:
    if not file.is_file():
        raise UserError(f"no file {str(file)!r}: check the path")
    if file.stat().st_size > LARGEST:
        raise UserError(f"{str(file)!r} is larger than {LARGEST >> 20} MB, the limit of a report: give a result file")
    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(file)!r} is truncated or not JSON: {WAY_OUT}") from error
