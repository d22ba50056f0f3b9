"""Takes every picture of the page and of its report that the documentation shows, from pictures drawn here.

    python docs/screenshots.py [--out docs/images] [--only serve-map,serve-phone]

Butterflies of six kinds are drawn, taken in by `protoadapt serve` in headless chromium, corrected and saved as a
report. Everything is written as WebP.
"""

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFilter
from playwright.sync_api import Browser, Page, sync_playwright

SIDE, EXAMPLES, EACH = 360, 1, 29
SMOOTH = 2  # drawn so many times larger, then made smaller
KINDS: dict[str, tuple[str, str, str, int]] = {  # wings, margins, spots, number of spots
    "brimstone": ("#e9e04f", "#d8c93a", "#e08a2e", 1),
    "common blue": ("#6f8fe8", "#f3f3f8", "#46527f", 0),
    "monarch": ("#e8822a", "#1d1714", "#f7f1e6", 5),
    "peacock": ("#a8392c", "#3c2a26", "#3f6fc4", 2),
    "small white": ("#f4f2ea", "#4a4a48", "#4a4a48", 2),
    "swallowtail": ("#f2df7c", "#222a33", "#3a62b0", 4),
}
"""Six kinds that are told apart by their wings."""
MEADOWS = ("#6d8f4a", "#88a35c", "#52724a", "#a8a46a", "#7a8b86", "#b79d7c")


def butterfly(kind: tuple[str, str, str, int], rng: np.random.Generator) -> Image.Image:
    """One butterfly on a blurred meadow, at any angle and size."""
    wings, margin, spot, spots = kind
    side = SIDE * SMOOTH
    base = np.array(ImageColor.getrgb(str(rng.choice(MEADOWS))))
    ground = Image.new("RGB", (side, side), tuple(base.tolist()))
    pen = ImageDraw.Draw(ground)
    for _ in range(46):
        x, y, r = rng.integers(-60, side + 60), rng.integers(-60, side + 60), rng.integers(20, 130)
        tone = tuple(int(c) for c in np.clip(base * rng.uniform(0.6, 1.35) + rng.normal(0, 12, 3), 0, 255))
        pen.ellipse((x - r, y - r // 2, x + r, y + r // 2), fill=tone)
    ground = ground.filter(ImageFilter.GaussianBlur(9 * SMOOTH))
    body = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    pen, middle, size = ImageDraw.Draw(body), side / 2, side * rng.uniform(0.3, 0.4)
    fold = rng.uniform(0.8, 1.0)

    def lobe(reach: float, tilt: float, length: float, breadth: float, sign: int) -> list[tuple[float, float]]:
        turn = math.radians(tilt)
        outline = []
        for step in np.linspace(0, 2 * math.pi, 60):
            along, across = (1 + math.cos(step)) / 2, math.sin(step) * math.sin(math.acos(math.cos(step)) / 2 + 0.35)
            x, y = reach * along * length, breadth * across
            outline.append((middle + sign * fold * size * (x * math.cos(turn) - y * math.sin(turn)),
                            middle - size * (x * math.sin(turn) + y * math.cos(turn))))  # fmt: skip
        return outline

    for sign in (-1, 1):
        for tilt, length, breadth in ((-38, 0.95, 0.42), (32, 1.22, 0.44)):
            pen.polygon(lobe(1, tilt, length, breadth, sign), fill=margin)
            pen.polygon(lobe(0.9, tilt, length, breadth * 0.84, sign), fill=wings)
            for i in range(spots):
                turn, far = math.radians(tilt + (i - (spots - 1) / 2) * 9), (0.74 if spots > 2 else 0.6) * length
                x, y = middle + sign * fold * size * far * math.cos(turn), middle - size * far * math.sin(turn)
                r = size * (0.05 if spots > 2 else 0.09)
                pen.ellipse((x - r, y - r, x + r, y + r), fill=spot)
    pen.ellipse(
        (middle - size * 0.055, middle - size * 0.42, middle + size * 0.055, middle + size * 0.52), fill="#2c241f"
    )
    for sign in (-1, 1):
        pen.line(
            (middle, middle - size * 0.4, middle + sign * size * 0.2, middle - size * 0.78), fill="#2c241f", width=5
        )
    body = body.rotate(rng.uniform(-35, 35), Image.Resampling.BICUBIC)
    shadow = Image.new("RGBA", body.size, (20, 25, 15, 120))
    moved = (int(rng.uniform(-0.07, 0.07) * side), int(rng.uniform(-0.07, 0.07) * side))
    ground.paste(shadow, (moved[0] + 14, moved[1] + 20), body.getchannel("A").filter(ImageFilter.GaussianBlur(12)))
    ground.paste(body, moved, body)
    light = rng.uniform(0.85, 1.12)
    small = ground.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    pixels = np.asarray(small, np.float32) * light + rng.normal(0, 5, (SIDE, SIDE, 3))
    height = int(rng.choice([SIDE, SIDE * 3 // 4, SIDE * 5 // 6]))
    top = (SIDE - height) // 2
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).crop((0, top, SIDE, top + height))


def draw(folder: Path) -> dict[str, str]:
    """Examples in a folder per kind, loose pictures beside them. Returns the kind of each loose picture."""
    rng, number, truth = np.random.default_rng(7), 1000, {}
    for name, kind in KINDS.items():
        for i in range(EXAMPLES + EACH):
            number += int(rng.integers(1, 9))
            place = folder / name if i < EXAMPLES else folder
            place.mkdir(parents=True, exist_ok=True)
            butterfly(kind, rng).save(place / f"DSC_{number}.jpg", quality=88)
            truth[f"DSC_{number}.jpg"] = name
    return truth


@contextmanager
def served() -> Iterator[str]:
    """The address of `protoadapt serve`."""
    command = [sys.executable, "-m", "protoadapt", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().split()[1]  # type: ignore[union-attr]
        finally:
            server.terminate()


def settled(page: Page) -> None:
    """Waits until the server has answered and every picture in sight is there."""
    page.wait_for_selector(".board:not(.busy)")
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def take(browser: Browser, photos: Path, truth: dict[str, str], shot: Callable[[Page, str], None], out: Path) -> None:
    """The queue after a few answers, the map, a phone, and the same board as a report."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    page.set_default_timeout(180_000)
    with served() as address:
        page.goto(address)
        page.set_input_files("input[webkitdirectory] >> nth=0", photos)
        page.click("[data-depth='0']")
        page.wait_for_function("() => / pictures named from /.test(document.querySelector('.status-line').textContent)")
        page.wait_for_selector(".progress", state="hidden")
        page.wait_for_selector(".toast", state="hidden")
        page.keyboard.press("s")
        settled(page)
        for _ in range(4):
            kind = truth[page.get_attribute(".tile.focus", "title") or ""]
            page.keyboard.press(str(list(KINDS).index(kind) + 1))
            settled(page)
        shot(page, "serve-queue")
        page.click("[data-mode=map]")
        page.wait_for_selector("canvas[aria-label^='Map of']")
        settled(page)
        shot(page, "serve-map")
        phone = browser.new_page(viewport={"width": 390, "height": 844})
        phone.goto(page.url)
        phone.wait_for_selector(".tile")
        phone.click(".tile >> nth=2")
        settled(phone)
        shot(phone, "serve-phone")
        with page.expect_download(timeout=180_000) as coming:
            page.click("summary:has-text('Save')")
            page.click("[data-save='report.html']")
        shutil.copy(coming.value.path(), out / "report.html")
    report = browser.new_page(viewport={"width": 1280, "height": 800})
    report.goto((out / "report.html").as_uri())
    report.wait_for_selector(".tile")
    report.click(".classes li[data-name='monarch'] .class")
    settled(report)
    shot(report, "report-labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images")
    parser.add_argument("--only", default="", help="names of the pictures to write, separated by commas")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))

    def shot(page: Page, name: str) -> None:
        if not wanted or name in wanted:
            image = Image.open(BytesIO(page.screenshot(animations="disabled")))
            image.convert("RGB").save(options.out / f"{name}.webp", quality=90, method=6)

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        photos = Path(folder, "butterflies")
        truth = draw(photos)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take(browser, photos, truth, shot, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
