"""The whole way in a real browser: a folder of twelve classes and 400 pictures, thirty corrections by keyboard, twenty
by selection and drag, undo and redo, a lasso on the map, the server killed and the board opened again, and the table
fed to `label`, which names all pictures alike."""

import signal

import numpy as np
import pytest
from app.test_browser import CLASSES, answered, table
from helpers.label_files import write_table
from PIL import Image

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

from protoadapt.labeling import label

WAY, EXAMPLES, PICTURES = 12, 2, 400
KEYED, DRAGGED = 30, 20
KEYS = "1234567890"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twelve hues: two examples of each in a folder of its own, and loose pictures whose names tell the truth."""
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(PICTURES):
        c, number = i % WAY, i // WAY
        hue = np.array(Image.new("HSV", (1, 1), (255 * c // WAY, 220, 200)).convert("RGB"), float)
        name = f"class {c:02d}/{number}.png" if number < EXAMPLES else f"class {c:02d} number {number}.png"
        (root / name).parent.mkdir(exist_ok=True)
        pixels = hue + rng.normal(0, 12, 3) + rng.normal(0, 25, (8, 10, 3))
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(root / name)
    return root


def by_keyboard(page) -> None:
    """Works through what is suggested: the name of a file says its class; the last two classes have no key."""
    page.keyboard.press("s")
    page.wait_for_selector(".tile.focus")
    for _ in range(KEYED):
        name = page.get_attribute(".tile.focus", "title")
        c = int(name[6:8])
        if c < len(KEYS):
            page.keyboard.press(KEYS[c])
        else:
            page.keyboard.press("c")
            page.keyboard.type(name[:8])
            page.keyboard.press("Enter")
        page.wait_for_function(
            "(name) => ![undefined, name].includes(document.querySelector('.tile.focus')?.title)", arg=name
        )


def by_drag(page) -> None:
    """Chooses the first twenty pictures of one class as they are seen, and drags them onto it."""
    page.click("[data-scope=all]")
    page.select_option("select[aria-label=Order]", "name")
    page.fill("input[type=search]", "class 11 number")
    ordered = "() => [...document.querySelectorAll('.tile')].sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)"
    page.wait_for_function(f"({ordered})().length === {(PICTURES - 1 - 11) // WAY + 1 - EXAMPLES}")
    answered(page)  # names that arrive during a drag would end it
    seen = page.evaluate(f"({ordered})().map((tile) => tile.title)")
    page.click(f".tile[title='{seen[0]}']")
    page.click(f".tile[title='{seen[DRAGGED - 1]}']", modifiers=["Shift"])
    page.wait_for_selector(f".inspector:has-text('{DRAGGED} pictures chosen')")
    page.drag_and_drop(f".tile[title='{seen[DRAGGED - 1]}']", ".classes li[data-name='class 11']")
    page.wait_for_selector(f"button[aria-label='Undo: {DRAGGED} pictures → class 11']")
    page.fill("input[type=search]", "")


def by_lasso(page) -> None:
    """Draws around the whole map, which chooses everything, and lets go of it."""
    page.click("[data-mode=map]")
    page.wait_for_selector(f"canvas[aria-label^='Map of {PICTURES} pictures']")
    box = page.locator(".stage canvas").bounding_box()
    x, y, right, low = box["x"] + 3, box["y"] + 3, box["x"] + box["width"] - 3, box["y"] + box["height"] - 3
    page.mouse.move(x, y)
    page.mouse.down()
    for point in ((right, y), (right, low), (x, low), (x, y)):
        page.mouse.move(*point, steps=3)
    page.mouse.up()
    page.wait_for_selector(f".inspector:has-text('{PICTURES} pictures chosen')")
    page.keyboard.press("Escape")
    page.click("[data-mode=grid]")


def turned(page, key: str, times: int) -> None:
    page.focus("#grid")
    for _ in range(times):
        page.keyboard.press(key)
    answered(page)


def test_fifty_corrections_a_killed_server_and_label(chromium, served, photos, model, tmp_path, without_paths):
    home, first, second = (tmp_path / name for name in ("kept", "first", "second"))
    first.mkdir()
    second.mkdir()
    page = chromium.new_page(viewport={"width": 1300, "height": 900})
    with served(first, "--keep", str(home), ends_by=signal.SIGKILL) as address:
        page.goto(address)
        page.set_input_files("input[webkitdirectory] >> nth=0", photos)
        page.click(CLASSES)
        start = f"{PICTURES - WAY * EXAMPLES} pictures named from {WAY * EXAMPLES} labels"
        page.wait_for_selector(f".status-line:has-text('{start}')")
        by_keyboard(page)
        by_drag(page)
        by_lasso(page)
        whole = table(page)
        turned(page, "Control+z", 3)
        assert table(page) != whole
        turned(page, "Control+Shift+Z", 3)
        assert table(page) == whole
        board = page.url.split("#")[1]
    marks = [row["guess"] for row in whole.values()]
    more = marks.count("(page)") - WAY * EXAMPLES
    assert KEYED + 1 <= more <= KEYED + DRAGGED, "some were dragged that had their label"
    assert all(row["label"] == name[:8] for name, row in whole.items() if row["guess"].startswith("(page"))
    with served(second, "--keep", str(home)) as address:
        page.goto(f"{address}#{board}")
        page.wait_for_selector(".tile")
        assert table(page) == whole, "a killed server has lost nothing"
        turned(page, "Control+z", 1)
        assert table(page) != whole, "and steps of before can be undone"
    page.close()
    corrected = tmp_path / "labels.csv"
    write_table(corrected, list(whole.values()))
    result = label([corrected], photos, tmp_path / "named", model=model)
    assert {one["file"]: one["label"] for one in result["pictures"]} == {
        name: row["label"] for name, row in whole.items()
    }
    sure = {one["file"]: one["confidence"] for one in result["pictures"]}
    assert max(abs(sure[name] - float(row["confidence"])) for name, row in whole.items()) < 2e-4
