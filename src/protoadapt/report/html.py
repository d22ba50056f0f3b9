"""Reports as one HTML file that opens without a network: of labels, of results, or of whatever JSON files are given."""

from collections.abc import Mapping
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.records import SCHEMAS, read_results
from protoadapt.report.labels import SCHEMA as LABELS
from protoadapt.report.labels import labels_page
from protoadapt.report.results import evaluation_page

__all__ = ["LABELS", "evaluation_page", "is_labels_page", "labels_page", "readable", "report_page"]

RESULTS = (*SCHEMAS, "protoadapt-run/1", "protoadapt-picture/1")


def readable(document: Any) -> bool:
    """Whether a report can be made of it."""
    if not isinstance(document, dict):
        return False
    inside = document.get("results")
    several = isinstance(inside, list) and any(isinstance(r, dict) and r.get("schema") in SCHEMAS for r in inside)
    return several or document.get("schema") in (LABELS, *RESULTS)


def is_labels_page(page: bytes) -> bool:
    """Whether `labels_page` made it; its beginning is enough."""
    return b'content="protoadapt, labels"' in page.partition(b"<style>")[0]


def report_page(documents: Mapping[str, Any]) -> str:
    """JSON documents by their names → the page for them: labels stand alone, results together."""
    labels = [name for name, document in documents.items() if document.get("schema") == LABELS]
    if len(labels) > 1 or (labels and len(documents) > 1):
        other = next(name for name in documents if name != labels[0])
        raise UserError(f"{labels[0]} holds labels and fills a report alone: leave out {other}, or report on it apart")
    for name, document in documents.items():
        try:
            if name in labels:
                return labels_page(document)
            read_results(document)
        except UserError as error:
            raise UserError(f"{name}: {error}") from error
    return evaluation_page(list(documents.values()))
