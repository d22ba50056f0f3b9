"""docs/reproduced.md: each of its numbers follows from the result files, and no row has one that does not."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from paper import tables
from paper.cub_plans import BOXES, FULL, SMALL_FILES, WHOLE
from paper.length_plans import SEEDS, at_length
from paper.main_plans import ALONE
from paper.quoted import CIPA_SWITCHES, LITERATURE, TRAINING, paper_accuracy
from paper.results_page import semi_curves
from paper.stored_results import SHOTS, Results
from paper.training_plans import ABLATED, ABLATION_METHODS, trained
from paper.trends import trends
from protoadapt.core.methods import method
from protoadapt.core.results import class_interval, paired_difference

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduced.md").read_text()
RESULTS = Results(ROOT / "results")
NUMBER = re.compile(r"(?<![\w.])−?\d+\.\d+")
HCT_R = [at_length("hct_r", "boxes", seed) for seed in SEEDS["hct_r"]]
S2M2_R = [at_length("s2m2_r", "boxes", seed) for seed in SEEDS["s2m2_r"][:2]]
SWITCHED, UNEVEN = tables.SWITCHED.values(), tables.UNEVEN.values()
MINI = "mini-ImageNet"


def mini(recipe: str, alpha: float | None = 2.0):
    return trained(recipe, alpha, *ABLATED[MINI])


@cache
def record(trial, shot: int, spec: str = "cipa"):
    found = RESULTS.get(trial, shot, spec)
    assert found, f"{trial.file(shot)} has no {spec}"
    return found


def pair(values) -> str:
    return " / ".join(f"{value:.2f}".replace("-", "−") for value in values)


def of(*trials, spec: str = "cipa") -> str:
    """The mean accuracy over trials."""
    return pair(np.mean([record(trial, shot, spec)["accuracy"] for trial in trials]) for shot in SHOTS)


def minus(one, other, spec: str = "cipa", than: str = "cipa") -> str:
    """The paired difference."""
    return pair(paired_difference(record(one, shot, spec), record(other, shot, than))[0] for shot in SHOTS)


def steps(trials, above: str, below: str) -> list[str]:
    """What is between two rows of Table 6."""
    first, second = CIPA_SWITCHES[above][1], CIPA_SWITCHES[below][1]
    return [minus(trial, trial, first, second) for trial in trials]


def at_one(pairs: list[str]) -> list[str]:
    return [one.partition(" / ")[0] for one in pairs]


def means_apart(ours, theirs, spec: str = "cipa", than: str = "cipa") -> str:
    means = [
        [np.mean([record(trial, shot, name)["accuracy"] for trial in trials]) for shot in SHOTS]
        for trials, name in ((ours, spec), (theirs, than))
    ]
    return pair(np.subtract(*means))


def seeds_of_cifar() -> list[str]:
    """HCT_R: mean and standard deviation. HCT_R minus S2M2_R: of the means."""
    by_name = {name: [r.trial for r in tables.SEEDS if r.words[1] == name and r.method == "cipa"] for name in NAMES}
    ours, theirs = by_name.values()
    spread = [np.std([record(trial, shot)["accuracy"] for trial in ours], ddof=1) for shot in SHOTS]
    return [of(*ours), pair(spread), means_apart(ours, theirs)]


NAMES = ("HCT_R", "S2M2_R")


def quoted(data: str) -> str:
    return pair(paper_accuracy(data))


def speeds() -> list[str]:
    """CIPA's episodes per second over PT+MAP's, on features of networks; on synthetic ones, compiled and in numpy."""
    seconds = [{r["label"]: r["seconds"] for r in RESULTS.of(tables.all_methods(t), 1)} for t in ALONE.values()]
    benchmark = json.loads((ROOT / "results" / "benchmark-inference-cpu.json").read_text())
    compiled = {name: rate["episodes_per_s"] for name, rate in benchmark["methods"].items()}
    synthetic = [one["cipa"] / one["pt_map"] for one in (compiled, benchmark["naive_episodes_per_s"])]
    return [f"{ratio:.1f}" for ratio in [*(one["pt_map"] / one["cipa"] for one in seconds), *synthetic]]


def ahead_of(method: str) -> list[str]:
    return [minus(trial, trial, than=method) for trial in map(tables.all_methods, ALONE.values())]


def over(spec: str, than: str, trials) -> list[str]:
    return [minus(trial, trial, spec, than) for trial in trials]


ADAM = {name: at_length(name, "boxes") for name in ("classifier_baseline", "manifold_mixup", "hct")}
CROSSED = {words.rpartition(", ")[2]: trial for words, trial in tables.CROSSED.items()}
MINI_NETWORKS = [tables.CHOSEN[f"{MINI} → CUB, {crop}"][1] for crop in ("boxes", "whole pictures")]
BASES = [(mini("hct"), mini("classifier_baseline", None)), (BOXES["hct", 2.0], BOXES["classifier_baseline", None])]
BASES += [(ADAM["hct"], ADAM["classifier_baseline"])]
MIXED = [(mini("hct"), mini("manifold_mixup"))]
MIXED += [(rows["hct", 2.0], rows["manifold_mixup", 2.0]) for rows in (BOXES, WHOLE)]
MIXED += [(ADAM["hct"], ADAM["manifold_mixup"])]
ROTATED = [(rows["hct_r", 2.0], rows["s2m2_r", 2.0]) for rows in (BOXES, WHOLE)]

ROWS = {
    "CIFAR-FS": lambda: [quoted("CIFAR-FS"), of(tables.MAIN["CIFAR-FS"][1]), *seeds_of_cifar()[:2]],
    "FC100": lambda: [quoted("FC100"), of(tables.MAIN["FC100"][1])],
    f"{MINI} 76": lambda: [
        quoted(MINI),
        of(tables.MAIN[MINI][1]),
        of(tables.COMPARED[MINI]),
        of(tables.CHOSEN[MINI][1]),
    ],
    "tiered-ImageNet": lambda: [quoted("tiered-ImageNet")],
    "CUB 93": lambda: [
        quoted("CUB"),
        of(*HCT_R),
        of(at_length("hct_r", "boxes", schedule="constant")),
        of(tables.MAIN["CUB, boxes"][1]),
        *(f"{value(record(trial, 1)['accuracy'] for trial in HCT_R):.2f}" for value in (min, max)),
    ],
    "the same": lambda: [of(tables.MAIN["CUB, whole pictures"][1])],
    f"{MINI} → CUB": lambda: [quoted(f"{MINI} → CUB"), *map(of, MINI_NETWORKS)],
    "“7 to 8 %”": lambda: [minus(CROSSED[crop], CROSSED[crop], than="laplacian_shot") for crop in CROSSED],
    "“2 to 5 %”": lambda: [*ahead_of("laplacian_shot"), *ahead_of("lr_ici")],
    "ahead of inductive": lambda: [],
    "ahead of PT+MAP": lambda: [
        *over("pt_map", "cipa", [tables.MAIN["CUB, boxes"][1]]),
        means_apart(HCT_R, HCT_R, "pt_map"),
    ],
    "CIPA is the best": lambda: [],
    "HCT gains 2 to 3": lambda: [
        *(minus(*two) for two in BASES),
        *at_one([minus(*two, "protonet", "protonet") for two in BASES]),
    ],
    "HCT is better": lambda: [minus(*two) for two in MIXED],
    "S2M2_R and HCT_R": lambda: [minus(mini("hct_r"), mini("s2m2_r")), seeds_of_cifar()[2]],
    "HCT_R is far ahead": lambda: [
        pair(np.subtract(*(TRAINING["CUB"][name, 2.0][2] for name in ("hct_r", "s2m2_r")))),
        of(*HCT_R),
        of(*S2M2_R),
        means_apart(HCT_R, S2M2_R),
        *(minus(*two) for two in ROTATED),
        f"{minus(HCT_R[0], S2M2_R[0])[:4]} ± {class_interval(record(HCT_R[0], 1), record(S2M2_R[0], 1)):.2f}",
        minus(BOXES["hct_r", 2.0], WHOLE["hct_r", 2.0]),
    ],
    "centring": lambda: [
        *at_one(steps(SWITCHED, "(b)", "(a)")[:3]),
        steps(SWITCHED, "(b)", "(a)")[3],
        *steps([*SWITCHED][1:], "(g)", "(i)"),
    ],
    "power": lambda: [*steps([*SWITCHED][:3], "(d)", "(c)"), *steps(HCT_R, "(d)", "(c)")],
    "adaptation": lambda: steps(SWITCHED, "(e)", "(d)"),
    "σ = 1": lambda: [*steps(SWITCHED, "(f)", "(g)"), f"{method('cipa').settings['sigma']}"],
    "CIPA “works": lambda: [*over("cipa", "protonet", UNEVEN), largest_half_width()],
    "PT+MAP finds": lambda: over("cipa", "pt_map", UNEVEN),
    "CIPA takes": speeds,
    "prototypes": lambda: [],
}


def largest_half_width() -> str:
    apart = [paired_difference(record(t, shot), record(t, shot, "protonet"))[1] for t in UNEVEN for shot in SHOTS]
    return f"{max(apart):.2f}"


def line_of(start: str) -> str:
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {start}"))
    return line


def left(text: str, facts: list[str]) -> list[str]:
    """Numbers of the text that are none of these facts, each of which it has."""
    for fact in sorted(facts, key=len, reverse=True):
        assert re.search(rf"(?<![\w.−]){re.escape(fact)}(?![\d.]\d)", text), f"{fact} is not in {text!r:.120}"
        text = text.replace(fact, "", 1)
    return NUMBER.findall(text)


@pytest.mark.parametrize("start", ROWS)
def test_a_row_has_the_numbers_of_the_result_files_and_no_others(start):
    assert left(line_of(start), ROWS[start]()) == []


def test_every_row_is_checked():
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("| claim", "|---"))]
    assert {line_of(start) for start in ROWS} == set(rows)


def semi_facts() -> tuple[list[str], list[bool], list[bool]]:
    """The numbers of the semi-supervised paragraph, and which trends hold as written and with queries centred."""
    curves = semi_curves(RESULTS)
    centred = curves | {name: curves[f"{name}, queries centred too"] for name in ("Base + CIPA", "HCT_R + CIPA")}

    def apart(of_curves, network: str, m: int) -> str:
        one, other = of_curves[f"{network} + CIPA"][m], of_curves[f"{network} + SemiPN (1 step)"][m]
        return f"{paired_difference(one, other)[0]:.2f}".replace("-", "−")

    facts = [apart(some, "HCT_R", m) for some in (curves, centred) for m in (1, 128)]
    facts += [apart(centred, "Base", m) for m in (1, 128)]
    return facts, *([trend.holds for trend in trends(some)] for some in (curves, centred))


def test_prose_has_the_numbers_of_the_result_files_and_no_others():
    facts, written, centred = semi_facts()
    full, small = (FULL, FULL), ("84 px", "84 px")
    facts += [minus(SMALL_FILES[crop][full], SMALL_FILES[crop][small]) for crop in ("boxes", "whole pictures")]
    prose = "\n".join(line for line in PAGE.splitlines() if not line.startswith("|"))
    assert set(left(prose, facts)) == {"0.001", "0.999", "0.1", "0.2", "0.5"}
    assert (len(written), sum(written), sum(centred)) == (9, 5, 7)


def test_epochs_and_episodes_are_those_of_the_files():
    rows = {"CIFAR-FS": "CIFAR-FS", "FC100": "FC100", f"{MINI} 76": MINI, "the same": "CUB, whole pictures"}
    for start, words in rows.items():
        epochs = RESULTS.training(tables.MAIN[words][1].run)["config"]["epochs"]
        assert f"{epochs} epochs" in line_of(start)
    for start, trials in {"“7 to 8 %”": CROSSED.values(), "CIPA “works": UNEVEN}.items():
        assert {record(trial, shot)["episodes"] for trial in trials for shot in SHOTS} == {1000}
        assert "1,000 episodes" in line_of(start)
    assert [record(trial, 1)["episodes"] for trial in SWITCHED] == [10_000, 600, 600, 600]
    assert "600 episodes, mini-ImageNet 10,000" in line_of("centring")
    assert f"epoch {RESULTS.training(HCT_R[2].run)['best']['epoch']} of 300" in line_of("power")
    behind = next(trend for trend in trends(semi_curves(RESULTS)) if trend.paper.startswith("with HCT_R, 5 steps"))
    assert "fall behind one at M = 8, not 64" in PAGE
    assert behind.measured == "they are behind from M = 8 on"


def test_cipa_is_the_best_of_three_in_every_row():
    paper_rows = {row.trial for row in tables.TABLES["paper_length"].rows}
    networks = [t for t in {r.trial for r in tables.training_rows()} | paper_rows if RESULTS.get(t, 1, "cipa")]
    for trial in networks:
        for shot in SHOTS:
            protonet, semi, cipa = (record(trial, shot, spec)["accuracy"] for spec in ABLATION_METHODS)
            assert cipa > max(protonet, semi)
    assert f"in all {len(networks) * len(SHOTS)} comparisons, of {len(networks)} networks" in line_of(
        "CIPA is the best"
    )


def test_differences_between_networks_are_known_as_well_as_the_page_says():
    """To about 0.1 over episodes and 0.2 to 0.5 over classes."""
    pairs = [(minus_of, shot) for minus_of in (MIXED[2], ROTATED[1], (HCT_R[0], S2M2_R[0])) for shot in SHOTS]
    for (one, other), shot in pairs:
        assert paired_difference(record(one, shot), record(other, shot))[1] < 0.15
        assert 0.2 < class_interval(record(one, shot), record(other, shot)) < 0.55


def test_after_adam_power_gives_more_than_adaptation_at_five_shots():
    *_, network = SWITCHED
    five = [float(steps([network], *two)[0].split(" / ")[1]) for two in (("(d)", "(c)"), ("(e)", "(d)"))]
    assert five[0] > five[1]


def test_lr_ici_is_level_across_domains_at_five_shots():
    for trial in CROSSED.values():
        points, half = paired_difference(record(trial, 5, "lr_ici"), record(trial, 5))
        assert abs(points) < half
        assert record(trial, 5, "lr_ici")["episodes"] == 100


def test_hct_beats_manifold_mixup_with_each_alpha_on_boxes_and_with_none_on_mini_imagenet():
    for data, sign in (("CUB", 1), (MINI, -1)):
        for alpha in (0.5, 1.0, 2.0):
            ours, theirs = (trained(name, alpha, *ABLATED[data]) for name in ("hct", "manifold_mixup"))
            for shot in SHOTS:
                assert sign * (record(ours, shot)["accuracy"] - record(theirs, shot)["accuracy"]) > 0


def test_wide_networks_are_passed_where_the_page_says():
    best = {
        data: np.max([q.accuracy for q in LITERATURE[data] if q.method in ("CC+rot", "S2M2_R")], 0) for data in WIDE
    }
    ours = {data: [record(tables.MAIN[data][1], shot)["accuracy"] for shot in SHOTS] for data in WIDE}
    assert {data: list(ours[data] > best[data]) for data in WIDE} == WIDE


WIDE = {"CIFAR-FS": [True, True], MINI: [True, False]}


def test_the_page_is_short():
    assert len(PAGE.split()) <= 1500
