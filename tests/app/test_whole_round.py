"""The whole way in a real browser: a folder of twelve classes dropped, corrections by keyboard and drag, undo and redo,
the server killed and the board opened again, and the table fed to `label`, which names all pictures alike."""

import csv
import os
import signal
from io import BytesIO, StringIO

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

from protoadapt.labeling import label

WAY, EXAMPLES, EACH = 12, 2, 8
KEYED = int(os.environ.get("PROTOADAPT_CORRECTIONS", "6"))
"""Corrections by keyboard: a person makes some thirty, which takes a browser a minute."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twelve hues: two examples of each in a folder of its own, eight loose pictures whose names tell the truth."""
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for c in range(WAY):
        hue = np.array(Image.new("HSV", (1, 1), (255 * c // WAY, 220, 200)).convert("RGB"), float)
        (root / f"class {c:02d}").mkdir()
        for i in range(EXAMPLES + EACH):
            pixels = np.clip(hue + rng.normal(0, 25, (20, 24, 3)), 0, 255).astype(np.uint8)
            out = BytesIO()
            Image.fromarray(pixels).save(out, "PNG")
            name = f"class {c:02d}/{i}.png" if i < EXAMPLES else f"class {c:02d} number {i}.png"
            (root / name).write_bytes(out.getvalue())
    return root


AS_SEEN = """tiles => tiles.map((tile) => [tile.getBoundingClientRect(), tile.title])
  .sort(([a], [b]) => a.top - b.top || a.left - b.left).map(([, title]) => title)"""


def table(page) -> dict[str, dict[str, str]]:
    page.click("summary:has-text('Save')")
    with page.expect_download() as coming:
        page.click("[data-save='labels.csv']")
    text = coming.value.path().read_bytes().decode()
    return {row["file"]: row for row in csv.DictReader(StringIO(text, newline=""))}


def test_fifty_corrections_a_killed_server_and_label(chromium, served, photos, model, tmp_path, without_paths):
    home, first, second = (tmp_path / name for name in ("kept", "first", "second"))
    first.mkdir()
    second.mkdir()
    page = chromium.new_page(viewport={"width": 1300, "height": 900})
    with served(first, "--keep", str(home), ends_by=signal.SIGKILL) as address:
        page.goto(address)
        page.set_input_files("input[webkitdirectory] >> nth=0", photos)
        page.wait_for_selector(f".status-line:has-text('{WAY * EACH} pictures named from {WAY * EXAMPLES} labels')")
        page.keyboard.press("s")
        for _ in range(KEYED):  # what is suggested, by keyboard: the name of the file says its class
            name = page.locator(".tile.focus").get_attribute("title")
            page.keyboard.press("c")
            page.keyboard.type(name[:8])
            page.keyboard.press("Enter")
            page.wait_for_function("(name) => document.querySelector('.tile.focus')?.title !== name", arg=name)
            page.focus("#grid")
        page.click("[data-scope=all]")
        page.fill("input[type=search]", "class 03 number")
        page.wait_for_function("() => document.querySelectorAll('.tile').length === 8")
        page.wait_for_selector(".board:not(.busy)")  # names that arrive during a drag would end it
        seen = page.eval_on_selector_all(".tile", AS_SEEN)
        page.click(f".tile[title='{seen[0]}']")
        page.click(f".tile[title='{seen[-1]}']", modifiers=["Shift"])
        page.wait_for_function("() => document.querySelectorAll('.tile.selected').length === 8")
        page.drag_and_drop(".tile.selected >> nth=0", ".classes li[data-name='class 03']")
        page.wait_for_function("() => document.querySelectorAll('.tile.given').length === 8")
        page.fill("input[type=search]", "")
        page.focus("#grid")
        page.wait_for_selector(".board:not(.busy)")
        whole = table(page)
        for _ in range(3):
            page.keyboard.press("Control+z")
        page.wait_for_selector(".board:not(.busy)")
        assert table(page) != whole
        for _ in range(3):
            page.keyboard.press("Control+Shift+Z")
        page.wait_for_selector(".board:not(.busy)")
        assert table(page) == whole
        board = page.url.split("#")[1]
    given = [name for name, row in whole.items() if row["guess"] == "(page)"]
    assert len(given) >= WAY * EXAMPLES + KEYED
    assert all(row["label"] == name[:8] for name, row in whole.items() if name in given)
    with served(second, "--keep", str(home)) as address:
        page.goto(f"{address}#{board}")
        page.wait_for_selector(".tile")
        assert table(page) == whole, "a killed server has lost nothing"
        page.keyboard.press("Control+z")
        page.wait_for_selector(".board:not(.busy)")
        assert table(page) != whole, "and steps of before can be undone"
    page.close()
    corrected = tmp_path / "labels.csv"
    with open(corrected, "w", newline="") as file:
        writer = csv.DictWriter(file, next(iter(whole.values())).keys())
        writer.writeheader()
        writer.writerows(whole.values())
    result = label([corrected], photos, tmp_path / "named", model=model)
    assert {one["file"]: one["label"] for one in result["pictures"]} == {
        name: row["label"] for name, row in whole.items()
    }
    sure = {one["file"]: one["confidence"] for one in result["pictures"]}
    assert max(abs(sure[name] - float(row["confidence"])) for name, row in whole.items()) < 2e-4
