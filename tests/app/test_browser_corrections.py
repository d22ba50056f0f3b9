"""The board in a real browser: names corrected by keyboard, selection, drag and lasso, and kept."""

import json
import re
from itertools import product

import pytest

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

from helpers.pages import CLASSES, answered, serious_findings, table

from protoadapt.labeling import label

LEAVING = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"


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
