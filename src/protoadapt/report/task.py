"""One few-shot task as pictures: the labelled examples, the queries, and which of two methods named each wrongly."""

from collections.abc import Sequence
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.untrusted import whole
from protoadapt.report.charts import legend
from protoadapt.report.markup import Html, Section, inner, name_of, picture, section, table, tag

TASK = "protoadapt-task/1"
NOTE = "One row per class: its labelled examples, then its queries. A frame marks a query that a method named wrongly."


def task_section(documents: Sequence[dict[str, Any]]) -> Section | None:
    """The section of a page on documents of schema TASK.

    They hold `class_names` (W); `support` and `query`, lists of dicts with `class` (0 … W−1) and `picture` (PNG or JPEG
    data URL); a query also has `answers`, the class that each of two methods gives it.
    """
    try:
        parts = [_task(document) for document in documents]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError("a task cannot be drawn: write the file again") from error
    return section("One task", parts, id_="task", note=NOTE, words="Task")


def _task(document: dict[str, Any]) -> Html:
    names, query = [str(name) for name in document["class_names"]], document["query"]
    before, after = query[0]["answers"] if query else ("", "")
    cells: dict[int, list[list[Html]]] = {c: [[], []] for c in range(len(names))}
    for item in (*document["support"], *query):
        truth, answers = item["class"], item.get("answers")
        if not all(whole(c, 0, len(names) - 1) for c in (truth, *(answers or {}).values())):
            raise ValueError("a class is not one of the task's")
        kind, words = None, f"Example of {names[truth]}"
        if answers:
            wrong = [method for method in (before, after) if answers[method] != truth]
            kind = {(): None, (before,): "helped", (after,): "harmed"}.get(tuple(wrong), "both")
            mistakes = [f"{method} answers {names[answers[method]]}" for method in wrong]
            words = f"Query of {names[truth]}: {', '.join(mistakes) or 'both are right'}"
        cells[truth][answers is not None].append(_picture(item["picture"], words, kind))
    rows = [(name_of(names[c]), [tag("td", pictures) for pictures in both]) for c, both in cells.items()]
    frames = {"helped": f"only {after} is right", "harmed": f"only {before} is right", "both": "both are wrong"}
    keys = [(tag("span", class_=f"frame {kind}"), words) for kind, words in frames.items()]
    right = {m: sum(item["answers"][m] == item["class"] for item in query) for m in (before, after) if m}
    scores = ", ".join(f"{m} names {n} of {len(query)} queries correctly" for m, n in right.items())
    words = "; ".join(part for part in (str(document.get("protocol") or ""), scores) if part)
    pictures = table(("class", "labelled", "queries"), rows, "task")
    return inner(tag("p", words, ".") if words else None, pictures, legend(keys))


def _picture(url: object, words: str, kind: str | None) -> Html:
    if picture(url) is None:
        raise ValueError("a picture is PNG or JPEG data")
    style = f"frame {kind}" if kind else "frame"
    return tag("img", src=url, alt=words, title=words, width=44, height=44, class_=style)
