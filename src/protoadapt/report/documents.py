"""Which files a report is made of, and the page or table of any number of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.results import RESULT, Record, read_results
from protoadapt.report.label_page import LABELS, labels_page
from protoadapt.report.motion import PATHS
from protoadapt.report.picture_pages import CHECK, check_page
from protoadapt.report.result_page import evaluation_page
from protoadapt.report.tables import check_format, render
from protoadapt.report.task import TASK
from protoadapt.report.training_curves import RUN

OF_PICTURES: dict[str, Callable[..., str]] = {LABELS: labels_page, CHECK: check_page}
"""Documents that have a page of their own."""


def is_readable(document: Any) -> bool:
    """Whether a parsed JSON file is something a report can be made of: labels, results, a run, a task or paths."""
    if not isinstance(document, dict):
        return False
    inside = document.get("results")
    several = isinstance(inside, list) and any(isinstance(r, dict) and r.get("schema") == RESULT for r in inside)
    return several or document.get("schema") in (*OF_PICTURES, RESULT, RUN, TASK, PATHS)


def report_page(documents: Mapping[str, Any]) -> str:
    """The HTML page on parsed JSON files by name: one labels document, one check, both, or any number of the others."""
    alone = {schema: name for name in documents if (schema := documents[name].get("schema")) in OF_PICTURES}
    if alone and len(documents) > len(alone):
        name = next(iter(alone.values()))
        other = next(one for one in documents if one != name)
        raise UserError(f"{name} holds labels, which need a report of their own: leave out {other}")
    if alone:
        with _named(" with ".join(alone.values())):
            page = OF_PICTURES[LABELS if LABELS in alone else CHECK]
            return page(*(documents[alone[schema]] for schema in OF_PICTURES if schema in alone))
    _results(documents)
    return evaluation_page(list(documents.values()))


def results_table(documents: Mapping[str, Any], form: str) -> str:
    """The results in parsed JSON files by name, as `tables.render` writes them."""
    check_format(form)
    results = _results(documents)
    if not results:
        raise UserError(f"{', '.join(documents)}: there is no result to make a table of, give files of evaluate --json")
    reference = next((result["reference"] for result in results if result.get("reference")), None)
    return render(results, reference, form)


def _results(documents: Mapping[str, Any]) -> list[Record]:
    results = []
    for name, document in documents.items():
        with _named(name):
            results += read_results(document)
    return results


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Errors begin with the name of the file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
