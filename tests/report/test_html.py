"""The page of labels: nothing from outside becomes markup, nothing is fetched, and it says what the file says."""

import base64
import hashlib
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from helpers.pages import Parsed, board_data, labels, row, thumb
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.core.errors import UserError
from protoadapt.report.documents import report_page
from protoadapt.report.label_page import labels_page
from protoadapt.report.markup import COLORS, picture, visible

NASTY = [
    "<script>alert(1)</script>.png",
    "\"><img src=x onerror=alert(1)>'.jpg",
    "a\nb\r\tc.png",
    "\u202egnp.exe\u2066",
    "שלום עולם.png",
    "caf\udce9\udcff.jpg",
    "\ud83d half",
    "</style></title></details>&amp;&#x3c;",
    "😀 & ünïcode\x00\x1b[31m\x85\u2028",
    "javascript:alert(1)",
    "x" * 300,
    "",
]
names = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=[]), max_size=30))


def parsed(made: dict) -> Parsed:
    page = labels_page(made)
    page.encode()  # every page is UTF-8, whatever a name holds
    return Parsed(page)


def shown(made: dict) -> dict:
    return board_data(labels_page(made))


def made_with(file: str, a: str, b: str, reason: str, title: str) -> dict:
    pictures = [
        row(file, a, 1.0, support=True),
        row(file, b, 0.8, runner_up=a),
        row(file, b, 0.2, runner_up=a, unknown=True),
        row(file, a, 0.5, runner_up=b, thumb=None),
    ]
    paths = {"rows": [[0, 0], [1, 1]], "row_label": [0, 1], "support": [True, False]}
    paths["steps"] = [[[0, 0], [0.5, 0.5]], [[9, 1], [5, 5]]]
    made = labels(pictures, (a, b), title=title, skipped=[{"file": file, "reason": reason}], paths=paths)
    return {
        **made,
        "model": {"name": a, "dataset": b, "weights": reason, "size": file},
        "versions": {a: b, "x": file},
    }


@settings(max_examples=60, deadline=None)
@given(names, names, names, names, names)
def test_names_from_outside_change_no_markup(file, a, b, reason, title):
    a, b = a + "1", b + "2"  # two classes, whatever is drawn
    hostile = parsed(made_with(file or "f", a, b, reason or "r", title or "t"))
    harmless = parsed(made_with("file", "one1", "two2", "reason", "title"))
    # Names beside the stars appear where there is room for them: in text elements, which are no one's markup.
    assert [e for e in hostile.shape if e[0] != "text"] == [e for e in harmless.shape if e[0] != "text"]
    assert hostile.all("h1")[0][1] == visible(title or "t")
    assert visible(file or "f") in [text for _, text in hostile.all("bdi")]
    (data,) = [text for attributes, text in hostile.all("script") if "id" in attributes]
    assert json.loads(data)["files"] == [file or "f"] * 4, "data keeps names as they are"


@given(st.text(st.characters(exclude_categories=[])))
def test_what_is_shown_can_be_seen(text):
    shown = visible(text)
    shown.encode()
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert visible("a\nb\udcff") == "a␊b\\xff"


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.org/a.png", "javascript:alert(1)", "file:///etc/passwd", "", None, 7, {"a": 1}),
        *("data:image/svg+xml;base64,AAAA", "data:text/html;base64,AAAA", "data:image/png,AAAA"),
        *('data:image/png;base64,AA"onload="x', "data:image/png;base64,AAAA\n", " data:image/png;base64,AAAA"),
        *("data:image/png;base64,", "data:image/png;base64,AA==AA", "DATA:image/png;base64,AAAA"),
    ],
)
def test_only_pictures_inside_the_page_are_shown(url):
    assert picture(url) is None
    assert shown(labels([row("a.png", "cat", thumb=url, preview=url)]))["small"] == [""]
    for kind in ("PNG", "JPEG", "WEBP"):
        assert picture(thumb("red", kind)) == thumb("red", kind)


def test_nothing_is_fetched_and_nothing_foreign_runs():
    page = labels_page(labels())
    seen = Parsed(page)
    policy = next(a["content"] for a, _ in seen.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for kind in ("style", "script"):
        (text,) = [text for attributes, text in seen.all(kind) if "type" not in attributes]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    for tag, attributes in seen.elements:
        assert not [key for key in attributes if key == "style" or key.startswith("on")], tag
        for key in ("src", "href", "action", "srcset"):
            assert re.match(r"data:|#", attributes.get(key) or "#"), attributes[key]
    assert not re.search(
        r"(?<!\")https?:|url\(|@import|innerHTML|eval\(", page.replace("http://www.w3.org/2000/svg", "")
    )


def test_links_lead_inside_the_page():
    made = labels(paths={"rows": [[0, 0]] * 3, "row_label": [0, 1, -1], "support": [True, False, False], "steps": []})
    page = parsed({**made, "skipped": [{"file": "x", "reason": "broken"}]})
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [attributes["href"] for attributes, _ in page.all("a")]
    assert {"#counts", "#motion", "#skipped", "#provenance", "#class-1"} <= set(targets)
    assert {target.removeprefix("#") for target in targets} <= set(ids)
    assert all(a.get("aria-hidden") == "true" or a.get("aria-label") for a, _ in page.all("svg") if "class" in a)
    headings = [name for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert headings[0] == "h1"
    assert all(int(b[1]) <= int(a[1]) + 1 for a, b in pairwise(headings)), "no level is left out"


def test_the_board_has_every_picture_as_it_is_written():
    board = shown(labels())
    assert board["files"] == ["s/cat.png", "s/dog.png", "a.jpg", "b.jpg", "c.jpg"]
    assert [board["classes"][code] for code in board["label"]] == ["cat", "dog", "cat", "cat", "dog"]
    assert board["given"] == ["cat", "dog", None, None, None]
    assert board["confidence"][2:] == [0.97, 0.55, 0.71]
    assert set(board["small"]) == {thumb()}
    points = {"points": [[0, 1.5], None, [1, 1], [2, 2], [3, 3]], "paths": {"cat": [[0, 0], [1, 1]]}}
    assert (board["map"], shown(labels(map=points))["map"]) == (None, points)
    plain = parsed(labels()).all("noscript")[0][1]
    assert "a.jpg" in plain, "without scripts there are the labels"


def test_a_file_without_suggestions_begins_with_the_least_certain():
    many = [row(f"{i}.png", "cat", i / 100) for i in range(60)]
    board = shown(labels(many))
    assert (board["next"][:18], board["suggested"]) == (list(range(18)), 18)


def test_suggestions_stand_in_their_order_with_their_reasons():
    made = [{"file": "c.jpg", "kind": "uncertain", "reason": "dog or <cat>"}, {"file": "gone.jpg", "reason": "?"}]
    made += [{"file": "a.jpg", "reason": "resembles no example"}, {"file": "s/cat.png", "reason": ""}]
    board = shown(labels(next=made))
    assert board["next"] == [4, 2, 3], "no examples, no other files; then the rest"
    assert board["suggested"] == 2
    assert board["reasons"] == {"4": "dog or <cat>", "2": "resembles no example"}


def test_who_gave_a_label_is_known():
    said = [row("f", "cat", support=True), row("t", "cat", support=True, guess="(table)")]
    said += [row("u", "dog", unknown=True, no_class=True, guess="(table)"), row("g", "dog")]
    board = shown(labels(said))
    assert (board["given"], board["origin"], board["correction"]) == (
        ["cat", "cat", "unknown", None],
        [None, "(table)", "(table)", None],
        "(table)",
    )
    board = shown(labels([row("p", "cat", support=True, guess="(page)")]))
    assert (board["origin"], board["correction"]) == (["(page)"], "(page)")


def test_counts_and_bars_are_of_all_pictures_though_a_sample_is_shown():
    kinds = {"cat": (2, 3, 0), "dog": (0, 2000, 500)}
    classes = [dict(zip(("name", "support", "found", "unknown"), (name, *of))) for name, of in kinds.items()]
    page = parsed(labels([row("a", "cat"), row("b", "dog", unknown=True)], classes=classes))
    (table,) = [text for attributes, text in page.all("table") if attributes["class"] == "balance"]
    assert table == "classpicturesunknownexamples" + "cat502" + "dog1,5005000"
    widths = {a["class"]: a["width"] for a, _ in page.all("rect")}
    assert widths == {"c0 solid": "0.10%", "c0": "0.15%", "c1": "75.00%", "c1 faint": "25.00%"}
    lead = page.all("p", "lead")[0][1]
    assert lead == "2,003 pictures labelled with 2 classes from 2 examples. 500 may belong to no class."


def test_the_page_says_whether_unknown_pictures_are_found():
    sure, unsure = parsed(labels()), parsed(labels(threshold=None))
    assert "resembles none of the classes is marked unknown" in sure.all("header")[0][1]
    assert "density below 0.300" in sure.all("div", "details")[0][1]
    assert "No picture is marked unknown: for that the method must be bapa" in unsure.all("header")[0][1]
    assert all("about 80 % are right" in page.all("header")[0][1] for page in (sure, unsure))
    assert "About 93 of 100 names are right (88–99)." in sure.all("header")[0][1]
    assert "2 classes have one example, which is few" in sure.all("header")[0][1]
    assert (shown(labels())["calibrated"], shown(labels(threshold=None))["calibrated"]) == (True, False)


def test_two_thousand_pictures_weigh_little_more_than_their_previews():
    small = thumb()
    made = labels([row(f"folder/{i}.jpg", "cat", i / 2000, thumb=small) for i in range(2000)])
    assert len(labels_page(made)) - 2000 * len(small) < 2000 * 600


scalars = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*labels()]), st.sampled_from([*row("a", "b")]), values)
def test_values_of_any_kind_give_a_page_or_a_sentence(key, inside, value):
    for made in (labels([{**row("a", "cat"), inside: value}]), {**labels(), key: value}):
        try:
            Parsed(report_page({"labels.json": made}))
        except UserError as error:
            assert str(error).startswith("labels.json: it is damaged (")  # noqa: PT017


def test_forty_classes_look_different():
    names = tuple(f"class {i}" for i in range(40))
    page = parsed(labels([row(name, name) for name in names], names))
    table = page.elements[next(i for i, (_, a) in enumerate(page.elements) if a.get("class") == "balance") :]
    marks = [(a["class"], path["d"]) for (_, a), (_, path) in pairwise(table) if "mark" in (a.get("class") or "")][:40]
    assert len(marks) == len(set(marks)) == 40
    css = page.all("style")[0][1]
    for ground in css.split("@media")[:2]:
        values = dict(re.findall(r"--(c\d): (#\w{6})", ground))
        assert len(set(values.values())) == len({style for style, _ in marks}) == COLORS
    for style, _ in marks:
        name = style.removeprefix("mark ")
        assert f".{name} {{ --c: var(--{name}); }}" in css


# Vision without one kind of cone (Machado, Oliveira & Fernandes, 2009), on linear RGB.
SIGHT = {
    "all": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(linear: np.ndarray) -> np.ndarray:
    xyz = linear @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    xyz = xyz / (0.9505, 1, 1.089)
    f = np.where(xyz > 0.008856, np.cbrt(xyz.clip(1e-9)), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], -1)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_are_told_apart_by_everybody_on_both_grounds(mode):
    css = Parsed(labels_page(labels())).all("style")[0][1]
    found = {name: value for name, value in re.findall(r"--(\w+): #(\w{6})", css.split("@media")[mode])}
    rgb = {k: np.array([int(v[i : i + 2], 16) / 255 for i in (0, 2, 4)]) for k, v in found.items()}
    linear = {k: np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4) for k, v in rgb.items()}
    light = {k: float(v @ (0.2126, 0.7152, 0.0722)) + 0.05 for k, v in linear.items()}

    def contrast(a: str, b: str) -> float:
        return max(light[a], light[b]) / min(light[a], light[b])

    colors = [f"c{i}" for i in range(COLORS)]
    for ground in ("sheet", "card"):
        assert all(contrast(text, ground) >= 4.5 for text in ("ink", "soft", "link"))
        assert all(contrast(color, ground) >= 3 for color in (*colors, "none"))
    for name, matrix in SIGHT.items():
        seen = lab(np.stack([linear[c] for c in colors]) @ np.array(matrix).T)
        apart = np.linalg.norm(seen[:, None] - seen, axis=-1) + 100 * np.eye(COLORS)
        assert apart.min() > 15, (name, apart.min())


def test_what_is_looked_at_closely_is_shown_large():
    small, large = thumb("red"), thumb("blue")
    board = shown(
        labels([row("a", "cat", 0.5, preview=large), row("v", "cat"), row("w", "cat", thumb=None, preview=large)])
    )
    assert (board["small"], board["large"]) == ([small, small, large], {"0": large})


@pytest.mark.parametrize(
    ("folder", "file", "link"),
    [
        ("../photos", "day 1/é#?.jpg", "../photos/day%201/%C3%A9%23%3F.jpg"),
        ("../photos", "../pictures/cat/1.jpg", "../pictures/cat/1.jpg"),
        (".", "a.jpg", "a.jpg"),
        (".", "javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("javascript:alert(1)//", "a", "javascript%3Aalert%281%29/a"),
        ("../..", "../a.jpg", None),
        ("//example.org", "a.jpg", None),
        ("/home/me", "a.jpg", None),
        ("../photos", "/etc/passwd", None),
        ("../photos", "caf\\xe9.jpg", None),
        (None, "a.jpg", None),
        (7, "a.jpg", None),
    ],
)
def test_an_opened_picture_links_to_its_file_where_that_is_near(folder, file, link):
    assert shown(labels([row(file, "cat", 0.5)], folder=folder))["links"] == ({"0": link} if link else {})
