"""Comparisons of records against their definitions."""

import json

import numpy as np
import pytest

from protoadapt import UserError, compare
from protoadapt.core.comparisons import compare_runs, paired_difference
from protoadapt.core.features import synthetic_features
from protoadapt.core.results import right_answers

TABLES = [synthetic_features(classes=8, rows=40, seed=seed) for seed in range(2)]
LABELS = ["protonet", "cipa", "bapa"]


@pytest.fixture(scope="module")
def runs() -> list[dict]:
    return [
        json.loads(json.dumps(result.to_json(**table.about)))
        for table in TABLES
        for seed in range(3)
        for result in compare(table.features, table.labels, LABELS, episodes=40, seed=seed)
    ]


def test_runs_are_summed_up_as_a_plain_loop_does(runs):
    summaries = compare_runs(runs, "protonet")
    assert [summary["label"] for summary in summaries] == LABELS
    for label, summary in zip(LABELS, summaries):
        own = [100 * right_answers(r) / 75 for r in runs if r["label"] == label]
        base = [100 * right_answers(r) / 75 for r in runs if r["label"] == "protonet"]
        assert summary["runs"] == 6
        assert summary["accuracy"] == pytest.approx(np.mean(own))
        assert summary["spread"] == pytest.approx(np.std(np.mean(own, 1), ddof=1))
        # All runs have as many episodes, so the variance of the mean is that of all episodes about their runs' means.
        assert summary["ci95"] == pytest.approx(1.96 * np.sqrt(np.mean(np.var(own, 1, ddof=1)) / 240))
        if label == "protonet":
            assert "difference" not in summary
            continue
        difference = np.subtract(own, base)
        assert summary["difference"] == pytest.approx(difference.mean())
        width = 1.96 * np.sqrt(np.mean(np.var(difference, 1, ddof=1)) / 240)
        assert summary["difference_ci95"] == pytest.approx(width)
        assert summary["p"] <= summary["p_holm"] <= 2 * summary["p"]
    assert max(s["p_holm"] for s in summaries[1:]) >= max(s["p"] for s in summaries[1:])


def test_one_run_is_what_the_result_says(runs):
    summary = compare_runs(runs[:3], "cipa")[0]
    assert (summary["accuracy"], summary["ci95"]) == pytest.approx((runs[0]["accuracy"], runs[0]["ci95"]), abs=1e-4)
    assert (summary["difference"], summary["difference_ci95"]) == pytest.approx(paired_difference(runs[0], runs[1]))
    assert summary["spread"] is None


@pytest.mark.parametrize(
    ("change", "reference", "words"),
    [
        (lambda runs: runs[:-1], "cipa", "bapa has no result for some run"),
        (lambda runs: [*runs, runs[0]], "cipa", "two results with seed 0"),
        (lambda runs: runs, "nobody", "'nobody' is not among the methods protonet, cipa, bapa"),
    ],
)
def test_runs_that_do_not_match_are_named(runs, change, reference, words):
    with pytest.raises(UserError, match=words):
        compare_runs(change(runs), reference)
