"""Files of an earlier run, checked before they are used again."""

from contextlib import suppress
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.results import CHART_LIMIT, read_results
from protoadapt.core.untrusted import finite, whole
from protoadapt.report.motion import PATHS, paths_of
from protoadapt.report.training_curves import RUN


def sound(document: Any) -> dict[str, Any]:
    """A document of results, of a training run or of the paths of prototypes; empty where its check fails."""
    if not isinstance(document, dict):
        return {}
    if "results" in document:
        with suppress(UserError):
            return {**document, "results": read_results(document)}
        return {}
    checks = {RUN: _is_run, PATHS: _has_paths}
    check = checks.get(str(document.get("schema")))
    return document if check and check(document) else {}


def _is_run(run: dict[str, Any]) -> bool:
    """Whether a training run holds its config, its duration and its hardware."""
    config, best = run.get("config"), run.get("best")
    return (
        isinstance(config, dict)
        and whole(config.get("epochs"), 1)
        and whole(config.get("seed"), 0)
        and finite(run.get("seconds"), 0, CHART_LIMIT)
        and isinstance(run.get("hardware"), str)
        and (not best or (isinstance(best, dict) and whole(best.get("epoch"), 0)))
    )


def _has_paths(document: dict[str, Any]) -> bool:
    with suppress(UserError):
        return bool(paths_of(document).steps)
    return False
