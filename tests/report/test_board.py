"""The board of a report, in a real browser and without a network: looked through, corrected, saved, fed back."""

import csv
import re
import shutil
from io import StringIO

import pytest
from helpers.pages import labels, row, serious_findings

from protoadapt.labeling import label
from protoadapt.report.label_page import BOARD_FILES, labels_page
from protoadapt.report.markup import resources


@pytest.fixture
def opened(opened):
    """opened(labels): the board of a report in a browser."""

    def show(document, **options):
        view = opened(labels_page(document), **options)
        view.wait_for_selector(".tile")
        return view

    return show


def titles(view) -> list[str]:
    """The pictures in the order of the page."""
    sort = "sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)"
    return view.evaluate(f"() => [...document.querySelectorAll('.tile')].{sort}.map((tile) => tile.title)")


def test_it_finds_sorts_and_opens(opened):
    suggested = [{"file": "c.jpg", "reason": "dog or cat"}, {"file": "b.jpg", "reason": "cat or dog"}]
    view = opened(labels(folder="../photos", next=suggested))
    assert titles(view)[:2] == ["c.jpg", "b.jpg"], "what to label next comes first"
    assert view.inner_text("[data-scope=next] .number") == "2"
    view.click("[data-scope=all]")
    view.wait_for_function("() => document.querySelectorAll('.tile').length === 5")
    assert titles(view) == ["b.jpg", "a.jpg", "s/cat.png", "c.jpg", "s/dog.png"]
    view.select_option("select", "sure")
    view.wait_for_function("() => document.querySelector('.tile[aria-posinset=\"1\"]').title === 'a.jpg'")
    view.fill("input[type=search]", "B.JPG")
    view.wait_for_function("() => document.querySelectorAll('.tile').length === 1")
    assert titles(view) == ["b.jpg"]
    view.click(".tile")
    assert view.get_attribute(".inspector .file a", "href") == "../photos/b.jpg"
    view.fill("input[type=search]", "")
    view.click("[data-mode=about]")
    view.click("a[href='#class-1']")
    view.wait_for_function("() => document.querySelectorAll('.tile').length === 2")
    assert titles(view) == ["c.jpg", "s/dog.png"], "a link lands where it says"


def test_a_group_without_a_name_is_named_at_once(opened):
    pictures = [row("s/cat.png", "cat", 1.0, support=True), row("s/dog.png", "dog", 1.0, support=True)]
    pictures += [row(f"{i}.jpg", "cat", 0.5, unknown=True, group=f"unnamed-{1 + (i > 3)}") for i in range(6)]
    view = opened(labels(pictures))
    view.click("[data-scope=kinds]")
    assert view.locator(".kind").all_inner_texts()[0].startswith("4 pictures look like a kind without a name")
    view.fill(".kind input >> nth=0", "eel")
    view.keyboard.press("Enter")
    view.wait_for_function("() => document.querySelectorAll('.kind').length === 1")
    assert serious_findings(view) == []
    assert view.inner_text("#save-corrections .number") == "4"
    view.keyboard.press("Escape")
    view.keyboard.press("Control+z")
    view.wait_for_function("() => document.querySelectorAll('.kind').length === 2")


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_sticks_out_and_axe_finds_nothing_serious(opened, width):
    paths = {"rows": [[0, 0], [1, 1]], "row_label": [0, 1], "support": [True, False], "steps": [[[0, 0]], [[1, 1]]]}
    points = {"points": [[i, i] for i in range(5)], "paths": {"cat": [[0, 1], [1, 1]]}}
    document = labels(paths=paths, map=points, skipped=[{"file": "x" * 200, "reason": "broken"}])
    view = opened(document, width=width, color_scheme="dark")
    view.keyboard.press("s")
    for mode in ("grid", "map", "about"):
        view.click(f"[data-mode={mode}]")
        assert view.evaluate("document.documentElement.scrollWidth") == width
        assert serious_findings(view) == []


def test_paper_holds_every_picture_in_order_and_no_buttons(opened):
    many = [row(f"{i:03d}.jpg", "cat" if i % 2 else "dog", 0.9) for i in range(120)]
    view = opened(labels([row("s/cat.png", "cat", 1.0, support=True), *many]))
    view.click("[data-scope=all]")
    view.click(".tile >> nth=0")  # the large preview is not printed either
    document = view.pdf(format="A4")
    assert document.startswith(b"%PDF")
    pages = max(int(number) for number in re.findall(rb"/Count (\d+)", document))
    assert 3 <= pages <= 20, "all pictures in rows, neither one page cut off nor one picture per page"
    view.emulate_media(media="print")
    view.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert view.locator(".tile").count() == 121
    seen = view.eval_on_selector_all(".tile", "(all) => all.map((one) => one.getBoundingClientRect().toJSON())")
    assert seen == sorted(seen, key=lambda box: (box["top"], box["left"])), "as on the screen"
    assert max(box["right"] for box in seen) <= view.evaluate("document.documentElement.clientWidth")
    for hidden in (".side", ".inspector", ".tools", ".view-tools"):
        assert not view.locator(hidden).is_visible()
    assert view.locator("h1").first.is_visible()


def test_corrections_stay_in_the_browser_and_become_a_csv(opened):
    pictures = [row("s/cat.png", "cat", 1.0, support=True), row("s/dog.png", "dog", 1.0, support=True)]
    pictures += [
        row(name, "cat", 0.5 + i / 100) for i, name in enumerate(('a,"b".jpg', "=c.jpg", "d.jpg", "e.jpg", "f.jpg"))
    ]
    document = labels(pictures)
    view = opened(document)
    view.click("#save-corrections")
    view.wait_for_selector(".toast:has-text('nothing to save yet')")
    view.keyboard.press("s")
    view.keyboard.press("2")  # a,"b".jpg is a dog
    view.keyboard.press("Enter")  # =c.jpg is a cat indeed
    view.keyboard.press("u")  # d.jpg is neither
    view.keyboard.press("c")
    view.keyboard.type("=cmd()")
    view.keyboard.press("Enter")  # e.jpg
    view.keyboard.press("1")
    view.keyboard.press("Control+z")  # f.jpg is left alone
    view.close()
    again = opened(document)
    again.wait_for_function("() => document.querySelector('#save-corrections .number').textContent === '4'")
    with again.expect_download() as coming:
        again.click("#save-corrections")
    text = coming.value.path().read_bytes().decode()
    rows = list(csv.reader(StringIO(text, newline="")))
    assert rows == [
        ["file", "label", "guess"],
        ['a,"b".jpg', "dog", "(table)"],
        ["./=c.jpg", "cat", "(table)"],
        ["d.jpg", "unknown", "(table)"],
        ["e.jpg", "'=cmd()", "(table)"],
    ]


def test_a_report_corrected_offline_is_fed_back(folder, model, opened, without_paths):
    out = folder / "named"
    sources = [folder / "support"]
    result = label(sources, folder / "images", out, model=model)
    asked = [one["file"] for one in result["pictures"] if not one["support"]]
    view = opened(result)
    view.keyboard.press("s")
    picture = view.locator(".tile.focus").get_attribute("title")
    assert picture in asked
    view.keyboard.press("c")
    view.keyboard.type("strange")
    view.keyboard.press("Enter")
    with view.expect_download() as coming:
        view.click("#save-corrections")
    table = folder / "corrections.csv"
    shutil.copy(coming.value.path(), table)
    after = label([*sources, table], folder / "images", out, model=model)
    assert [one["name"] for one in after["classes"]] == ["blue", "green", "red", "strange"]
    assert [(one["file"], one["label"]) for one in after["pictures"] if one.get("guess") == "(table)"] == [
        (picture, "strange")
    ]


def test_the_modules_make_one_script():
    """Their names are unique and imports have one form, so that they can be written one after the other."""
    read = resources.files("protoadapt.report").joinpath
    names: list[str] = []
    for file in (*(name for name in BOARD_FILES if name.endswith(".js")), "board/frozen.js"):
        text = read(file).read_text("utf-8")
        names += re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
        for line in re.findall(r"^(?:import|export).*", text, re.MULTILINE):
            assert re.match(r'import \{ [\w, ]+ \} from "\./\w+\.js";$|export (?:async )?(?:function|const) ', line), (
                line
            )
        assert len(text.splitlines()) <= 260, file
    assert len(names) == len(set(names))


def test_names_are_not_cut_where_they_differ_and_the_proposed_class_stands_first(opened):
    names = ("American_Crow", "American_Goldfinch", "White_breasted_Nuthatch", "White_necked_Raven")
    document = [row(f"{i}.jpg", name, 1.0, support=True) for i, name in enumerate(names)]
    document.append(row("u.jpg", names[1], 0.55, runner_up=names[0], margin=0.27, unknown=True))
    view = opened(labels(document, names))
    view.click("[data-scope=all]")
    view.fill("input[type=range]", "80")
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"
    assert view.eval_on_selector_all(".side .name", cut) == []
    ends = "(all) => all.map((one) => one.lastChild.textContent)"
    shown = view.eval_on_selector_all(".tile.given .line .name", ends)
    assert shown == ["Crow", "Goldfinch", "breasted_Nuthatch", "necked_Raven"]
    right = "getBoundingClientRect().right"
    over = f"(all) => all.filter((one) => one.{right} > one.closest('.tile').{right}).length"
    assert view.eval_on_selector_all(".tile .name", over) == 0
    assert view.get_attribute(".tile.given .line .name >> nth=1", "title") == "American_Goldfinch"
    assert view.inner_text(".tile.unknown .file .name") == "u.jpg"
    view.click(".tile.unknown")
    offered = view.locator(".choice.primary").evaluate_all(
        "(all) => all.map((one) => [one.dataset.name, one.querySelector('.sure').textContent])"
    )
    assert offered == [["American_Goldfinch", "55\u00a0%"], ["American_Crow", "28\u00a0%"]]
