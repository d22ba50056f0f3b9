"""Pages and figures from result files alone: what they say is in the files, and what is missing is said."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper.cub_plans import FULL, SMALL_FILES
from paper.difference_tables import small_files_note
from paper.figures import draw_figures
from paper.records_page import RECORDS
from paper.results_page import results_page, section
from paper.stored_results import Results, first_episodes
from paper.tables import MINI_CHOSEN, SEMI, SEMI_METHODS, TABLES, UNLABELLED, with_views
from paper.training_plans import SEEDS
from paper.trends import near, saturation, trends
from protoadapt.core.comparisons import paired_difference
from protoadapt.core.methods import method
from protoadapt.core.results import pack

RESULTS = Path(__file__).parents[2] / "results"


def told(spec: str, correct, queries: int = 75) -> dict:
    values = 100 * np.asarray(correct) / queries
    ci95 = float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))
    numbers = {"accuracy": float(values.mean()), "ci95": ci95, "episodes": len(values), "queries": queries}
    about = {"features": {"source_side": 375}, "protocol": {}, "seed": 0, "seconds": 1.0}
    return {"label": method(spec).label, **about, **numbers, "correct": pack(np.asarray(correct))}


def write(folder, file: str, results: list[dict]) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps({"results": results, "reference": results[0]["label"]}))


def wrote_training(folder, name: str) -> None:
    about = {"schema": "protoadapt-run/1", "seconds": 217.8, "hardware": "one GPU", "best": {"epoch": 36}}
    about["config"] = {"epochs": 40, "seed": 3}
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "train.json").write_text(json.dumps(about))


@pytest.fixture
def some(tmp_path):
    """mini-ImageNet with one view: 1,000 episodes, of which the first 600 are worse."""
    trial = with_views(MINI_CHOSEN)
    for shot in (1, 5):
        cipa = [54] * 600 + [60] * 400
        cipa[0] += shot
        write(tmp_path, trial.file(shot), [told("protonet", [45] * 500 + [47] * 500), told("cipa", cipa)])
    wrote_training(tmp_path, trial.run.name)
    return tmp_path


def test_a_main_row_stands_beside_the_paper(some):
    page = section("main", Results(some))
    line = next(line for line in page.splitlines() if line.startswith("| mini-ImageNet | 1 | 1 |"))
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    here = 100 * (54 * 600 + 60 * 400 + 1) / 1000 / 75
    assert cells[3] == "76.94"
    assert cells[4].startswith(f"{here:.2f} ± ")
    assert cells[5] == f"{here - 76.94:+.2f}"
    assert cells[6].startswith("72.00 ± 0.0"), "the first 600 episodes, as if no more had been drawn"
    assert cells[-4:] == ["218 s", "40", "3", "one GPU"]


@pytest.fixture
def small(tmp_path):
    """HCT_R on whole pictures of CUB: 100 episodes from full-size files, the first 60 worse from small ones."""
    files = SMALL_FILES["whole pictures"]
    for shot in (1, 5):
        write(tmp_path, files[FULL, FULL].file(shot), [told("cipa", [60 + shot] * 99 + [75])])
        write(tmp_path, files["84 px", "84 px"].file(shot), [told("cipa", [54] * 60 + [60 + shot] * 39 + [75])])
    return tmp_path


def cells_of(page: str, start: str) -> list[str]:
    line = next(line for line in page.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_differences_are_paired_and_the_missing_ones_are_said(small):
    page = section("small_files", Results(small))
    cells = cells_of(page, "trained and tested on 84 px − on full-size | whole pictures")
    for cell, shot in ((cells[3], 1), (cells[5], 5)):
        apart = -100 * (6 + shot) / 75 * np.repeat([1, 0], [60, 40])
        half = 1.96 * apart.std(ddof=1) / np.sqrt(100)
        assert cell == f"{apart.mean():+.2f} ± {half:.2f}", "without counts per class there is no second interval"
    assert cells_of(page, "trained and tested on 84 px − on full-size | boxes")[3] == "not measured"


def test_the_cost_of_small_files_stands_beside_mini_imagenet(small):
    costs = [f"{100 * (6 + shot) * 0.6 / 75:.1f}" for shot in (1, 5)]
    note = small_files_note(Results(small))
    assert f"costs {' / '.join(costs)} points on whole pictures (" in note[0], "boxes are not measured"
    assert note[0] in section("main", Results(small))
    assert small_files_note(Results(small / "nowhere")) == []


def test_rows_on_whole_pictures_and_boxes_stand_beside_the_papers(small):
    page = section("cub_whole", Results(small))
    hct_r = cells_of(page[page.index("Ours minus the paper's") :], "HCT_R")
    ours = [np.mean([60 + shot] * 99 + [75]) / 0.75 for shot in (1, 5)]
    assert hct_r[5] == f"{ours[0] - 93.27:+.2f} / {ours[1] - 94.77:+.2f}"
    assert hct_r[6] == "not measured"


def test_what_is_missing_is_said_with_its_reason(some):
    page = section("main", Results(some))
    assert "| CIFAR-FS | 1 | 1 | 85.72 | not measured |" in page
    reasons = page.splitlines()[-1]
    assert reasons == (
        "Not measured: tiered-imagenet (for want of ImageNet's pictures). "
        "Not run yet, or not in full: cifar-fs-epnet, fc100-again, mini-imagenet-epnet, cub-box, cub-whole-168-epnet."
    )


def test_the_highest_rows_are_those_of_the_tables():
    page = results_page(RESULTS)
    records = page[page.index("## The main rows and the highest") : page.index("## HCT_R + CIPA beside the paper")]
    lines = [line for line in records.splitlines() if line.startswith("| ") and not line.startswith("| novel")]
    assert len(lines) == len(RECORDS)
    rest = page[page.index("## HCT_R + CIPA beside the paper") :]
    for line in lines:
        one, five = (cell.strip() for cell in line.split("|")[6:8])
        assert f"{one} / {five}" in rest or (f"| {one} |" in rest and f"| {five} |" in rest), line


def test_novel_classes_of_what_was_not_chosen_are_not_missed():
    fc100 = section("choice_fc100", Results(RESULTS))
    assert "| the same, then EPNet's episodes |" in fc100
    assert "Not run yet" not in fc100, "novel classes are read for the chosen network only"


def test_the_literature_is_quoted_and_ours_is_not(some):
    page = section("main", Results(some))
    lines = page.splitlines()
    assert "| transductive | LaplacianShot | ResNet-18 | 72.11 ± 0.19 | 82.31 ± 0.14 | quoted |  |  |" in lines
    protonet = "| inductive | ProtoNet | ResNet-12 | 72.2 ± 0.7 | 83.5 ± 0.5 | quoted, after Lee et al. 2019 |  |  |"
    assert protonet in lines, "what was not trained here has no number here"
    ours = next(
        line
        for line in page.splitlines()
        if "**HCT_R, self-distilled, then epnet's episodes, + CIPA, mini-ImageNet**" in line
    )
    assert ours.endswith("| ResNet-12 |  |  |  | 75.20 ± 0.24 | 75.21 ± 0.24 |")


CLASSES = {
    "what": "a",
    "classes": "b",
    "number": 20,
    "weights": ["x", "y"],
    "mean": 1,
    "ci95": 0.1,
    "ci95_classes": 1.0,
}


@pytest.mark.parametrize("key", ["mean", "ci95", "ci95_classes", "what", "weights"])
@pytest.mark.parametrize("value", [None, 10**400, float("nan"), float("inf"), "x", [], "\ud800"])
def test_what_is_said_of_classes_may_be_damaged(tmp_path, key, value):
    rows = [{**CLASSES, "shot": shot} for shot in (1, 5)]
    (tmp_path / "classes.json").write_text(json.dumps({"rows": rows, "protocol": "p"}))
    assert "| a | b (20) | +1.00 ± 0.10 (± 1.00) | +1.00 ± 0.10 (± 1.00) |" in results_page(tmp_path)
    rows = [{**row, key: value} for row in rows]
    (tmp_path / "classes.json").write_text(json.dumps({"rows": rows, "protocol": "p"}))
    page = results_page(tmp_path)
    page.encode()
    assert "nan" not in page.split("## Had")[-1] or "## Had" not in page


def test_methods_on_the_same_episodes_are_paired(some):
    page = section("main", Results(some))
    one = Results(some).get(with_views(MINI_CHOSEN), 1, "cipa")
    other = Results(some).get(with_views(MINI_CHOSEN), 1, "protonet")
    gain = "{:+.2f} ± {:.2f}".format(*paired_difference(one, other))
    assert any(line.startswith("| cipa |") and gain in line for line in page.splitlines())
    assert "mini-ImageNet, one view per picture, pooling 1 (files with a short side of usually 375 pixels):" in page


def test_pairs_of_unequal_length_share_their_first_episodes():
    long, short = told("cipa", [60, 50, 40, 75]), told("ilpc", [59, 52])
    difference = 100 * np.array([-1, 2]) / 75
    assert paired_difference(short, long)[0] == pytest.approx(difference.mean())
    assert first_episodes(long, 2)["accuracy"] == pytest.approx(100 * 55 / 75)
    assert first_episodes(long, 9)["episodes"] == 4


def test_a_number_of_another_default_is_not_shown_as_todays(tmp_path):
    trial = with_views(MINI_CHOSEN)
    old = told("cipa", [54, 55, 56])
    same = {**old, "method": "cipa", "arguments": dict(method("cipa").settings)}
    write(tmp_path, trial.file(1), [told("protonet", [45, 46, 47]), same])
    assert Results(tmp_path).get(trial, 1, "cipa")["accuracy"] == old["accuracy"]
    other = {**same, "arguments": {**same["arguments"], "tau": 12.0}}
    write(tmp_path, trial.file(1), [told("protonet", [45, 46, 47]), other])
    results = Results(tmp_path)
    assert results.get(trial, 1, "cipa") is None
    assert results.get(trial, 1, "cipa(tau=12.0)")["accuracy"] == old["accuracy"]
    ours = {
        **old,
        "method": "bapa",
        "label": "bapa",
        "arguments": {**method("bapa").settings, "n_iter": 20, "sigma": 0.2},
    }
    write(tmp_path, trial.file(1), [ours])
    assert Results(tmp_path).of(trial, 1)[0]["label"] == "bapa", (
        "an earlier version's defaults: the page says which rows"
    )
    write(tmp_path, trial.file(1), [{**ours, "arguments": {**ours["arguments"], "n_iter": 7}}])
    assert Results(tmp_path).of(trial, 1)[0]["label"] == "bapa(n_iter=7)"
    named = {**other, "label": "cipa(n_iter=20)", "arguments": {**other["arguments"], "n_iter": 20}}
    write(tmp_path, trial.file(1), [named])
    assert Results(tmp_path).of(trial, 1)[0]["label"] == "cipa(n_iter=20, tau=12.0)"


def test_every_table_has_a_section_even_without_any_result(tmp_path):
    page = results_page(tmp_path)
    for name, table in TABLES.items():
        assert (f"## {table.title}\n" in page) == (name != "glyphs")
    for name in TABLES:
        assert draw_figures(name, Results(tmp_path), tmp_path / "images") == []
    assert not (tmp_path / "images").exists()


DAMAGED = ['{"results": null}', '{"results": [1, {"label": "cipa"}]}', '"abc"', "[1]", '{"results": [', "[" * 100_000]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_result_is_not_measured(some, text):
    before = section("main", Results(some))
    file = some / with_views(MINI_CHOSEN).file(1)
    whole = file.read_bytes()
    file.write_text(text)
    page = section("main", Results(some))
    assert "| mini-ImageNet | 1 | 1 | 76.94 | not measured |" in page
    file.write_bytes(whole.replace(b'"accuracy": ', b'"accuracy": 1', 1))  # of protonet: it no longer fits its answers
    page = section("main", Results(some))
    assert "| cipa | 75.20 ± 0.24 |" in page
    assert "| protonet |" in before
    assert "| protonet | not measured |" in page


@pytest.mark.parametrize("text", [*DAMAGED, '{"seconds": 1}', '{"config": {}}', '{"rows": []}', '{"weights": "x"}'])
def test_damaged_files_about_it_are_as_if_they_were_not_there(some, text):
    (some / "mini-imagenet-epnet" / "train.json").write_text(text)
    (some / "mini-imagenet-epnet" / "adaptation.json").write_text(text)
    (some / "pooling.json").write_text(text)
    (some / "classes.json").write_text(text)
    page = section("main", Results(some))
    line = next(line for line in page.splitlines() if line.startswith("| mini-ImageNet | 1 | 1 |"))
    assert line.endswith("|  |  |  |  |"), "nothing of its training"
    assert "### Pooling" not in page
    assert "Uncertainty over classes" not in results_page(some)
    assert "early run" in section("figure3", Results(some))
    assert draw_figures("figure3", Results(some), some / "images") == []


def test_seeds_are_averaged(tmp_path):
    for row in SEEDS:
        seed = int(row.trial.run.name[-1])
        for shot in (1, 5):
            write(tmp_path, row.trial.file(shot), [told(spec, [60 + seed, 60 + seed]) for spec in row.trial.methods])
    page = section("hct_ablation", Results(tmp_path))
    assert "| HCT_R | CIPA | 81.33 (s = 1.33), 3 seeds |" in page


def curve(values, seed=0):
    """Results whose accuracies are `values`, over the same 200 tasks of unequal difficulty."""
    hard = np.random.default_rng(seed).integers(-8, 9, 200)
    hard -= round(hard.mean())
    return {m: told("cipa", np.round(0.75 * v + hard)) for m, v in zip(UNLABELLED, values)}


AS_IN_THE_PAPER = {
    "Base + SemiPN (1 step)": curve([50, 52, 54, 56, 57, 57, 57, 57]),
    "Base + SemiPN (5 steps)": curve([52, 55, 58, 57, 56, 55, 54, 52]),
    "Base + CIPA": curve([44, 50, 55, 58, 61, 63, 64, 64]),
    "HCT_R + SemiPN (1 step)": curve([55, 58, 61, 63, 66, 66, 66, 66]),
    "HCT_R + SemiPN (5 steps)": curve([57, 60, 63, 65, 67, 67, 65, 64]),
    "HCT_R + CIPA": curve([58, 62, 65, 68, 70, 72, 75, 75]),
}


def test_the_papers_trends_hold_where_they_hold():
    assert [t.paper for t in trends(AS_IN_THE_PAPER) if not t.holds] == []


@pytest.mark.parametrize(
    ("name", "values", "broken"),
    [
        ("HCT_R + SemiPN (1 step)", [55, 58, 58, 58, 58, 58, 58, 58], ["HCT_R + SemiPN saturates"]),
        ("HCT_R + CIPA", [68, 69, 70, 70, 70, 70, 70, 70], ["HCT_R + CIPA saturates", "its lead"]),
        ("Base + SemiPN (5 steps)", [52, 55, 58, 58, 58, 58, 59, 60], ["Base + SemiPN (5 steps) saturates"]),
        ("HCT_R + CIPA", [40, 42, 44, 46, 48, 50, 52, 54], ["its lead", "HCT_R + CIPA is the best"]),
        ("Base + CIPA", [53, 54, 55, 58, 61, 63, 64, 64], ["Base + CIPA starts below"]),
    ],
)
def test_a_broken_trend_is_told(name, values, broken):
    found = [t.paper for t in trends({**AS_IN_THE_PAPER, name: curve(values)}) if not t.holds]
    assert all(any(paper.startswith(start) for paper in found) for start in broken), found


def test_saturation_is_where_nothing_more_is_gained():
    assert saturation(curve([50, 60, 70, 75, 80, 80, 80, 80])) == 16
    assert saturation(curve([80, 70, 60, 50, 40, 30, 20, 10])) == 1
    assert near(8, 16)
    assert near(32, 16)
    assert not near(4, 16)


def test_the_semi_supervised_chart_and_its_trends(tmp_path):
    for (network, m), trial in SEMI.items():
        names = {f"{network} + {words}": spec for words, spec in SEMI_METHODS.items()}
        results = [
            {**AS_IN_THE_PAPER.get(name, AS_IN_THE_PAPER["Base + CIPA"])[m], "label": method(spec).label}
            for name, spec in names.items()
        ]
        write(tmp_path, trial.file(1), results)
    page = section("semi", Results(tmp_path))
    assert "| HCT_R + CIPA saturates at M = 64 | holds | it saturates at M = 64 |" in page
    assert "Not measured" not in page
    drawn = draw_figures("semi", Results(tmp_path), tmp_path / "images")
    with Image.open(drawn[0]) as picture:
        assert min(picture.size) > 400
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50
