"""Which files a report is made of, and the page or table of any number of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from protoadapt.core.errors import UserError, intact
from protoadapt.core.results import RESULT, Record, read_results
from protoadapt.report.label_page import LABELS, labels_page
from protoadapt.report.motion import PATHS
from protoadapt.report.picture_pages import CHECK, check_page
from protoadapt.report.result_page import evaluation_page
from protoadapt.report.tables import check_format, render
from protoadapt.report.training_curves import RUN

OF_PICTURES = {LABELS: labels_page, CHECK: check_page}
"""The page of documents that have one of their own."""


def is_readable(document: Any) -> bool:
    """Whether a parsed JSON file is something a report can be made of: labels, a check, results, a run or paths."""
    return isinstance(document, dict) and document.get("schema") in (*OF_PICTURES, RESULT, RUN, PATHS)


def report_page(documents: Mapping[str, Any]) -> str:
    """The HTML page on parsed JSON files by name: one labels document, one check, or any number of the others.

    This is the one door for files: what is not as it was written is one sentence, whatever part of a page finds it.
    """
    for name, document in documents.items():
        with _named(name):
            page = OF_PICTURES.get(document["schema"])
            if page and len(documents) > 1:
                raise UserError("it has a report of its own, leave it or the others out")
            if page:
                return page(document)
            if not read_results(document):
                evaluation_page([document])  # by itself, so that the file is named
    return evaluation_page(list(documents.values()))


def results_table(documents: Mapping[str, Any], form: str) -> str:
    """The results in parsed JSON files by name, as `tables.render` writes them."""
    check_format(form)
    results: list[Record] = []
    for name, document in documents.items():
        with _named(name):
            results += read_results(document)
    if not results:
        raise UserError(f"{', '.join(documents)}: there is no result to make a table of, give files of evaluate --json")
    reference = next((result["reference"] for result in results if result.get("reference")), None)
    return render(results, reference, form)


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Errors begin with the name of the file."""
    try:
        with intact("it is damaged", "write it again with the command that made it"):
            yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
