"""The board in a real browser: a folder dropped, corrected by keyboard, selection, drag and lasso, and saved."""

import json
import re
from itertools import product
from zipfile import ZipFile

import pytest

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

from helpers.label_files import rows_of
from helpers.pages import serious_findings, watch
from PIL import Image

from protoadapt.labeling import label

DROP_FOLDER = """([files, selector]) => {
  const entry = (name, inside) => inside instanceof Map
    ? { name, isDirectory: true, createReader() {
        const left = [...inside].map(([key, value]) => entry(key, value));
        return { readEntries: (found) => found(left.splice(0, 2)) }; // a few at a time, as browsers do
      } }
    : { name, isFile: true, file: (found) => found(new File([new Uint8Array(inside)], name)) };
  const root = new Map();
  for (const [path, bytes] of files) {
    const parts = path.split("/");
    let here = root;
    for (const part of parts.slice(0, -1)) here = here.get(part) ?? here.set(part, new Map()).get(part);
    here.set(parts.at(-1), bytes);
  }
  const event = new Event("drop", { bubbles: true, cancelable: true });
  const items = [...root].map(([name, inside]) => ({ webkitGetAsEntry: () => entry(name, inside) }));
  event.dataTransfer = { items, files: [], types: ["Files"] };
  document.querySelector(selector).dispatchEvent(event);
}"""
"""Drops folders, which a script cannot make: their entries are played."""

CLASSES = "dialog[open] [data-depth='0']"
"""The answer that the folders inside the one that was dropped are classes."""
STOPPED = r"net::ERR_FAILED$|status of 40[49]"  # requests that a test stopped or repeated, a board that it removed
LEAVING = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"


@pytest.fixture(scope="module")
def address(served, tmp_path_factory):
    with served(tmp_path_factory.mktemp("home"), "--max-mb", "1") as address:
        yield address


@pytest.fixture
def blank(chromium, address):
    """The page, just opened. Fails if it asked anything of another computer, or a script of it broke."""
    asked, broken = [], []
    context = chromium.new_context(accept_downloads=True, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    watch(page, asked, broken)
    page.goto(address)
    page.wait_for_selector(".start")
    yield page
    context.close()
    assert asked
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert [text for text in broken if not re.search(STOPPED, text)] == []


@pytest.fixture(scope="session")
def photos(tmp_path_factory, painted):
    """A folder: red/ and blue/ with two pictures each, six loose ones of each colour, three of another."""
    root = tmp_path_factory.mktemp("photos")
    for colour in ("red", "blue"):
        (root / colour).mkdir()
        for i in range(2):
            (root / colour / f"{i}.png").write_bytes(painted(colour, i))
        for i in range(5, 11):
            (root / f"{colour} {i}.png").write_bytes(painted(colour, i))
    for i in range(5, 8):
        (root / f"sea é {i}.png").write_bytes(painted("green", i))
    return root


@pytest.fixture
def page(blank, photos):
    """The page with these pictures."""
    blank.set_input_files("input[webkitdirectory] >> nth=0", photos)
    blank.click(CLASSES)
    blank.wait_for_selector(".status-line:has-text('15 pictures named')")
    return blank


def answered(page) -> None:
    """Waits until the server has answered everything."""
    page.wait_for_selector(".board:not(.busy)")


def saved(page, name):
    answered(page)
    page.click("summary:has-text('Save')")
    with page.expect_download() as coming:
        page.click(f"[data-save='{name}']")
    assert coming.value.suggested_filename == name
    return coming.value.path().read_bytes().decode()


def table(page) -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in rows_of(saved(page, "labels.csv"))}


def test_a_folder_becomes_classes_and_names(page, photos):
    assert page.locator(".classes li").evaluate_all("(all) => all.map((one) => one.dataset.name)") == ["blue", "red"]
    rows = table(page)
    assert len(rows) == 19
    assert {row["guess"] for name, row in rows.items() if "/" in name} == {"(page)"}
    assert all(
        row["label"] == name.split()[0] for name, row in rows.items() if name[:3] in ("red", "blu") and "/" not in name
    )
    report = saved(page, "report.html")
    assert f"<title>{photos.name}" in report
    assert "15 pictures labelled with 2 classes from 4 examples" in report
    page.reload()
    page.wait_for_selector(".tile")
    assert table(page) == rows, "a reload loses nothing"


def test_the_files_are_saved_sorted_into_folders(page, photos):
    rows = table(page)
    page.click(".tile[title='red 5.png']")
    page.fill(".naming input", "a/b: é")
    page.keyboard.press("Enter")
    answered(page)
    page.click("summary:has-text('Save')")
    with page.expect_download() as coming:
        page.click("[data-save='sorted.zip']")
    with ZipFile(coming.value.path()) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert "a%2Fb%3A é/red 5.png" in names
        assert {name.partition("/")[2] for name in names} == set(rows)
        assert archive.read("red/red/0.png") == (photos / "red" / "0.png").read_bytes()
    page.reload()
    page.wait_for_selector(".tile")
    page.click("summary:has-text('Save')")
    page.click("[data-save='sorted.zip']")
    page.wait_for_selector(".toast:has-text('drop the folder once more')")


def test_a_folder_that_is_dropped_is_as_one_that_is_chosen(page, photos, chromium, address):
    rows = table(page)
    files = [(f"{photos.name}/{path.relative_to(photos).as_posix()}", list(path.read_bytes()))
             for path in sorted(photos.rglob("*.png"))]  # fmt: skip
    other = chromium.new_page()
    other.goto(address)
    other.wait_for_selector(".start")
    other.evaluate(DROP_FOLDER, [[*files, (f"{photos.name}/.hidden/0.png", [1])], ".start"])
    other.click(CLASSES)
    other.wait_for_selector(".status-line:has-text('15 pictures named')")
    assert table(other) == rows
    other.close()


@pytest.fixture(scope="session")
def heap(tmp_path_factory, painted):
    """A folder without any label: 20 pictures of each of three colours."""
    root = tmp_path_factory.mktemp("heap")
    for colour in ("red", "green", "blue"):
        for i in range(20):
            (root / f"{colour} {i}.png").write_bytes(painted(colour, i))
    return root


def test_from_nothing_groups_are_named_by_keyboard_alone(blank, heap):
    blank.set_input_files("input[webkitdirectory] >> nth=0", heap)
    blank.wait_for_selector(".kind >> nth=2")
    assert serious_findings(blank) == []
    blank.focus(".kind input")
    for _ in range(3):
        file = blank.evaluate("() => document.activeElement.closest('.kind').querySelector('img').title")
        left = blank.locator(".kind").count()
        blank.keyboard.type(file.split()[0])
        blank.keyboard.press("Enter")
        answered(blank)
        blank.wait_for_function("(left) => document.querySelectorAll('.kind').length < left", arg=left)
    blank.wait_for_selector("[data-scope=next][aria-current]")
    rows = table(blank)
    assert {(name.split()[0], row["label"]) for name, row in rows.items()} == {(c, c) for c in ("red", "green", "blue")}
    blank.click("button[aria-label^='Undo: 20 pictures → ']")
    blank.wait_for_selector("[data-scope=kinds] .number:text('20')")


def test_a_group_without_a_name_is_looked_at_and_becomes_an_example_of_an_old_class(page, photos):
    """Three pictures of water are too few for a kind; the server's answer is altered so that they are one."""

    def grouped(route):
        answer = route.fetch()
        altered = answer.json()
        seas = [place for place, one in enumerate(altered["pictures"]) if one["name"].startswith("sea")]
        altered["groups"] = [seas] if seas else altered["groups"]
        route.fulfill(response=answer, json=altered)

    page.route("**/api/boards/*?since=0*", grouped)
    page.reload()
    page.click("[data-scope=kinds]")
    page.click("text=Look at all 3")
    page.wait_for_function("() => document.querySelectorAll('.tile').length === 3")
    page.click(".tile >> nth=2")
    odd = page.get_attribute(".tile.focus", "title")
    page.keyboard.press("u")
    answered(page)
    page.wait_for_selector(".kind:has-text('2 pictures look like a kind without a name')")
    page.fill(".kind input", "Red")
    page.keyboard.press("Enter")
    answered(page)
    rows = table(page)
    assert rows[odd]["label"] == "unknown"
    said = [(row["label"], row["guess"]) for name, row in rows.items() if name.startswith("sea") and name != odd]
    assert said == [("red", "(page)")] * 2
    assert page.locator(".classes li").count() == 2, "an old name makes no new class"


@pytest.fixture(scope="session")
def layout(tmp_path_factory, painted):
    """examples/CLASS/ and photos/ in one folder, one of the photos large."""
    root = tmp_path_factory.mktemp("layout")
    for colour in ("red", "blue"):
        (root / "examples" / colour).mkdir(parents=True)
        for i in range(2):
            (root / "examples" / colour / f"{i}.png").write_bytes(painted(colour, i))
    (root / "photos").mkdir()
    day = Image.Exif()
    day[0x132] = "2019:05:31 12:00:00"  # DateTime
    Image.new("RGB", (2400, 1200), "red").save(root / "photos" / "large.png", exif=day)
    return root


def test_a_folder_asks_what_its_folders_are(blank, layout):
    def drop(answer):
        blank.set_input_files("input[webkitdirectory] >> nth=0", layout)
        blank.wait_for_selector("dialog[open]")
        assert serious_findings(blank) == []
        answer()

    drop(lambda: blank.keyboard.press("Escape"))
    assert blank.locator("dialog[open]").count() == 0
    assert blank.is_visible(".start"), "nothing was added"
    drop(lambda: blank.click("[data-depth='-1']"))
    blank.wait_for_selector(".status-line:has-text('5 pictures')")
    assert blank.locator(".classes li").count() == 0
    drop(lambda: blank.click("[data-depth='1']"))
    blank.wait_for_selector(".status-line:has-text('1 picture named from 4 labels of 2 classes')")
    assert blank.inner_text("h1") == layout.name
    blank.click("[data-scope=all]")
    blank.select_option("select[aria-label=Order]", "date")
    blank.wait_for_selector(".tile[title='photos/large.png'][aria-posinset='1']")


def test_full_size_is_the_file_itself_and_zooms(blank, layout):
    width = "() => document.querySelector('.pane img').naturalWidth"
    blank.set_input_files("input[webkitdirectory] >> nth=0", layout)
    blank.click("[data-depth='1']")
    blank.click(".tile[title='photos/large.png']")
    blank.keyboard.press("Space")
    blank.wait_for_function(f"({width})() === 2400")
    for key, zoom in (("+", "150%"), ("-", "100%")):
        blank.keyboard.press(key)
        assert blank.evaluate("() => document.querySelector('.pane img').style.width") == zoom
    blank.click(".pane img", position={"x": 20, "y": 20})
    assert blank.evaluate("() => document.querySelector('.pane img').style.width") == "300%"
    file = blank.get_attribute(".full .path >> nth=0", "class")
    blank.keyboard.press("ArrowRight")
    assert blank.get_attribute(".full .path >> nth=0", "class") == file
    assert blank.get_attribute(".tile.focus", "title") == "photos/large.png", "arrows move the picture that is zoomed"
    blank.reload()
    blank.click(".tile[title='photos/large.png']")
    blank.keyboard.press("Space")
    blank.wait_for_function(f"({width})() === 800")


def test_a_picture_is_shown_beside_examples_and_similar_ones_are_found(page):
    page.click("[data-scope=all]")
    page.click(".tile[title='red 5.png']")
    page.wait_for_selector(".choice[data-name=red] + .beside img[title='red/0.png']")
    assert page.locator(".choice[data-name=blue] + .beside img").count() == 2
    page.wait_for_selector(".inspector:has-text('Its density is')")
    assert serious_findings(page) == []
    page.keyboard.press("f")
    page.wait_for_selector(".group:has-text('The most similar first')")
    near = page.locator(".tile").evaluate_all(
        "(all) => all.sort((a, b) => a.ariaPosInSet - b.ariaPosInSet).map((one) => one.title)"
    )
    assert near[0] == "red 5.png"
    assert {name[:3] for name in near[:8]} == {"red"}


def test_labels_are_checked_on_the_page(page):
    page.click(".tile[title='red 5.png']")
    page.keyboard.press("1")  # blue
    answered(page)
    page.click("button[aria-label^='Check labels']")
    page.wait_for_function("() => !document.querySelector('[data-scope][aria-current]')")
    titles = page.locator(".group .name").all_inner_texts()
    assert titles
    assert set(titles) <= {"Almost the same picture", "Labelled blue, looks like red", "Resemble no other picture"}
    assert serious_findings(page) == []


def test_cards_say_why_and_the_unsure_are_sifted_out(page):
    """All of these pictures are certain: the server's answer is altered."""

    def unsure(route):
        answer = route.fetch()
        altered = answer.json()
        first = altered["next"][0]
        altered["answers"]["confidence"][first] = 0.5
        route.fulfill(response=answer, json=altered | {"reasons": {first: "red or blue"}, "suggested": 1})

    page.route("**/api/boards/*?since=0*", unsure)
    page.reload()
    page.click("[data-scope=next]")
    page.wait_for_selector(".tile .reason")
    card = page.inner_text(".tile >> nth=0")
    assert re.search(r"\.png\s.*%", card, re.DOTALL), "file and confidence"
    assert " or " in card
    page.click("[data-scope=all]")
    every = page.locator(".tile").count()
    page.select_option("select[aria-label=Confidence]", "most")
    page.wait_for_function("(every) => document.querySelectorAll('.tile').length < every", arg=every)
    assert page.locator(".tile.given").count() == 0, "your own are certain"
    named = page.locator(".classes .number").all_inner_texts()
    rows = [row["label"] for row in table(page).values() if row["unknown"] == "no"]
    assert [int(number) for number in named] == [rows.count(name) for name in ("blue", "red")], "as the terminal counts"


def test_what_is_sent_read_and_named_is_said(blank, photos):
    held = []
    blank.route("**/pictures", lambda route: held.append(route))
    blank.set_input_files("input[webkitdirectory] >> nth=0", photos)
    blank.click(CLASSES)
    blank.wait_for_selector(".progress:has-text('0 of 19 files sent, 0 read')")
    naming = []
    blank.route("**/api/boards/*?*names=true", lambda route: naming.append(route))
    for route in held:
        route.continue_()
    blank.wait_for_selector(".progress:has-text('Naming')")
    for route in naming:
        route.continue_()
    blank.wait_for_selector(".progress", state="hidden")
    blank.wait_for_selector(".status-line:has-text('15 pictures named')")


def test_new_names_leave_the_picture_that_is_answered_at_the_head_of_the_queue(page):
    """The server may suggest others by then; its answer is altered here so that it does."""
    place = "() => Number(document.querySelector('.tile.focus').ariaPosInSet)"

    def others(route):
        answer = route.fetch()
        altered = answer.json()
        altered["next"] = altered["next"][::-1]
        altered["reasons"] = {}
        route.fulfill(response=answer, json=altered)

    page.route("**/changes*", others)
    page.keyboard.press("s")
    page.wait_for_selector(".tile.focus")
    for key in ("1", "Enter", "u"):
        before = page.get_attribute(".tile.focus", "title")
        page.keyboard.press(key)
        page.wait_for_function("(name) => document.querySelector('.tile.focus').title !== name", arg=before)
        looked = page.get_attribute(".tile.focus", "title")
        answered(page)
        assert page.get_attribute(".tile.focus", "title") == looked, "nothing is exchanged under the fingers"
        assert page.evaluate(place) == 1
    page.keyboard.press("End")
    page.wait_for_function(f"({place})() > 1")
    for _ in range(2):
        page.keyboard.press("s")
        page.wait_for_function(f"({place})() === 1")


def test_classes_are_renamed_merged_and_deleted(page):
    before = table(page)

    def edit(name, new):
        page.click(f".classes li[data-name='{name}'] .dots")
        page.fill("#class-name", new)
        page.keyboard.press("Enter")
        answered(page)

    def names():
        return page.locator(".classes li").evaluate_all("(all) => all.map((one) => one.dataset.name)")

    edit("red", "<b>rouge</b>")
    assert names() == ["blue", "<b>rouge</b>"]
    assert page.locator(".side b").count() == 0
    assert table(page)["red 5.png"]["label"] == "<b>rouge</b>"
    edit("<b>rouge</b>", "Blue")
    assert names() == ["blue"]
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    answered(page)
    assert table(page) == before
    page.click(".classes li[data-name=red] .dots")
    page.click("dialog[open] .danger")
    answered(page)
    assert names() == ["blue"]
    page.click(".toast:has-text('The class red is deleted') .again")
    answered(page)
    assert names() == ["blue", "red"]
    assert page.locator(".toast").is_hidden(), "there is nothing more to undo"


def test_a_picture_that_is_left_out_did_not_change_its_class(page):
    page.click("[data-scope=all]")
    page.click(".tile[title='red 5.png']")
    page.keyboard.press("Delete")
    page.wait_for_selector(".status-line:has-text('14 pictures named')")
    answered(page)
    assert "changed class" not in page.inner_text(".status-line")
    page.click(".toast:has-text('1 picture left out.') .again")
    page.wait_for_selector(".status-line:has-text('15 pictures named')")


def test_chosen_pictures_are_dragged_onto_a_new_class_and_others_follow(page):
    page.fill("input[type=search]", "sea")
    page.wait_for_function("() => document.querySelectorAll('.tile').length === 3")
    page.fill(".new-class input", "water")
    page.press(".new-class input", "Enter")
    answered(page)
    page.click(".tile >> nth=0")
    page.click(".tile >> nth=2", modifiers=["Control"])
    assert page.locator(".tile.selected").count() == 2
    place = page.locator(".classes").bounding_box()
    page.drag_and_drop(".tile.selected >> nth=0", ".classes li[data-name=water]")
    answered(page)
    page.wait_for_function("() => document.querySelectorAll('.tile.given').length === 2")
    named = page.locator(".tile").evaluate_all("(all) => all.map((one) => one.ariaLabel.split(', ')[1])")
    assert named == ["water"] * 3, "the third follows"
    assert page.locator(".tile.moved").count() == 1, "and that is shown"
    assert page.inner_text("[data-scope=moved] .number") == "1"
    assert page.locator(".classes").bounding_box()["y"] == place["y"], "no row came between"


def test_the_map_shows_the_picture_below_the_pointer(page):
    page.click("[data-mode=map]")
    box = page.wait_for_selector(".stage canvas").bounding_box()
    page.wait_for_selector("canvas[aria-label^='Map of 19 pictures']")
    for i, j in product(range(40), range(40)):  # until the pointer is at a picture
        page.mouse.move(box["x"] + (i + 0.5) / 40 * box["width"], box["y"] + (j + 0.5) / 40 * box["height"])
        if page.is_visible(".tip"):
            break
    page.wait_for_function("() => document.querySelector('.tip img').naturalWidth > 0")
    assert page.inner_text(".tip strong") in ("red", "blue", "unknown")
    page.click(".kinds button:has-text('t-SNE')")
    page.wait_for_selector(".kinds button:has-text('t-SNE')[aria-pressed=true]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe(blank, photos, scheme):
    blank.emulate_media(color_scheme=scheme)
    assert serious_findings(blank) == []
    blank.set_input_files("input[webkitdirectory] >> nth=0", photos)
    blank.click(CLASSES)
    blank.wait_for_function("() => document.querySelector('.status-line').textContent.startsWith('15 pictures named')")
    blank.keyboard.press("s")
    blank.wait_for_selector(".inspector:not([hidden])")
    assert serious_findings(blank) == []
    for key in ("?", "Space"):
        blank.keyboard.press(key)
        blank.wait_for_selector("dialog[open]")
        assert serious_findings(blank) == []
        blank.keyboard.press("Escape")
    blank.click(".classes li[data-name=red] .dots")
    blank.fill("#class-name", "blue")  # which would merge the two
    assert serious_findings(blank) == []
    blank.keyboard.press("Escape")
    blank.keyboard.press("Control+a")
    blank.click("summary:has-text('Save')")
    assert serious_findings(blank) == []
    blank.click("[data-mode=map]")
    blank.wait_for_selector("canvas[aria-label^='Map of']")
    assert serious_findings(blank) == []


def test_it_fits_a_phone_by_night(page):
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    page.click(".tile >> nth=0")
    page.wait_for_selector(".inspector:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    box = page.locator(".inspector").bounding_box()
    assert (box["x"], box["width"], box["y"] + box["height"]) == (0, 360, 740), "the question is at hand, below"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(ground[:3]) < 64


def test_only_what_is_seen_is_in_the_page(page, painted):
    """Two thousand pictures, of which a screen shows a few dozen; the end of the list is reached all the same."""
    page.route(
        "**/api/boards/*", lambda route: route.fulfill(body=json.dumps(_large()), content_type="application/json")
    )
    page.route(
        re.compile("/(small|large)/"), lambda route: route.fulfill(body=painted("red"), content_type="image/png")
    )
    page.reload()
    page.wait_for_selector(".tile")
    assert 20 < page.locator(".tile").count() < 200
    page.focus("#grid")
    page.keyboard.press("End")
    page.wait_for_selector(".tile.focus[title='1999.png']")
    assert 10 < page.locator(".tile").count() < 200


def _large() -> dict:
    size = 2000
    state = {"id": "x", "revision": 1, "since": 0, "classes": ["a", "b"], "labels": {}, "gone": []}
    state |= {"pictures": [{"name": f"{i}.png"} for i in range(size)], "undo": None, "redo": None}
    columns = {"label": [i % 2 for i in range(size)], "second": [1 - i % 2 for i in range(size)]}
    columns |= {"confidence": [i / size for i in range(size)], "margin": [0.5] * size, "unknown": [0] * size}
    return state | {"answers": columns, "next": [], "reasons": {}, "calibrated": True}


def test_steps_that_no_server_took_are_sent_again(page):
    """They are counted in the header, no file is saved without them, and the page sends them again by itself."""
    page.clock.install()
    page.route("**/changes*", lambda route: route.abort())
    page.keyboard.press("s")
    page.wait_for_selector(".tile.focus")
    first = page.get_attribute(".tile.focus", "title")
    page.keyboard.press("1")
    page.wait_for_selector(".unsaved:has-text('1 step not saved')")
    page.keyboard.press("u")
    page.wait_for_selector(".unsaved:has-text('2 steps not saved')")
    page.clock.fast_forward(60_000)
    page.click("summary:has-text('Save')")
    page.click("[data-save='labels.csv']")
    page.wait_for_selector(".toast:has-text('Not saved: 2 steps did not reach the server')")
    assert page.locator(".unsaved").is_visible(), "for as long as it takes"
    assert page.evaluate(LEAVING), "who leaves is warned"
    page.unroute("**/changes*")
    page.clock.fast_forward(60_000)
    page.wait_for_selector("[data-scope=yours] .number:text('6')")
    page.wait_for_selector(".unsaved", state="hidden")
    assert not page.evaluate(LEAVING)
    rows = table(page)
    assert (rows[first]["label"], rows[first]["guess"]) == ("blue", "(page)")
    assert [row["label"] for row in rows.values()].count("unknown") == 1


def test_a_step_whose_answer_was_lost_takes_no_later_one_with_it(page):

    def cut_off(route):
        route.fetch()
        route.abort()

    page.route("**/changes*", cut_off, times=1)
    page.keyboard.press("s")
    page.wait_for_selector(".tile.focus")
    page.keyboard.press("1")
    page.wait_for_selector(".unsaved:has-text('1 step not saved')")
    page.keyboard.press("u")
    page.wait_for_selector("[data-scope=yours] .number:text('6')")
    page.wait_for_selector(".unsaved", state="hidden")
    rows = table(page).values()
    assert [row["guess"] for row in rows].count("(page)") == 6, "None of these is a person's word too"
    assert [row["label"] for row in rows].count("unknown") == 1


def test_labels_of_a_board_that_the_server_lost_can_be_downloaded(page, address, photos, model, tmp_path):
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")
    gone = {"status": 404, "json": {"detail": "This board is no longer on the server."}}
    page.route("**/api/boards/**", lambda route: route.fulfill(**gone))
    page.fill("input[type=search]", "sea é 5")
    page.click(".tile >> nth=0")
    page.keyboard.press("2")
    page.wait_for_selector(".toast:has-text('This board is no longer on the server')")
    assert page.evaluate(LEAVING)
    with page.expect_download() as coming:
        page.click("text=Download these labels")
    assert not page.evaluate(LEAVING)
    coming.value.save_as(tmp_path / "labels.csv")
    named = label([tmp_path / "labels.csv"], photos, tmp_path / "named", model=model)["pictures"]
    examples = {one["file"]: one["label"] for one in named if one["support"]}
    assert examples == {f"{c}/{i}.png": c for c in ("red", "blue") for i in range(2)} | {"sea é 5.png": "red"}
