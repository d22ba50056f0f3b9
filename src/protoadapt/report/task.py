"""One few-shot task as pictures: the labelled examples, the queries, and which of two methods named each wrongly."""

from collections.abc import Sequence
from typing import Any

from protoadapt.report.charts import legend
from protoadapt.report.markup import Html, Section, inner, name_of, picture, section, table, tag

TASK = "protoadapt-task/1"
NOTE = "One row per class: its labelled examples, then its queries. A frame marks a query that a method named wrongly."


def task_section(documents: Sequence[dict[str, Any]]) -> Section | None:
    """The section of a page on documents of schema TASK.

    They hold `class_names` (W); `support` and `query`, lists of dicts with `class` (0 … W−1) and `picture` (PNG or JPEG
    data URL); a query also has `answers`, the class that each of two methods gives it.
    """
    return section("One task", [_task(document) for document in documents], id_="task", note=NOTE, words="Task")


def _task(document: dict[str, Any]) -> Html:
    names, query = document["class_names"], document["query"]
    before, after = query[0]["answers"]
    cells: list[tuple[list[Html], list[Html]]] = [([], []) for _ in names]
    for item in (*document["support"], *query):
        truth, answers = item["class"], item.get("answers")
        style, words = "frame", f"Example of {names[truth]}"
        if answers:
            wrong = tuple(method for method in (before, after) if answers[method] != truth)
            style = {(): "frame", (before,): "frame helped", (after,): "frame harmed"}.get(wrong, "frame both")
            mistakes = [f"{method} answers {names[answers[method]]}" for method in wrong]
            words = f"Query of {names[truth]}: {', '.join(mistakes) or 'both are right'}"
        image = tag("img", src=picture(item["picture"]), alt=words, title=words, width=44, height=44, class_=style)
        cells[truth][bool(answers)].append(image)
    rows = [(name_of(name), [tag("td", pictures) for pictures in both]) for name, both in zip(names, cells)]
    frames = {"helped": f"only {after} is right", "harmed": f"only {before} is right", "both": "both are wrong"}
    keys = [(tag("span", class_=f"frame {kind}"), words) for kind, words in frames.items()]
    right = {m: sum(item["answers"][m] == item["class"] for item in query) for m in (before, after)}
    scores = ", ".join(f"{m} names {n} of {len(query)} queries correctly" for m, n in right.items())
    pictures = table(("class", "labelled", "queries"), rows, "task")
    return inner(tag("p", f"{document['protocol']}; {scores}."), pictures, legend(keys))
