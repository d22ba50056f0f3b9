"""`protoadapt report`."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli.options import argument, option
from protoadapt.cli.progress import say
from protoadapt.core.errors import UserError, count, intact
from protoadapt.core.files import check_output, write_text

_LARGEST = 1 << 29  # bytes of a JSON file
_OURS = re.compile(rb'content="protoadapt, |95 \\?% CI|\A(measured on,)?method,accuracy')
"""What shows that a page, or a table in any format, was written by `report`."""
WAY_OUT = "give a file that `evaluate --json` or `compare --json` wrote"
_SOURCES_HELP = "result JSON files, a labels.json or check.json, training runs, or directories of them"


def report_command(
    sources: Annotated[list[Path], argument(_SOURCES_HELP, "FILE|DIR")],
    out: Annotated[
        Path | None, option("the page (default: report.html; of labels, beside labels.json)", "FILE")
    ] = None,
    form: Annotated[
        str | None, option("a table of the results instead: text, markdown, csv or latex", flag="--format")
    ] = None,
) -> None:
    """Make one HTML page from results or labels.

    Of results: accuracy tables, charts and training curves. Of labels: the named pictures, to be checked. The page is
    one file that opens in any browser without a network.
    """
    from protoadapt.report.documents import OF_PICTURES, report_page, results_table

    if out is not None:
        check_output(out, *sources, kind=_OURS)
    documents = {str(file): document for path in sources for file, document in _documents(path).items()}
    if form is not None:
        content = results_table(documents, form) + "\n"
        if out is None:
            return print(content, end="")
    else:
        out = out or _usual_place(documents)
        for name, document in documents.items():
            if document["schema"] in OF_PICTURES:
                from protoadapt.labeling.outputs import with_images  # needs pillow, which results do not

                documents[name] = document = with_images(document, folder := Path(name).parent)
                if folder.resolve() != out.parent.resolve():
                    document.pop("folder", None)  # links to the pictures start at the labels' own folder
        content = report_page(documents)
    write_text(out, content)
    print(f"{count(len(documents), 'file')} → {out}")


def _usual_place(documents: Mapping[str, Any]) -> Path:
    """The page's default path. As the user did not name it, it replaces nothing but a page of the same kind."""
    from protoadapt.report.documents import CHECK, LABELS

    first, document = next(iter(documents.items()))
    kind = {LABELS: "labels", CHECK: "check"}.get(document["schema"], "results")
    page = Path(first).with_name("report.html") if kind == "labels" else Path("report.html")
    return check_output(page, kind=re.compile(f'content="protoadapt, {kind}"'.encode()))


def _documents(path: Path) -> dict[Path, dict[str, Any]]:
    """The file, or all readable results below the directory; where there are none, the labels."""
    from protoadapt.report.documents import OF_PICTURES, is_readable

    if not path.is_dir():
        if not is_readable(document := _read(path)):
            raise UserError(f"{str(path)!r} is not a result, run or labels file of protoadapt: {WAY_OUT}")
        return {path: document}
    found = {}
    for file in sorted(path.rglob("*.json")):
        try:
            found[file] = _read(file)
        except UserError as error:
            say(f"skipped: {error}")
    found = {file: document for file, document in found.items() if is_readable(document)}
    results = {file: document for file, document in found.items() if document["schema"] not in OF_PICTURES}
    if not found:
        raise UserError(f"no result in {str(path)!r}: `evaluate --json` writes them, and `train` at the end of a run")
    if not results:
        return found
    for file in found.keys() - results.keys():
        say(f"skipped: {str(file)!r} has a report of its own")
    return results


def _read(file: Path) -> Any:
    if not file.is_file():
        raise UserError(f"no file {str(file)!r}: check the path")
    if file.stat().st_size > _LARGEST:
        raise UserError(f"{str(file)!r} is larger than {_LARGEST >> 20} MB, the limit of a report: give a result file")
    with intact(f"{str(file)!r} is truncated or not JSON", WAY_OUT):
        return json.loads(file.read_bytes())
