"""Sections and figures from result files alone: what is missing, damaged or of another method is said.

`tests/test_docs.py` compares the pages, which show every table in full, with what is made of results/.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper.cub_plans import FULL, SMALL_FILES
from paper.figures import draw_figures
from paper.results_page import results_page, section
from paper.stored_results import Results
from paper.tables import CROSSED, MAIN, TABLES, TRAINED_S2M2, UNLABELLED
from paper.trends import saturation, trends
from protoadapt.core.methods import method
from protoadapt.core.results import pack

RESULTS = Path(__file__).parents[2] / "results"
TRIAL = MAIN["mini-ImageNet"][1]
EARLIER = {"method": "cipa", "arguments": {**method("cipa").settings, "tau": 12.0}}


def record(spec: str, correct, **changes) -> dict:
    """A record of so many right answers of 75 in each episode."""
    numbers = {"accuracy": 100 * np.mean(correct) / 75, "episodes": len(correct), "queries": 75}
    about = {"label": method(spec).label, "features": {}, "protocol": {}, "seed": 0, "seconds": 1.0}
    return {**about, **numbers, "correct": pack(np.asarray(correct, int)), **changes}


def write(folder, file: str, results: list[dict]) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps({"results": results, "reference": results[0]["label"]}))


@pytest.fixture
def some(tmp_path):
    """mini-ImageNet, HCT_R alone: 1,000 episodes, of which the first 600 are worse."""
    for shot in (1, 5):
        cipa = [54 + shot, *[54] * 599, *[60] * 400]
        write(tmp_path, TRIAL.file(shot), [record("protonet", [45, 47] * 500), record("cipa", cipa)])
    about = {"schema": "protoadapt-run/1", "seconds": 217.8, "hardware": "one GPU", "best": {"epoch": 36}}
    (tmp_path / TRIAL.run.name / "train.json").write_text(json.dumps(about | {"config": {"epochs": 40, "seed": 3}}))
    return tmp_path


def cells_of(page: str, start: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_a_main_row_stands_beside_the_paper_and_what_is_missing_is_said(some):
    page = section("main", Results(some))
    here = 100 * (54 * 600 + 60 * 400 + 1) / 1000 / 75
    _, _, _, _, paper, ours, apart, *_, seconds, epochs, seed, hardware = cells_of(
        page, "mini-ImageNet | HCT_R | 1 | 1"
    )
    assert (paper, ours.split()[0], apart) == ("76.94", f"{here:.2f}", f"{here - 76.94:+.2f}")
    assert (seconds, epochs, seed, hardware) == ("218 s", "40", "3", "one GPU")
    assert "| CIFAR-FS | HCT_R | 1 | 1 | 85.72 | not measured |" in page
    assert page.splitlines()[-1] == (
        "Not measured: tiered-imagenet (for want of ImageNet's pictures). "
        "Not run yet, or not in full: cifar-fs, cifar-fs-epnet, fc100-again, mini-imagenet, mini-imagenet-epnet, "
        "cub-box, cub-full-whole-hct_r, cub-whole-168-epnet, mini-imagenet-hct_r."
    )


def test_beside_a_quoted_row_stands_what_it_was_measured_on(some):
    for shot in (1, 5):
        write(some, TRAINED_S2M2["CUB, whole pictures"].file(shot), [record("protonet", [50 + shot] * 9)])
        write(some, CROSSED["mini-ImageNet → CUB, boxes"].file(shot), [record("laplacian_shot", [40 + shot] * 9)])
    page = section("main", Results(some))
    assert cells_of(page, "inductive | S2M2_R | WRN-28-10 | 80.68 ± 0.81")[-2] == "68.00 ± 0.00 (whole pictures)"
    assert cells_of(page, "transductive | LaplacianShot | ResNet-18 | 55.46")[-1] == "60.00 ± 0.00 (boxes)"
    assert cells_of(page, "transductive | HCT_R + CIPA | ResNet-12 | 76.94 ± 0.24")[-2].startswith("75.2")
    assert cells_of(page, "transductive | HCT_R + CIPA | ResNet-12 | 85.72 ± 0.21")[-2:] == ["", ""]


def test_differences_between_networks_are_paired_and_the_missing_ones_are_said(tmp_path):
    files = SMALL_FILES["whole pictures"]
    for shot in (1, 5):
        write(tmp_path, files[FULL, FULL].file(shot), [record("cipa", [60 + shot] * 99 + [75])])
        write(tmp_path, files["84 px", "84 px"].file(shot), [record("cipa", [54] * 60 + [60 + shot] * 39 + [75])])
    page, words = section("small_files", Results(tmp_path)), "trained and tested on 84 px − on full-size"
    for cell, shot in zip(cells_of(page, f"{words} | whole pictures")[3::2], (1, 5), strict=True):
        apart = -100 * (6 + shot) / 75 * np.repeat([1, 0], [60, 40])
        assert cell == f"{apart.mean():+.2f} ± {1.96 * apart.std(ddof=1) / 10:.2f}"
    assert cells_of(page, f"{words} | boxes")[3] == "not measured"


@pytest.mark.parametrize(
    "changes",
    [EARLIER, {"method": "cipa", "arguments": {"gone": 1}}, {"method": "gone"}],
    ids=["other default", "setting that is no more", "method that is no more"],
)
def test_a_number_of_what_a_method_was_is_not_shown(some, changes):
    write(some, TRIAL.file(1), [record("protonet", [45, 46, 47]), record("cipa", [54, 55, 56], **changes)])
    assert Results(some).get(TRIAL, 1, "cipa") is None
    assert "| mini-ImageNet | HCT_R | 1 | 1 | 76.94 | not measured |" in section("main", Results(some))
    write(some, TRIAL.file(1), [record("cipa(tau=12)", [54, 55, 56], **EARLIER)])
    assert Results(some).get(TRIAL, 1, "cipa(tau=12)") is not None


def test_every_table_has_a_section_even_without_any_result(tmp_path):
    for name, table in TABLES.items():
        assert section(name, Results(tmp_path)).startswith(f"## {table.title}\n")
        assert draw_figures(name, Results(tmp_path), tmp_path / "images") == []
    assert not (tmp_path / "images").exists()
    page = results_page(tmp_path)
    assert not any(table.title in page for table in TABLES.values()), "the page shows those that have results"


@pytest.mark.parametrize("text", ['{"results": null}', '{"resu', "[1]"])
def test_damaged_files_are_as_if_they_were_not_there(some, text):
    file = some / TRIAL.file(1)
    file.write_text(text)
    (some / TRIAL.run.name / "train.json").write_text(text)
    (some / TRIAL.run.name / "adaptation.json").write_text(text)
    page = section("main", Results(some))
    assert "| mini-ImageNet | HCT_R | 1 | 1 | 76.94 | not measured |" in page
    assert next(line for line in page.splitlines() if "| mini-ImageNet | HCT_R | 1 | 1 |" in line).endswith(
        "|  |  |  |  |"
    )
    assert draw_figures("figure3", Results(some), some / "images") == []


def curve(values):
    """Results whose accuracies are `values`, over the same 200 tasks of unequal difficulty."""
    hard = np.random.default_rng(0).integers(-8, 9, 200)
    hard -= round(hard.mean())
    return {m: record("cipa", np.round(0.75 * v + hard)) for m, v in zip(UNLABELLED, values)}


AS_IN_THE_PAPER = {
    "Base + SemiPN (1 step)": curve([50, 52, 54, 56, 57, 57, 57, 57]),
    "Base + SemiPN (5 steps)": curve([52, 55, 58, 57, 56, 55, 54, 52]),
    "Base + CIPA": curve([44, 50, 55, 58, 61, 63, 64, 64]),
    "HCT_R + SemiPN (1 step)": curve([55, 58, 61, 63, 66, 66, 66, 66]),
    "HCT_R + SemiPN (5 steps)": curve([57, 60, 63, 65, 67, 67, 65, 64]),
    "HCT_R + CIPA": curve([58, 62, 65, 68, 70, 72, 75, 75]),
}


@pytest.mark.parametrize(
    ("name", "values", "broken"),
    [
        ("HCT_R + CIPA", [58, 62, 65, 68, 70, 72, 75, 75], []),
        ("HCT_R + SemiPN (1 step)", [55, 58, 58, 58, 58, 58, 58, 58], ["HCT_R + SemiPN saturates"]),
        ("HCT_R + CIPA", [68, 69, 70, 70, 70, 70, 70, 70], ["HCT_R + CIPA saturates", "its lead"]),
        ("Base + SemiPN (5 steps)", [52, 55, 58, 58, 58, 58, 59, 60], ["Base + SemiPN (5 steps) saturates"]),
        ("HCT_R + CIPA", [40, 42, 44, 46, 48, 50, 52, 54], ["its lead", "HCT_R + CIPA is the best"]),
        ("Base + CIPA", [53, 54, 55, 58, 61, 63, 64, 64], ["Base + CIPA starts below"]),
    ],
)
def test_the_papers_trends_hold_where_they_hold(name, values, broken):
    found = [t.paper for t in trends({**AS_IN_THE_PAPER, name: curve(values)}) if not t.holds]
    assert all(any(paper.startswith(start) for paper in found) for start in broken), found
    assert broken or not found
    assert saturation(curve([50, 60, 70, 75, 80, 80, 80, 80])) == 16


FIGURES = {
    "semi.png": lambda folder: draw_figures("semi", Results(RESULTS), folder),
    "adaptation.png": lambda folder: draw_figures("figure3", Results(RESULTS), folder),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_from_its_results(tmp_path, name):
    FIGURES[name](tmp_path)
    with Image.open(tmp_path / name) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50
