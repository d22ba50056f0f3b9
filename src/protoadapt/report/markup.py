"""The sheet that pages are written on: HTML that is escaped by construction, in one file that asks for nothing.

Whatever is not `Html` already is text from outside and is escaped where it enters, so a file name can be anything. A
page carries its own style and script, and a policy that lets nothing else run or load.
"""

import base64
import hashlib
import html
import posixpath
import re
from collections.abc import Iterable
from importlib import resources
from urllib.parse import quote

VOID = {"br", "img", "input", "link", "meta"}
# Controls, line and paragraph separators, characters that turn the direction of what follows, halves of pairs.
HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
PICTURE = re.compile(r"data:image/(?:jpeg|png);base64,[A-Za-z0-9+/]+={0,2}")
NEAR = 2  # folders that a link may go up
COLORS, SHAPES = 8, 5  # class i has colour i mod 8 and shape i mod 5: forty classes before two look alike


class Html(str):
    """Markup that needs no escaping any more."""

    __slots__ = ()


def visible(value: object) -> str:
    """Text as it can be shown: a newline in a file name, or a byte that is no text, becomes a sign one can see."""

    def sign(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code < 0x20:
            return chr(0x2400 + code)
        return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "\ufffd"  # Python's escaped bytes

    return HIDDEN.sub(sign, str(value))


def inner(*children: object) -> Html:
    """Children joined: markup as it is, all else as text; None and False vanish, lists are opened."""
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
    """A picture that lies in the page itself, or None for anything else."""
    return url if isinstance(url, str) and PICTURE.fullmatch(url) else None


def link(folder: object, file: str) -> str | None:
    """To a file as seen from the page, by a path that stays near it; None for anything else."""
    if not isinstance(folder, str) or "\\" in folder + file:  # a name that is no plain text is written otherwise
        return None
    way = posixpath.normpath(posixpath.join(folder, file))
    near = not way.startswith("/") and way.split("/").count("..") <= NEAR
    return quote(way, errors="replace") if near else None


def name_of(value: object) -> Html:
    """A name from outside, apart from its surroundings: a name written from right to left turns nothing but itself."""
    return tag("bdi", value)


def section(title: str, *children: object, id_: str, note: object = None) -> Html:
    head = [tag("h2", title, id=f"{id_}-title"), tag("p", note, class_="note") if note else None]
    return tag("section", head, *children, id=id_, aria_labelledby=f"{id_}-title")


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """What is known, as a list of terms; what is empty is left out."""
    shown = [(term, value) for term, value in pairs if value not in (None, "", [], {})]
    return tag("dl", [tag("div", tag("dt", term), tag("dd", value)) for term, value in shown], class_="facts")


def page(title: str, *body: object, of: str, script: bool = False) -> str:
    """The whole file, which says what it is a page `of`.

    Its policy names style and script by their hash: nothing else runs, nothing is fetched.
    """
    css, js = (resources.files(__package__).joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    policy = f"default-src 'none'; img-src data:; style-src {_hash(css)}; base-uri 'none'; form-action 'none'"
    policy += f"; script-src {_hash(js)}" if script else ""
    head = [
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
    end = tag("script", Html(js)) if script else None
    return "<!doctype html>\n" + tag("html", tag("head", head), tag("body", tag("main", *body), end), lang="en") + "\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
