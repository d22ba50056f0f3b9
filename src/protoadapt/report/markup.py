"""HTML that is escaped by construction, and the frame of a page that loads nothing from outside.

Everything that is not `Html` is text from outside and is escaped where it enters, so a file name can be anything. A
page carries its own style and script, and a policy under which nothing else runs or loads.
"""

import base64
import hashlib
import html
import json
import posixpath
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import quote

VOID = {"br", "img", "input", "link", "meta"}
# Control characters, line and paragraph separators, characters that change the writing direction, lone surrogates.
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PICTURE = re.compile(r"data:image/(?:jpeg|png|webp);base64,[A-Za-z0-9+/]+={0,2}")
NEAR = 2  # folders that a link may go up
COLORS, SHAPES = 8, 5  # class i has colour i mod 8 and shape i mod 5, so forty classes look different


class Html(str):
    """Markup: text that needs no escaping."""

    __slots__ = ()


def visible(value: object) -> str:
    """Text with a visible sign for each invisible character, such as a newline or an undecodable byte."""

    def sign(match: re.Match[str]) -> str:
        code = ord(match[0])
        if code < 0x20:
            return chr(0x2400 + code)
        return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "\ufffd"  # Python's escaped bytes

    return _HIDDEN.sub(sign, str(value))


def inner(*children: object) -> Html:
    """Join children: markup as it is, everything else as text; None and False are left out, lists are flattened."""
    out: list[str] = []
    for child in children:
        if isinstance(child, Html):
            out.append(child)
        elif isinstance(child, (list, tuple)):
            out.append(inner(*child))
        elif child is not None and child is not False:
            out.append(html.escape(visible(child)))
    return Html("".join(out))


def tag(element: str, /, *children: object, **attributes: object) -> Html:
    """One element. `class_` is written class, `aria_label` aria-label; None and False leave an attribute out."""
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(f" {key}" if value is True else f' {key}="{html.escape(visible(value))}"')
    end = "" if element in VOID else f"{inner(*children)}</{element}>"
    return Html(f"<{element}{''.join(words)}>{end}")


def picture(url: object) -> str | None:
    """The URL if it is a JPEG, PNG or WebP picture held in the URL itself, else None."""
    return url if isinstance(url, str) and PICTURE.fullmatch(url) else None


def link(folder: object, file: str) -> str | None:
    """A relative link from the page to a file at most NEAR folders up, else None."""
    if not isinstance(folder, str) or "\\" in folder + file:  # such a name stands for bytes that are no text
        return None
    path = posixpath.normpath(posixpath.join(folder, file))
    near = not path.startswith("/") and path.split("/").count("..") <= NEAR
    return quote(path, errors="replace") if near else None


def name_of(value: object) -> Html:
    """A name from outside, isolated so that one written from right to left does not reorder the text around it."""
    return tag("bdi", value)


class Section(NamedTuple):
    """A part of a page, to which a link at its beginning leads."""

    id_: str
    words: str  # of the link
    content: Html


def section(title: str, content: object, *, id_: str, note: object = None, words: str = "") -> Section | None:
    """A section with its heading and a line on how to read it; None where there is none."""
    if content is None or content == []:
        return None
    heading = [tag("h2", title, id=f"{id_}-title"), tag("p", note, class_="note") if note else None]
    return Section(id_, words or title, tag("section", heading, content, id=id_, aria_labelledby=f"{id_}-title"))


def table(columns: Iterable[str], rows: Iterable[tuple[object, object]], class_: str | None = None) -> Html:
    """A table of (heading of the row, its cells)."""
    heads = tag("tr", [tag("th", column, scope="col") for column in columns])
    body = [tag("tr", tag("th", heading, scope="row"), cells) for heading, cells in rows]
    return tag("table", tag("thead", heads), tag("tbody", body), class_=class_)


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """A list of terms with their values; empty values are left out."""
    known = [(term, value) for term, value in pairs if value not in (None, "", [], {})]
    return tag("dl", [tag("div", tag("dt", term), tag("dd", value)) for term, value in known], class_="facts")


def pairs(value: object) -> str:
    """A dict as "key value, key value"; empty for anything else."""
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else ""


def page(title: str, *lines: object, sections: Sequence[Section | None], of: str) -> str:
    """A page without a script: a header of `lines` with links to the sections, then the sections."""
    css = "".join(own_file(name) for name in ("palette.css", "page.css"))
    return document_page(title, tag("main", headed(title, lines, sections)), css=css, of=of)


def headed(title: str, lines: object, sections: Sequence[Section | None]) -> Html:
    """A header of `lines` with links to the sections, then the sections."""
    present = [one for one in sections if one]
    nav = tag("nav", [tag("a", one.words, href=f"#{one.id_}") for one in present], aria_label="Sections")
    return inner(tag("header", tag("h1", name_of(title)), lines, nav), [one.content for one in present])


def own_file(name: str) -> str:
    """A style sheet or script of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def document_page(title: str, body: Html, *, css: str, of: str, script: str | None = None, data: Any = None) -> str:
    """The whole file. Its policy names style and script by their hash, so nothing else runs and nothing is loaded.

    `of` says in the file what the page is about. `data` is JSON for the script, under the id `board-data`.
    """
    policy = f"default-src 'none'; img-src data:; style-src {_hash(css)}; base-uri 'none'; form-action 'none'"
    policy += f"; script-src {_hash(script)}" if script else ""
    metadata = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"protoadapt, {of}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(css)),
    ]
    end = []
    if script:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
        text = text.replace("<", "\\u003c")  # no name ends the element
        end += [tag("script", Html(text), type="application/json", id="board-data"), tag("script", Html(script))]
    return "<!doctype html>\n" + tag("html", tag("head", metadata), tag("body", body, end), lang="en") + "\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
