"""What comes to the page in a real browser: folders dropped, groups without a name, and the files saved again."""

from zipfile import ZipFile

import pytest

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

from helpers.pages import CLASSES, answered, saved, serious_findings, table
from PIL import Image

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
