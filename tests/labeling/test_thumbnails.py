"""Small pictures beside labels.json, and inside the report."""

import json
import re

import pytest
from helpers.pages import board_data, labels, row, thumb
from PIL import Image

from protoadapt.cli.report_command import report_command
from protoadapt.labeling import outputs as thumbnails
from protoadapt.report.label_page import labels_page


def test_what_is_looked_at_first_is_shown_large_and_the_report_stays_as_small():
    rows = [{"confidence": i / 5000, "margin": 0.1, "file": f"{i:04d}", "label": "ab"[i % 2]} for i in range(5000)]
    rows = [row | {"unknown": i % 10 == 9, "support": i % 10 == 8} for i, row in enumerate(rows)]
    pictured = thumbnails.report_images(rows, ["0700", "0003", "0008", "0009"])
    large = [rows[i] for i, key, side in pictured if (key, side) == ("preview", 256)]
    assert [row["file"] for row in large if not row["unknown"]] == ["0003", "0700"], "to label next, but no example"
    assert len(large) == 3 + thumbnails.LARGE_UNKNOWN
    others = [row["confidence"] for row in large if row["unknown"] and row["file"] != "0009"]
    assert min(others) > 0.59, "the surest: they stand first"
    small = [i for i, key, side in pictured if (key, side) == ("thumb", 96)]
    assert len(pictured) == len(large) + len(small)
    assert len(small) + thumbnails.WEIGHT * len(large) <= thumbnails.THUMBS


@pytest.mark.parametrize(("count", "side"), [(2, 256), (350, 256), (351, 192), (1000, 160)])
def test_few_pictures_are_shown_larger_and_all_alike(count, side):
    rows = [
        {"confidence": 0.5, "file": str(i), "label": "a", "unknown": i == 1, "support": False} for i in range(count)
    ]
    assert thumbnails.report_images(rows, ["0"]) == [(i, "thumb", side) for i in range(count)]


def test_labels_json_names_them_and_the_report_holds_them(folder, named, without_paths):
    result, out = named(), folder / "out"
    (folder / "images").rename(folder / "elsewhere")  # the report needs them no more
    for record in result["pictures"]:
        with Image.open(out / record["thumb"]) as small:
            assert (small.format, small.size) == ("WEBP", (30, 26))
    assert (out / "labels.json").stat().st_size < 20_000
    report_command([out / "labels.json"])
    small = board_data((out / "report.html").read_text())["small"]
    assert len(small) == 24
    assert all(one.startswith("data:image/webp;base64,") for one in small)


def test_those_of_earlier_runs_go_and_other_files_stay(folder, named, without_paths):
    first = named()
    (folder / "images" / "day 0" / "red-0.png").unlink()
    (folder / "out" / ".thumbs" / "mine.webp").write_text("other")
    second = named()
    names = {one["thumb"].split("/")[1] for one in second["pictures"]}
    assert len(names) == len(first["pictures"]) - 1
    assert {file.name for file in (folder / "out" / ".thumbs").iterdir()} == names | {"mine.webp"}


def test_a_file_from_outside_leads_to_no_other_file(tmp_path):
    """Whatever a labels.json says, only small pictures beside it are shown."""
    inside, name = tmp_path / "named" / ".thumbs", "0" * 64 + ".webp"
    inside.mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(tmp_path / name, "WEBP")
    Image.new("RGB", (4, 4)).save(inside / name, "WEBP")
    (inside / ("1" * 64 + ".webp")).write_text("no picture")
    wrong = [f".thumbs/../../{name}", f"../{name}", str(tmp_path / name), f".thumbs/{'1' * 64}.webp", ".thumbs/x.webp"]
    wrong += [f".thumbs/{'2' * 64}.webp", f".thumbs/{name}\n", 7, None, ["a"]]
    document = labels([row(str(i), "cat", thumb=one) for i, one in enumerate([*wrong, f".thumbs/{name}", thumb()])])
    shown = thumbnails.with_images(document, tmp_path / "named")
    assert [one["thumb"] for one in shown["pictures"][: len(wrong)]] == wrong
    assert re.match("data:image/webp;base64,", shown["pictures"][len(wrong)]["thumb"])
    assert [bool(small) for small in board_data(labels_page(shown))["small"]] == [False] * len(wrong) + [True, True]
    for broken in ({}, {"pictures": 3}, {"pictures": [3]}):
        assert thumbnails.with_images(broken, tmp_path) == broken
    assert json.dumps(shown)
