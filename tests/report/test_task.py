"""Tasks and paths of prototypes on the page of results."""

import json
from pathlib import Path

import pytest
from helpers.pages import Parsed, thumb

from protoadapt.core.errors import UserError
from protoadapt.report.result_page import evaluation_page

RESULTS = Path(__file__).resolve().parents[2] / "results"
NAMES = ["<b>a</b>", "b"]


def query(of: int, before: int, after: int) -> dict:
    return {"class": of, "picture": thumb("blue"), "answers": {"protonet": before, "cipa": after}}


TASK = {
    "schema": "protoadapt-task/1",
    "protocol": "A 2-way 1-shot task",
    "class_names": NAMES,
    "support": [{"class": c, "picture": thumb("red")} for c in (1, 0)],
    "query": [query(0, 0, 0), query(0, 1, 0), query(1, 1, 0), query(1, 0, 0), query(1, 1, 1)],
}


def test_frames_say_which_method_is_wrong_and_nothing_else():
    page = Parsed(evaluation_page([TASK]))
    pictures = [(a["src"], a["class"], a["alt"]) for a, _ in page.all("img")]
    red, blue = thumb("red"), thumb("blue")
    assert pictures == [
        (red, "frame", "Example of <b>a</b>"),
        (blue, "frame", "Query of <b>a</b>: both are right"),
        (blue, "frame helped", "Query of <b>a</b>: protonet answers b"),
        (red, "frame", "Example of b"),
        (blue, "frame harmed", "Query of b: cipa answers <b>a</b>"),
        (blue, "frame both", "Query of b: protonet answers <b>a</b>, cipa answers <b>a</b>"),
        (blue, "frame", "Query of b: both are right"),
    ]
    keys = dict(zip([a["class"] for a, _ in page.all("span", "frame")], [text.strip() for _, text in page.all("li")]))
    assert keys == {
        "frame helped": "only cipa is right",
        "frame harmed": "only protonet is right",
        "frame both": "both are wrong",
    }
    (section,) = [text for a, text in page.all("section") if a["id"] == "task"]
    assert "protonet names 3 of 5 queries correctly, cipa names 3 of 5 queries correctly." in section
    assert [text for _, text in page.all("a")] == ["Task"]


@pytest.mark.parametrize(
    "wrong",
    [
        *({key: None} for key in ("class_names", "support", "query")),
        *({"query": [query(*classes)]} for classes in ((2, 0, 0), (0, 2, 0), (0, 0, -1), (True, 0, 0), ("a", 0, 0))),
        {"query": [{**query(0, 0, 0), "answers": {"protonet": 0}}]},
        {"query": [query(0, 0, 0), {**query(0, 0, 0), "answers": {"protonet": 0, "bapa": 0}}]},
        *({"support": [{"class": 0, "picture": url}]} for url in ("https://example.org/a.png", None, "data:,")),
        *({"support": value} for value in (["x"], [{}], 7)),
    ],
)
def test_a_task_that_cannot_be_drawn_is_one_sentence(wrong):
    with pytest.raises(UserError, match="a task cannot be drawn: write the file again"):
        evaluation_page([{**TASK, **wrong}])


def test_a_task_without_queries_shows_its_examples():
    page = Parsed(evaluation_page([{**TASK, "query": []}]))
    assert [a["alt"] for a, _ in page.all("img")] == ["Example of <b>a</b>", "Example of b"]


def test_paths_are_a_line_per_class():
    document = json.loads((RESULTS / "mini-imagenet" / "adaptation.json").read_text())
    chart = Parsed(evaluation_page([document]))
    assert [len(a["points"].split()) for a, _ in chart.all("polyline")] == [21] * 10
    assert len([a for a, _ in chart.all("path") if (a.get("class") or "").endswith("example")]) == 10 + 1  # legend


@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser_nothing_sticks_out_and_nothing_is_loaded(tmp_path, chromium, width):
    task = {**TASK, "query": [query(c, 1, 0) for c in (0, 1) for _ in range(30)]}
    paths = json.loads((RESULTS / "mini-imagenet" / "adaptation.json").read_text())
    run = json.loads((RESULTS / "mini-imagenet-hct_r" / "train.json").read_text())
    results = json.loads((RESULTS / "mini-imagenet-hct_r" / "novel-1shot.json").read_text())
    (tmp_path / "report.html").write_text(evaluation_page([results, task, paths, run]), encoding="utf-8")
    messages: list[str] = []
    requests: list[str] = []
    view = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme="dark")
    view.on("console", lambda message: messages.append(message.text))
    view.on("pageerror", lambda error: messages.append(str(error)))
    view.on("request", lambda request: requests.append(request.url))
    view.goto((tmp_path / "report.html").as_uri())
    assert view.evaluate("document.documentElement.scrollWidth") == width
    broken = "[...document.images].filter(picture => !picture.complete || picture.naturalWidth === 0).length"
    assert view.evaluate(broken) == 0
    view.close()
    assert messages == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
