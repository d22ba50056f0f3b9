"""Records of results: written, joined in one document, read back; every number of a file is checked."""

import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoadapt import Protocol, UserError, compare
from protoadapt.core.features import synthetic_features
from protoadapt.core.results import COMMON, document_of, pack, read_results, right_answers

TABLE = synthetic_features(classes=8, rows=40)


@pytest.fixture(scope="module")
def records() -> list[dict]:
    results = compare(TABLE.features, TABLE.labels, ["protonet", "cipa", "bapa"], episodes=40)
    return [json.loads(json.dumps(result.to_json(**TABLE.about))) for result in results]


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
    "damage",
    [
        lambda text: text[:-8],
        lambda text: "§" + text[1:],
        lambda text: "",
        lambda text: [60] * 40,
        lambda text: pack(np.zeros(39, int)),
        lambda text: pack(np.full(40, 76)),
        lambda text: base64.b64encode(zlib.compress(bytes(10**8))).decode(),
    ],
)
def test_damaged_answers_are_one_sentence(records, damage):
    with pytest.raises(UserError, match="has no valid 'correct': write it again with --json"):
        read_results({**records[0], "correct": damage(records[0]["correct"])})


def test_a_record_says_what_was_run_and_on_what():
    result = compare(TABLE.features, TABLE.labels, ["cipa(sigma=1)"], Protocol("dirichlet"), episodes=2, seed=3)[0]
    record = result.to_json(**{"self": 1, "features": 2})
    assert (record["arguments"]["sigma"], record["arguments"]["tau"], record["seed"]) == (1, 10.0, 3)
    assert record["protocol"]["kind"] == "dirichlet"
    assert record["features"] == {"self": 1, "features": 2}
    assert {"versions", "hardware", "commit", "seconds", "ci95", "schema"} <= record.keys()


def test_numpy_numbers_in_a_protocol_are_written():
    protocol = Protocol("semi", np.int64(5), np.int32(1), np.int64(3), unlabeled=np.int16(2))
    results = compare(TABLE.features, TABLE.labels, ["cipa"], protocol, episodes=np.int64(3), seed=np.uint32(4))
    record = json.loads(json.dumps(results[0].to_json()))
    assert (record["protocol"]["way"], record["protocol"]["unlabeled"], record["seed"]) == (5, 2, 4)
    dirichlet = Protocol("dirichlet", alpha=np.float32(0.5))
    assert json.dumps(dirichlet.alpha) == "0.5"
