"""The rule that chooses a main row: the highest mean over validation classes, and nothing of novel classes."""

import json
from pathlib import Path

import numpy as np
import pytest

from paper.choice import choice_table, judged, winner
from paper.choice_plans import CHOICES, CHOSEN
from paper.stored_results import SHOTS, Results
from protoadapt.core.methods import method
from protoadapt.core.results import pack
from protoadapt.core.statistics import class_half_width, half_width

CHOICE = CHOICES["choice"]
FIRST, SECOND, *_ = CHOICE.candidates
QUERIES, CLASSES, EPISODES = 75, 8, 40


def record(right: int, rng: np.random.Generator) -> dict:
    """CIPA over episodes of five of eight classes with about `right` correct answers each."""
    correct = np.clip(right + rng.integers(-6, 7, EPISODES), 0, QUERIES)
    drawn = np.stack([rng.permutation(CLASSES)[:5] for _ in range(EPISODES)])
    episodes = np.bincount(drawn.ravel(), minlength=CLASSES)
    sums = np.bincount(drawn.ravel(), weights=np.repeat(correct, 5), minlength=CLASSES).astype(int)
    values, scale = 100 * correct / QUERIES, 100 / QUERIES
    width = class_half_width(values, episodes, scale * sums)
    return {
        **{"label": method("cipa").label, "features": {}, "protocol": {}, "seed": 0, "seconds": 1.0},
        **{"accuracy": values.mean(), "ci95": half_width(values), "episodes": EPISODES, "queries": QUERIES},
        **{"correct": pack(correct)},
        "classes": {"episodes": episodes.tolist(), "correct": sums.tolist(), "ci95": width},
    }


def write(folder, words: str, rights: list[int]) -> dict[str, list[dict]]:
    rng, written = np.random.default_rng(len(words)), {}
    for (where, trial), right in zip(CHOICE.trials(CHOICE.candidates[words]).items(), rights):
        for shot in SHOTS:
            one = record(right + shot, rng)
            path = folder / trial.file(shot)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"results": [one]}))
            written.setdefault(where, []).append(one)
    return written


def test_every_candidate_is_judged_on_validation_classes_only():
    for choice in CHOICES.values():
        for run in choice.candidates.values():
            assert all(trial.split == "val" for trial in choice.trials(run).values())
            assert all(trial.split == "novel" for trial in choice.novel_trials(run))


@pytest.mark.parametrize("name", CHOSEN)
def test_a_main_row_is_what_the_rule_chose(name):
    results = Path(__file__).parents[2] / "results"
    assert CHOICES[name].candidates[winner(CHOICES[name], Results(results))] == CHOSEN[name]


def test_the_highest_mean_over_all_validation_classes_wins(tmp_path):
    """The first is ahead on mini-ImageNet, the second by more on CUB."""
    written = write(tmp_path, FIRST, [60, 40, 40])
    write(tmp_path, SECOND, [55, 46, 46])
    results = Results(tmp_path)
    assert winner(CHOICE, results) == SECOND
    mean, width = judged(CHOICE.trials(CHOICE.candidates[FIRST]), results)
    assert mean == pytest.approx(np.mean([r["accuracy"] for pair in written.values() for r in pair]))
    mini, *cub = (np.mean([r["classes"]["ci95"] for r in pair]) / 3 for pair in written.values())
    assert width == pytest.approx(np.sqrt(mini**2 + sum(cub) ** 2))
    chosen = next(line for line in choice_table(CHOICE, results).splitlines() if "chosen" in line)
    assert chosen.startswith(f"| {SECOND} |")


def test_a_candidate_without_all_results_is_not_chosen(tmp_path):
    write(tmp_path, FIRST, [40, 40, 40])
    write(tmp_path, SECOND, [70, 70])
    results = Results(tmp_path)
    assert winner(CHOICE, results) == FIRST
    assert "not measured" in choice_table(CHOICE, results)
    assert winner(CHOICE, Results(tmp_path / "empty")) is None
