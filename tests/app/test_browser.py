"""One whole round in a real browser, and two visitors who do not see each other."""

import csv
from io import StringIO

import pytest

pytest.importorskip("gradio", reason="the extra `app` is not installed")

TRUTH = "(cards) => Object.fromEntries(cards.map((card) => [card.dataset.name, card.dataset.label]))"


@pytest.fixture(scope="module")
def address(served, tmp_path_factory):
    with served(tmp_path_factory.mktemp("home"), "--max-mb", "1") as address:
        yield address


@pytest.fixture
def page(chromium, address):
    """The page, just opened. Fails if it asked anything of another computer, or a script of it broke."""
    asked, broken = [], []
    context = chromium.new_context(accept_downloads=True)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("console", lambda said: broken.append(said.text) if said.type == "error" else None)
    page.goto(address)
    page.wait_for_selector(".board.empty")
    yield page
    context.close()
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert broken == []


@pytest.fixture(scope="module")
def files(painted):
    """files("red", 2, "name"): uploads of that colour, named by it or otherwise."""

    def pictures(colour, numbers, name=None):
        return [
            {"name": f"{name or colour} {i}.png", "mimeType": "image/png", "buffer": painted(colour, i)}
            for i in numbers
        ]

    return pictures


def labels(page) -> dict[str, str]:
    return page.eval_on_selector_all(".card", TRUTH)


def show_examples(page, label, given) -> None:
    page.fill("#name :is(input, textarea)", label)
    page.set_input_files("#examples input", given)
    page.wait_for_selector(f".shelf:has(h3:has-text('{label}')) .examples .card >> nth={len(given) - 1}")


def say(page, name, label) -> None:
    """A click on a picture, a click on a class; or a name typed, where there is no such class yet."""
    page.click(f".card[data-name='{name}']")
    choice = page.locator(f"#choose .choices button:text-is('{label}')")
    if choice.count():
        choice.click()
    else:
        page.fill("#choose input", label)
        page.keyboard.press("Enter")
    page.wait_for_selector(f".examples .card[data-name='{name}'][data-label='{label}']")


def test_a_whole_round(page, files):
    page.click("#save-table")
    page.wait_for_selector(".notice:has-text('nothing to save yet')")
    show_examples(page, "red", files("red", range(2)))
    show_examples(page, "blue", files("blue", range(2)))
    unnamed = [*files("red", range(5, 9)), *files("blue", range(5, 9)), *files("green", range(5, 11), "sea é")]
    page.set_input_files("#others input", unnamed)
    page.wait_for_selector(".card:has(.bar) >> nth=13")
    before = labels(page)
    assert len(before) == 18
    assert all(label == name.split()[0] for name, label in before.items() if not name.startswith("sea"))
    assert {label for name, label in before.items() if name.startswith("sea")} <= {"red", "blue"}

    say(page, "sea é 5.png", "green")
    after = labels(page)
    assert {label for name, label in after.items() if name.startswith("sea")} == {"green"}, "the others follow"
    assert all(label == name.split()[0] for name, label in after.items() if not name.startswith("sea"))
    assert page.locator(".card.moved").count() == 6

    note = {"name": "note.png", "mimeType": "image/png", "buffer": b"no picture at all"}
    large = {"name": "large.png", "mimeType": "image/png", "buffer": files("red", [0])[0]["buffer"] + b"\0" * (1 << 20)}
    page.set_input_files("#others input", [note, *files("blue", [20]), large])
    page.wait_for_selector(".card[data-name='blue 20.png'][data-label='blue']")
    said = page.inner_text(".notice")
    assert "2 files were skipped; the others are below." in said
    assert "note.png: it is no picture of a known kind" in said
    assert "large.png: 1 MB; the limit is 1 MB" in said

    with page.expect_download() as coming:
        page.click("#save-table")
    assert coming.value.suggested_filename == "labels.csv"
    rows = list(csv.DictReader(StringIO(coming.value.path().read_bytes().decode(), newline="")))
    assert {row["file"]: row["label"] for row in rows} == labels(page)
    given = {row["file"] for row in rows if row["guess"] == "(page)"}
    assert given == {"red 0.png", "red 1.png", "blue 0.png", "blue 1.png", "sea é 5.png"}
    with page.expect_download() as coming:
        page.click("#save-report")
    assert coming.value.suggested_filename == "report.html"
    report = coming.value.path().read_text("utf-8")
    assert "14 pictures labelled with 3 classes from 5 examples" in report
    assert "note.png" in report
    assert "How the prototypes moved" in report

    page.click(".examples .card[data-name='sea é 5.png']")
    page.click("#choose [data-act=clear]")
    page.wait_for_selector(".board:not(:has(h3:has-text('green')))")
    assert labels(page)["sea é 5.png"] in ("red", "blue"), "a label can be taken back"
    page.click(".card[data-name='sea é 5.png']")
    page.click("#choose [data-act=drop]")
    page.wait_for_selector(".board:not(:has([data-name='sea é 5.png']))")
    assert len(labels(page)) == 18


def test_a_name_that_is_code_stays_a_name(page, files):
    page.set_input_files("#others input", files("red", range(3)))
    page.wait_for_selector(".card >> nth=2")
    for i, name in enumerate(("<img src=x onerror=alert(1)>", "${alert(1)}")):
        page.click(f".card[data-name='red {i}.png']")
        page.fill("#choose input", name)
        page.keyboard.press("Enter")
        page.wait_for_selector(f".examples .card[data-name='red {i}.png']")
    assert page.locator("h3 bdi").all_text_contents() == ["${alert(1)}", "<img src=x onerror=alert(1)>"]
    assert page.locator("h3 img").count() == 0


def test_pictures_before_a_name_wait_for_it(page, files):
    page.set_input_files("#examples input", files("red", range(2)))
    page.wait_for_selector(".notice:has-text('The class has no name yet')")
    page.fill("#name :is(input, textarea)", "red")
    page.click("#more")
    page.wait_for_selector(".examples .card >> nth=1")
    assert set(labels(page).values()) == {"red"}


def test_visitors_do_not_see_each_other(page, chromium, address, files):
    page.set_input_files("#others input", files("red", range(2)))
    page.wait_for_selector(".card >> nth=1")
    other = chromium.new_page()
    other.goto(address)
    other.wait_for_selector(".board.empty")
    other.set_input_files("#others input", files("blue", range(1)))
    other.wait_for_selector(".card")
    assert set(labels(other)) == {"blue 0.png"}
    other.close()
    page.set_input_files("#others input", files("red", [7]))
    page.wait_for_selector(".card >> nth=2")
    assert set(labels(page)) == {"red 0.png", "red 1.png", "red 7.png"}


def test_it_fits_a_phone_by_night(page, files):
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    page.reload()
    page.wait_for_selector(".board.empty")
    page.set_input_files("#others input", files("red", range(5)))
    page.wait_for_selector(".card >> nth=4")
    page.click(".card >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    box = page.locator("#choose").bounding_box()
    assert (box["x"], box["width"], box["y"] + box["height"]) == (0, 360, 740), "the question is at hand, below"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(ground[:3]) < 64
