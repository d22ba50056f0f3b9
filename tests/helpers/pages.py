"""What tests of pages share: a small labels dict, a parser that sees a page as a browser does, and what that says."""

import base64
import io
import json
from html.parser import HTMLParser
from typing import Any

from helpers.label_files import rows_of
from PIL import Image

VOID = {"br", "img", "input", "link", "meta"}

CLASSES = "dialog[open] [data-depth='0']"
"""The answer that the folders inside the one that was dropped are classes."""
STOPPED = r"net::ERR_FAILED$|status of 40[49]"  # requests that a test stopped or repeated, a board that it removed


def thumb(color: str = "red", kind: str = "PNG") -> str:
    out = io.BytesIO()
    Image.new("RGB", (4, 4), color).save(out, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def row(file: str, label: str, confidence: float = 0.9, **changes: Any) -> dict[str, Any]:
    document = {"file": file, "label": label, "confidence": confidence, "runner_up": "dog", "margin": 0.1}
    return {**document, "unknown": False, "group": None, "thumb": thumb(), "support": False, **changes}


def labels(
    pictures: list[dict[str, Any]] | None = None, names: tuple[str, ...] = ("cat", "dog"), **changes: Any
) -> dict:
    """A labels dict as `label` writes it."""
    if pictures is None:
        pictures = [
            row("s/cat.png", "cat", 1.0, support=True, runner_up="", margin=1.0),
            row("s/dog.png", "dog", 1.0, support=True, runner_up="", margin=1.0),
            row("a.jpg", "cat", 0.97, margin=0.95),
            row("b.jpg", "cat", 0.55, margin=0.10),
            row("c.jpg", "dog", 0.71, runner_up="cat", margin=0.42),
        ]
    document = {"schema": "protoadapt-labels/1", "title": "Pets", "made": "2025-03-01T10:00:00+00:00"}
    document |= {"model": {"name": "lite0", "dataset": "ImageNet", "weights": "0123456789abcdef", "size": 224}}
    document |= {"method": {"name": "bapa", "settings": {"tau": 10.0}}, "temperature": 0.8}
    document |= {"unnamed": [], "estimate": {"right": 93.2, "low": 88.0, "high": 98.6}}
    document |= {"threshold": 0.3, "versions": {"protoadapt": "0.1.0"}}
    kinds = [(one["label"], one["support"], one["unknown"]) for one in pictures]
    document["classes"] = []
    for name in names:
        support, unknown = kinds.count((name, True, False)), kinds.count((name, False, True))
        found = kinds.count((name, False, False)) + unknown
        document["classes"].append({"name": name, "support": support, "found": found, "unknown": unknown})
    document |= {"pictures": pictures}
    return {**document, "skipped": [], "paths": None, **changes}


class Parsed(HTMLParser):
    """Elements in order, as (name, attributes, text directly and below); fails where tags do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[list[str]] = []
        self.open: list[int] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {[self.elements[i][0] for i in self.open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        self.elements.append((tag, dict(attrs)))
        self.texts.append([])
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag, f"</{tag}> closes another"

    def handle_data(self, data: str) -> None:
        for i in self.open:
            self.texts[i].append(data)

    def all(self, tag: str, style: str = "") -> list[tuple[dict[str, str | None], str]]:
        """Attributes and text of every such element, of those with a class where one is named."""
        return [
            (attrs, "".join(words))
            for (name, attrs), words in zip(self.elements, self.texts)
            if name == tag and (not style or style in (attrs.get("class") or "").split())
        ]

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(name, tuple(attrs)) for name, attrs in self.elements]


def board_data(page: str) -> dict[str, Any]:
    """What the board of a labels page shows."""
    (text,) = [text for attributes, text in Parsed(page).all("script") if attributes.get("id") == "board-data"]
    return json.loads(text)


def watch(page: Any, asked: list[str], said: list[str]) -> None:
    """Collects what a browser's page asks for from now on, and what its scripts say or break with."""
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text))


def serious_findings(page: Any) -> list[str]:
    """Of axe-core; run from a file, as a page's own policy admits no other script."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in serious]


def answered(page: Any) -> None:
    """Waits until the server has answered everything."""
    page.wait_for_selector(".board:not(.busy)")


def saved(page: Any, name: str):
    answered(page)
    page.click("summary:has-text('Save')")
    with page.expect_download() as coming:
        page.click(f"[data-save='{name}']")
    assert coming.value.suggested_filename == name
    return coming.value.path().read_bytes().decode()


def table(page: Any) -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in rows_of(saved(page, "labels.csv"))}
