"""Records: packed and read back, of today's form and of older ones; comparisons against their definitions."""

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper.checks import sound
from protoadapt import Protocol, UserError, compare
from protoadapt.core.features import synthetic_features
from protoadapt.core.packing import SHARED, pack, records_of, right_answers, together
from protoadapt.core.records import compare_runs, paired_difference, read_results

TABLES = [synthetic_features(classes=8, rows=40, seed=seed) for seed in range(2)]
LABELS = ["protonet", "cipa", "bapa"]


def records(table, seed=0, episodes=40, **options) -> list[dict]:
    results = compare(table.features, table.labels, LABELS, episodes=episodes, seed=seed, **options)
    return [json.loads(json.dumps(result.to_json(**table.about))) for result in results]


@pytest.fixture(scope="module")
def runs() -> list[dict]:
    return [record for table in TABLES for seed in range(3) for record in records(table, seed)]


def old(record: dict) -> dict:
    """The same in the form of schema 1: one number per episode in a list."""
    return {**record, "schema": "protoadapt-result/1", "correct": right_answers(record).tolist()}


@given(st.lists(st.integers(0, 75), min_size=1, max_size=300) | st.lists(st.integers(0, 10**5), min_size=1))
def test_right_answers_come_back_and_three_lines_read_them(correct):
    record = {"correct": pack(np.array(correct)), "episodes": len(correct)}
    assert right_answers(record).tolist() == correct
    data = zlib.decompress(base64.b85decode(record["correct"].removeprefix("b85:")))
    assert np.frombuffer(data, f"<u{len(data) // record['episodes']}").tolist() == correct


def test_answers_in_base64_as_older_files_have_them_are_read():
    data = zlib.compress(bytes([3, 75, 0]))
    assert right_answers({"correct": base64.b64encode(data).decode(), "episodes": 3}).tolist() == [3, 75, 0]


def test_packed_answers_take_less_than_a_byte_per_episode():
    correct = np.random.default_rng(0).binomial(75, 0.75, 10_000)
    assert len(pack(correct)) < 10_000 < len(json.dumps(correct.tolist())) / 3


def test_old_records_are_read_as_new_ones_are(runs):
    document = {"results": runs[:3], "reference": "protonet"}
    before = {**document, "results": [old(record) for record in runs[:3]]}
    for one, other in zip(read_results(document), read_results(before)):
        assert np.array_equal(right_answers(one), right_answers(other))
        assert one == {**other, "schema": one["schema"], "correct": pack(right_answers(other))}
        assert one["reference"] == "protonet"
    assert paired_difference(*before["results"][:2]) == paired_difference(*runs[:2])
    assert read_results(old(runs[0]))[0]["label"] == "protonet", "a document may be one record"


@pytest.mark.parametrize("change", [{}, {"commit": None}, {"features": {"dataset": "other"}}])
def test_what_records_share_is_written_once_and_read_with_each(runs, change):
    several = [{**runs[0], **change}, *runs[1:3]]
    document = json.loads(json.dumps(together(several, training={"run": "x"})))
    assert [{k: v for k, v in r.items() if k != "training"} for r in read_results(document)] == several
    assert document.keys() - {"results", "training"} == set(SHARED) - change.keys()
    assert all(r.keys().isdisjoint(document) for r in document["results"])
    alone = together([{**runs[0], **change}])
    assert read_results(alone) == [{**runs[0], **change}]
    assert together(read_results(alone)) == alone


def test_answers_close_to_those_of_an_earlier_record_are_held_as_differences(runs):
    random = np.random.default_rng(0)
    first = random.binomial(75, 0.75, 4000)
    near = np.clip(first + random.integers(-2, 3, 4000), 0, 75)
    answers = [first, near, near[:3000], np.full(4000, 300), random.binomial(75, 0.5, 4100)]
    before = [{"label": str(i), "episodes": len(a), "correct": pack(a)} for i, a in enumerate(answers)]
    document = json.loads(json.dumps(together(before)))
    assert [r.get("minus") for r in document["results"]] == [None, 0, 1, None, None]
    assert len(json.dumps(document)) < 0.9 * len(json.dumps(before))
    for packed, record, correct in zip(document["results"], records_of(document), answers):
        assert record == {"label": packed["label"], "episodes": len(correct), "correct": pack(correct)}


@pytest.mark.parametrize("minus", [-1, 1, 2, True, "0", None, [0], 0.0])
def test_a_record_that_no_earlier_one_completes_is_one_sentence(runs, minus):
    with pytest.raises(UserError, match="has no valid 'minus': write it again with --json"):
        read_results({"results": [runs[0], {**runs[1], "minus": minus}]})
    assert sound({"results": [runs[0], {**runs[1], "minus": minus}]})["results"] == [runs[0]]


def test_a_record_on_damaged_answers_is_refused_with_them(runs):
    document = together(runs[:3])
    packed = [{**r, "minus": 0} for r in document["results"][1:]]
    packed = [{**document["results"][0], "episodes": 10**15, "correct": "b85:0"}, *packed]
    assert sound({**document, "results": packed}) == {}


def test_old_records_may_state_what_their_protocol_does_not_use(runs):
    record = {**runs[0], "protocol": {**runs[0]["protocol"], "unlabeled": 20, "alpha": 3.0}}
    assert read_results(record)[0]["protocol"] == runs[0]["protocol"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-8],
        lambda text: "§" + text[1:],
        lambda text: "",
        lambda text: pack(np.zeros(39, int)),
        lambda text: pack(np.full(40, 76)),
        lambda text: base64.b64encode(zlib.compress(bytes(10**8))).decode(),
        lambda text: "b85:" + base64.b85encode(zlib.compress(bytes(10**8))).decode(),
    ],
)
def test_damaged_answers_are_one_sentence(runs, damage):
    with pytest.raises(UserError, match="has no valid 'correct': write it again with --json"):
        read_results({**runs[0], "correct": damage(runs[0]["correct"])})


def test_metadata_may_have_any_name():
    table = TABLES[0]
    result = compare(table.features, table.labels, ["protonet"], episodes=2)[0]
    assert result.to_json(**{"self": 1, "features": 2})["features"] == {"self": 1, "features": 2}


def test_numpy_numbers_in_a_protocol_are_written():
    table, protocol = TABLES[0], Protocol("semi", np.int64(5), np.int32(1), np.int64(3), unlabeled=np.int16(2))
    arguments = compare(table.features, table.labels, ["cipa"], protocol, episodes=np.int64(3), seed=np.uint32(4))
    record = json.loads(json.dumps(arguments[0].to_json()))
    assert (record["protocol"]["way"], record["protocol"]["unlabeled"], record["seed"]) == (5, 2, 4)
    dirichlet = Protocol("dirichlet", alpha=np.float32(0.5))
    assert json.dumps(dirichlet.alpha) == "0.5"


# Several seeds and feature files


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
