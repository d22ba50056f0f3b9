"""Reports as one HTML file that opens without a network: from labels, or from any number of result files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.results import RESULT, Record, read_results
from protoadapt.report.check_page import SCHEMA as CHECK
from protoadapt.report.check_page import check_page
from protoadapt.report.label_page import SCHEMA as LABELS
from protoadapt.report.label_page import labels_page
from protoadapt.report.motion import OLD_PATHS, PATHS
from protoadapt.report.result_page import evaluation_page
from protoadapt.report.tables import check_format, render
from protoadapt.report.task import TASK
from protoadapt.report.training_curves import RUN


def readable(document: Any) -> bool:
    """Whether a parsed JSON file is something a report can be made of: labels, results, a run, a task or paths."""
    if not isinstance(document, dict):
        return False
    inside = document.get("results")
    several = isinstance(inside, list) and any(isinstance(r, dict) and r.get("schema") == RESULT for r in inside)
    return several or document.get("schema") in (LABELS, CHECK, RESULT, RUN, TASK, PATHS, OLD_PATHS)


def is_labels_page(page: bytes) -> bool:
    """Whether `labels_page` wrote this page; its beginning is enough."""
    return b'content="protoadapt, labels"' in page.partition(b"<style>")[0]


def report_page(documents: Mapping[str, Any]) -> str:
    """The HTML page on parsed JSON files by name: one labels document, one check, both, or any number of the others."""
    alone = {LABELS: labels_page, CHECK: check_page}
    single = [name for name, document in documents.items() if document.get("schema") in alone]
    if len(single) == len(documents) == 2 and {documents[name]["schema"] for name in single} == {*alone}:
        labels, check = sorted(single, key=lambda name: documents[name]["schema"] == CHECK)
        with _named(f"{labels} with {check}"):
            return labels_page(documents[labels], documents[check])
    if single and len(documents) > 1:
        other = next(name for name in documents if name != single[0])
        raise UserError(f"{single[0]} holds labels, which need a report of their own: leave out {other}")
    for name in single:
        with _named(name):
            return alone[documents[name]["schema"]](documents[name])
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
