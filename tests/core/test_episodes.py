"""Samplers: disjoint rows, the right counts, and episodes that depend on the seed alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.core import episodes
from protoadapt.core.episodes import BLOCK, Episodes, _dirichlet_counts, draw
from protoadapt.core.errors import UserError
from protoadapt.core.protocol import PROTOCOL_KINDS, Protocol

LABELS = np.repeat(np.arange(8), 40)


def drawn(protocol, seed=0, episodes=BLOCK, labels=LABELS):
    blocks = list(draw(labels, protocol, seed, episodes))
    join = lambda name: np.concatenate([getattr(b, name) for b in blocks])  # noqa: E731
    return {name: join(name) for name in vars(blocks[0]) if getattr(blocks[0], name) is not None}


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(PROTOCOL_KINDS),
    way=st.integers(2, 4),
    shot=st.integers(1, 5),
    query=st.integers(1, 6),
    unlabeled=st.integers(1, 9),
    distractors=st.integers(0, 2),
    present=st.integers(1, 4),
    foreign=st.floats(0.1, 0.6),
    seed=st.integers(0, 2**31),
)
def test_rows_never_overlap_and_labels_are_true(kind, way, shot, query, unlabeled, distractors, present, foreign, seed):
    present, strangers = min(present, way), max(way, round(way * query * foreign / (1 - foreign)))
    semi = {"unlabeled": unlabeled, "distractors": distractors}
    own = {"semi": semi, "present": {"present": present}, "open": {"foreign": foreign}}.get(kind, {})
    labels = np.random.default_rng(seed).permutation(10)[np.repeat(np.arange(10), 40)] - 2  # −1, −2: never drawn
    protocol = Protocol(kind, way, shot, query, **own)
    d = drawn(protocol, seed, 20, labels)
    known = d["query_labels"] >= 0
    right = {"present": present * query, "one-class": query, "few": query}.get(kind, way * query)
    assert protocol.queries == right
    assert (known.sum(1) == right).all()
    assert ((~known).sum(1) == (strangers if kind == "open" else 0)).all()
    assert d["support"].shape == (20, way * shot)
    assert kind != "semi" or d["unlabeled"].shape == (20, (way + distractors) * unlabeled)
    for e in range(20):
        rows = np.concatenate([d[part][e] for part in ("support", "query", "unlabeled") if part in d])
        assert len(set(rows)) == len(rows)
        names = [set(labels[d["support"][e][d["support_labels"][e] == c]]) for c in range(way)]
        assert all(len(name) == 1 and min(name) >= 0 for name in names)
        assert len(set.union(*names)) == way
        asked = list(zip(d["query"][e], d["query_labels"][e]))
        assert all(labels[row] in names[label] for row, label in asked if label >= 0)
        others, sizes = np.unique(labels[d["query"][e][~known[e]]], return_counts=True)
        assert not set(others) & set.union(*names)
        assert kind != "open" or (len(sizes) == way and np.ptp(sizes) <= 1)
        counts = np.bincount(d["query_labels"][e][known[e]], minlength=way)
        assert (counts > 0).sum() <= {"present": present, "one-class": 1}.get(kind, way)
        assert kind not in ("balanced", "semi", "open") or (counts == query).all()


def test_present_classes_are_any_and_their_rows_come_from_one_pool():
    """Each of the 8 places is as likely, and a class of twice the rows has twice the queries."""
    uneven = np.repeat(np.arange(8), np.where(np.arange(8) < 4, 21, 41))
    d = drawn(Protocol("present", way=8, present=2, query=5), 0, 8 * BLOCK, uneven)
    share = np.array([(d["query_labels"] == c).mean() for c in range(8)])
    np.testing.assert_allclose(share, 1 / 8, atol=0.01)
    small = (uneven[d["query"]] < 4).mean()
    # of the 28 pairs 6 are small, 6 large and 16 mixed: there 20 of 60 free rows are small
    np.testing.assert_allclose(small, (6 + 16 / 3) / 28, atol=0.02)


def test_episode_i_depends_on_the_seed_alone():
    few, many = drawn(Protocol(), 3, 10), drawn(Protocol(), 3, 3 * BLOCK + 1)
    assert len(many["support"]) == 3 * BLOCK + 1
    for name, rows in few.items():
        assert np.array_equal(rows, many[name][:10])
    assert not np.array_equal(few["query"], drawn(Protocol(), 4, 10)["query"])
    assert not np.array_equal(many["query"][:BLOCK], many["query"][BLOCK : 2 * BLOCK])
    with pytest.raises(UserError, match="seed is 4294967296"):  # its block 0 would be block 1 of seed 0
        next(draw(LABELS, Protocol(), 2**32, 1))


@pytest.mark.parametrize("at_once", [1, 7, episodes.SHUFFLED // 40])
def test_rows_are_the_first_of_a_shuffle_written_out(monkeypatch, at_once):
    monkeypatch.setattr(episodes, "SHUFFLED", 40 * at_once)
    d = next(draw(LABELS, Protocol(), 5, 20))
    rng = np.random.default_rng([5, 0])
    chosen = rng.random((BLOCK, 8)).argsort(1)[:, :5]
    uniform = rng.random((16, BLOCK * 5)).T.reshape(BLOCK, 5, 16)
    for e in range(20):
        for place, c in enumerate(chosen[e]):
            rows = list(40 * c + np.arange(40))
            for j in range(16):
                r = j + int(uniform[e, place, j] * (40 - j))
                rows[j], rows[r] = rows[r], rows[j]
            assert d.support[e, place] == rows[0]
            assert sorted(d.query[e][d.query_labels[e] == place]) == sorted(rows[1:16])


def test_queries_come_in_no_order():
    """Their place must not tell their class."""
    labels = drawn(Protocol(), 0, 8 * BLOCK)["query_labels"]
    share = np.array([(labels[:, :15] == c).mean() for c in range(5)])
    np.testing.assert_allclose(share, 0.2, atol=0.02)


def test_dirichlet_counts_have_the_distributions_moments():
    rng = np.random.default_rng(0)
    counts = _dirichlet_counts(rng, 75, 2.0, np.full((20_000, 5), 75))
    assert (counts.sum(1) == 75).all()
    assert _dirichlet_counts(rng, 75, 2.0, np.full((500, 5), 20)).max() <= 20, "no more than there is"
    share = counts / 75
    np.testing.assert_allclose(share.mean(0), 0.2, atol=0.005)
    np.testing.assert_allclose(share.var(0), 0.2 * 0.8 / 11, atol=0.001)  # Dir(2,…,2): a(A−a)/(A²(A+1)), A = 10


def test_semi_supervised_rows_come_from_a_split_that_the_seed_fixes():
    d = drawn(Protocol("semi", unlabeled=10), 5, 6 * BLOCK)
    labelled, spare = set(d["support"].ravel()) | set(d["query"].ravel()), set(d["unlabeled"].ravel())
    assert not labelled & spare
    assert len(labelled) == 8 * 24
    assert len(spare) == 8 * 16


@pytest.mark.parametrize(
    ("protocol", "labels", "words"),
    [
        (Protocol(way=9), LABELS, "have 8: lower --way, or label more classes"),
        (Protocol(shot=30), LABELS, "needs 45 rows per class .* smallest class has 40 .*: lower --shot or --query,"),
        (Protocol("semi", unlabeled=17), LABELS, "17 unlabelled rows .* smallest class has 16 .*: lower --unlabeled"),
        (
            Protocol("semi", unlabeled=2, way=7, distractors=2),
            LABELS,
            r"9 classes \(way 7 \+ 2 others\).*--distractors",
        ),
        (Protocol("dirichlet", query=39, shot=2), LABELS, "lower --query"),
        (Protocol("present", query=40, present=2), LABELS, "80 queries do not fit into the smallest 2 classes"),
        (Protocol("one-class", query=40), LABELS, "41 rows per class"),
        (Protocol("open", way=5), LABELS, r"10 classes \(way 5 \+ 5 others\), the features have 8"),
        (Protocol("open", way=2, query=30, foreign=0.7), LABELS, "70 rows of each foreign class.*lower --foreign"),
        (Protocol(), np.full(50, -1), "have 0"),
    ],
)
def test_what_cannot_be_drawn_is_said(protocol, labels, words):
    with pytest.raises(UserError, match=words):
        next(draw(labels, protocol, 0, 1))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "odd"}, "protocol 'odd' is unknown"),
        ({"way": 1}, "way is 1: it must be a whole number, 2 or more"),
        ({"query": None}, "query is None"),
        ({"alpha": "2"}, "alpha is 2: it must lie between"),
        ({"alpha": float("inf")}, "alpha is inf"),
        ({"labeled_fraction": 1.0}, "labeled_fraction is 1.0"),
        ({"kind": "open", "foreign": 0.0}, "foreign is 0.0"),
        ({"kind": "present", "present": 6}, "present is 6 but an episode has 5 classes"),
        ({"unlabeled": 20}, "unlabeled is 20 but the balanced protocol does not use it: choose the semi protocol"),
        ({"kind": "semi", "unlabeled": 5, "alpha": 1.0}, "alpha is 1.0 but the semi protocol"),
        ({"kind": "semi", "unlabeled": 0}, "unlabeled is 0 .*: set --unlabeled to 1 or more"),
    ],
    ids=str,
)
def test_wrong_protocols_are_refused(settings, words):
    with pytest.raises(UserError, match=words):
        Protocol(**settings)


def test_episodes_from_a_table_are_episodes_from_tensors():
    rows = torch.rand(len(LABELS), 7)
    d = next(draw(LABELS, Protocol("semi", unlabeled=3), 0, 6))
    table = d.episodes(rows, 5)
    tensors = Episodes.from_tensors(table.support, table.support_labels, table.query, 5, table.unlabeled)
    for name in ("support", "query", "unlabeled", "shots", "membership"):
        assert torch.equal(getattr(table, name), getattr(tensors, name))
    assert torch.equal(table[2:4].query, rows[torch.from_numpy(d.query[2:4])])


def test_row_work_is_done_once_a_table():
    calls = []

    def double(rows, by):
        calls.append(by)
        return rows * by

    d = next(draw(LABELS, Protocol(), 0, 6))
    episodes = d.episodes(torch.rand(len(LABELS), 7), 5)
    for part in (episodes[:2], episodes[2:4], episodes[4:]):
        assert torch.equal(part.each_row(double, by=2).query, part.query * 2)
    episodes.each_row(double, by=3)
    assert calls == [2, 3]


@pytest.mark.parametrize(
    ("support", "labels", "query"),
    [
        (torch.rand(1, 2, 3).to(torch.complex64), torch.zeros(1, 2).long(), torch.rand(1, 2, 3)),
        (torch.rand(1, 5, 3), torch.zeros(1, 4).long(), torch.rand(1, 2, 3)),
        *((torch.rand(1, 2, 3), torch.tensor([labels]), torch.rand(1, 2, 3)) for labels in ([0, 5], [0, -1], [0.0, 1])),
        *((torch.rand(1, 2, 3), torch.zeros(1, 2).long(), torch.rand(shape)) for shape in ((1, 2, 4), (1, 0, 3))),
        (torch.rand(2, 2, 3), torch.zeros(2, 2).long(), torch.rand(1, 2, 3)),
        (torch.rand(2, 3), torch.zeros(1, 2).long(), torch.rand(1, 2, 3)),
    ],
)
def test_tensors_that_make_no_episodes_are_refused(support, labels, query):
    with pytest.raises(UserError, match=r"support_labels, support, query and unlabeled are .*: give real numbers"):
        Episodes.from_tensors(support, labels, query, 5)
