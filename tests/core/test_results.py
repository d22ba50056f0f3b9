"""Records of results: written, joined in one document, read back, and compared."""

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.synthetic import synthetic_features
from protoadapt import Protocol, UserError, compare
from protoadapt.core.results import (
    COMMON,
    compare_runs,
    document_of,
    pack,
    paired_difference,
    read_results,
    right_answers,
)

TABLES = [synthetic_features(classes=8, rows=40, seed=seed) for seed in range(2)]
LABELS = ["protonet", "cipa", "bapa"]


@pytest.fixture(scope="module")
def runs() -> list[dict]:
    """Records of three methods in six runs."""
    return [
        json.loads(json.dumps(result.to_json(**table.about)))
        for table in TABLES
        for seed in range(3)
        for result in compare(table.features, table.labels, LABELS, episodes=40, seed=seed)
    ]


@pytest.fixture
def records(runs) -> list[dict]:
    return runs[:3]


@given(st.lists(st.integers(0, 75), min_size=1, max_size=300) | st.lists(st.integers(0, 10**5), min_size=1))
def test_right_answers_come_back_and_two_lines_read_them(correct):
    record = {"correct": pack(np.array(correct)), "episodes": len(correct)}
    assert right_answers(record).tolist() == correct
    data = zlib.decompress(base64.b64decode(record["correct"]))
    assert np.frombuffer(data, f"<u{len(data) // record['episodes']}").tolist() == correct


@pytest.mark.parametrize("change", [{}, {"commit": None}, {"features": {"dataset": "other"}}])
def test_what_records_have_in_common_is_written_once_and_read_with_each(records, change):
    several = [{**records[0], **change}, *records[1:]]
    document = json.loads(json.dumps(document_of(several, training={"run": "x"})))
    assert read_results(document) == [{**record, "training": {"run": "x"}} for record in several]
    assert document.keys() - {"results", "training"} == set(COMMON) - change.keys()
    assert all(record.keys().isdisjoint(document) for record in document["results"])
    alone = document_of(several[:1])
    assert read_results(alone) == read_results(several[0]) == several[:1]
    assert document_of(read_results(alone)) == alone


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("label", 7),
        ("seed", None),
        ("seconds", 1e308),
        ("features", None),
        ("unknown_auroc", {"mean": 120}),
        *(("protocol", value) for value in ({"way": 1}, {"way": "5"}, {"wey": 5}, None)),
        *(("correct", value) for value in ([], "", None, "§", pack(np.zeros(39, int)), pack(np.full(40, 76)))),
        ("correct", base64.b64encode(zlib.compress(bytes(10**8))).decode()),
        *(("episodes", value) for value in ("40", 40.0, 0, 10**9)),
        *(("classes", value) for value in ([1], {"episodes": [40], "correct": [1]}, {"episodes": [-1], "correct": []})),
    ],
)
def test_results_that_lie_or_lack_something_are_refused(records, key, value):
    lie = {**records[0], key: value}
    lack = {name: value for name, value in lie.items() if name != key}
    for wrong in (lie, lack) if key not in ("classes", "unknown_auroc") else (lie,):
        with pytest.raises(UserError, match=r"a result is damaged .*: write it again with --json|^way is "):
            read_results(wrong if "correct" in wrong else {"results": [wrong]})


@pytest.mark.parametrize(("key", "change"), [("episodes", 1), ("correct", 1), ("correct", -1000)])
def test_counts_of_classes_follow_from_the_episodes(records, key, change):
    classes = records[0]["classes"]
    wrong = [classes[key][0] + change, *classes[key][1:]]
    with pytest.raises(UserError, match="write it again"):
        read_results({**records[0], "classes": {**classes, key: wrong}})


def test_accuracies_are_those_of_the_right_answers(records):
    lie = {**records[0], "accuracy": "high", "ci95": float("nan"), "queries": 3}
    assert read_results(lie) == records[:1]


def test_a_record_says_what_was_run_and_on_what():
    """Numbers of numpy in a protocol are written too."""
    protocol = Protocol("dirichlet", np.int64(5), np.int32(1), np.int64(3), alpha=np.float32(0.5))
    options = {"episodes": np.int64(2), "seed": np.uint32(3)}
    [result] = compare(TABLES[0].features, TABLES[0].labels, ["cipa(sigma=1)"], protocol, **options)
    record = json.loads(json.dumps(result.to_json(**{"self": 1, "features": 2})))
    assert (record["arguments"]["sigma"], record["arguments"]["tau"], record["seed"]) == (1, 10.0, 3)
    assert (record["protocol"]["kind"], record["protocol"]["way"], record["protocol"]["alpha"]) == ("dirichlet", 5, 0.5)
    assert record["features"] == {"self": 1, "features": 2}
    assert {"versions", "hardware", "commit", "seconds", "ci95", "schema"} <= record.keys()


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


def test_one_run_is_what_the_result_says(records):
    summary = compare_runs(records, "cipa")[0]
    first, second, _ = records
    assert (summary["accuracy"], summary["ci95"]) == pytest.approx((first["accuracy"], first["ci95"]), abs=1e-4)
    assert (summary["difference"], summary["difference_ci95"]) == pytest.approx(paired_difference(first, second))
    assert summary["spread"] is None


@pytest.mark.parametrize(
    ("change", "reference"),
    [(lambda runs: runs[:-1], "cipa"), (lambda runs: [*runs, runs[0]], "cipa"), (lambda runs: runs, "nobody")],
)
def test_runs_that_do_not_match_are_refused(runs, change, reference):
    with pytest.raises(UserError, match="give each file once; the reference is one of protonet, cipa, bapa"):
        compare_runs(change(runs), reference)
