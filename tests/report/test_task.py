"""Tasks and paths of prototypes on the page of results."""

import json
from pathlib import Path

import pytest
from helpers.pages import Parsed, thumb

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
