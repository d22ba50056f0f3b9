"""The loop in chunks of rows against the Gram form and the form in feature space, whatever the chunks."""

import math

import pytest
import torch
from helpers.cases import clouds
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.core.errors import UserError
from protoadapt.core.methods import many
from protoadapt.core.methods.adaptation import Adaptation, calibrate, gram_form, prototype_path
from protoadapt.core.methods.normalize import powered
from protoadapt.core.methods.settings import CENTERS

CLOSE = {"atol": 1e-6, "rtol": 1e-6}


@settings(max_examples=60, deadline=None)
@given(
    rule=st.sampled_from([("cosine", 10.0), ("euclid", 5.0), ("sinkhorn", 10.0)]),
    center=st.sampled_from(CENTERS),
    l2=st.booleans(),
    steps=st.integers(0, 6),
    sigma=st.floats(0, 1),
    rows=st.integers(1, 40),
    chunk=st.integers(1, 41),
    shots=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    seed=st.integers(0, 99),
)
def test_chunks_give_the_answers_of_the_other_forms(rule, center, l2, steps, sigma, rows, chunk, shots, seed):
    episodes, _ = clouds(episodes=1, way=len(shots), shots=shots, queries=rows, seed=seed)
    episodes = powered(episodes, 0.5, "strict")
    how = Adaptation(*rule, steps, sigma, center, l2)
    support, (u,) = calibrate(episodes, how)
    sums = (episodes.membership.mT @ support)[0]
    prototypes, bias = many.adapt_rows(sums, episodes.shots[0], u.split(chunk), how)
    *_, (expected,) = prototype_path(episodes, how)
    (answer,) = gram_form(episodes, how)
    torch.testing.assert_close(prototypes, expected, **CLOSE)
    in_chunks = torch.cat([many.assign(part, prototypes, bias, how) for part in u.split(chunk)])
    torch.testing.assert_close(in_chunks, answer / answer.sum(1, keepdim=True), **CLOSE)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_learning_from_chunks_is_calibrating_and_adapting(center, chunk):
    episodes, _ = clouds(episodes=1, queries=23)
    how = Adaptation("cosine", 10.0, 4, 0.2, center, True)
    dim = episodes.rows.shape[1]
    center, prototypes, _ = many.learn(
        episodes.support[0].split(chunk), episodes.support_labels[0], episodes.query[0].split(chunk), 3, dim, how
    )
    *_, (expected,) = prototype_path(episodes, how)
    torch.testing.assert_close(prototypes, expected, **CLOSE)
    _, (u,) = calibrate(episodes, how)
    torch.testing.assert_close(next(iter(many.calibrated(episodes.query, center, how))), u, **CLOSE)


def test_biases_make_the_classes_as_large_as_told():
    episodes, _ = clouds(episodes=1, queries=40)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    how = Adaptation("sinkhorn", 10.0, 3, 0.2, "separate", True, class_prior=prior)
    _, (u,) = calibrate(episodes, how)
    prototypes, bias = many.adapt_rows(*_start(episodes, how), u.split(7), how)
    sizes = sum(many.assign(part, prototypes, bias, how).sum(0) for part in u.split(9))
    torch.testing.assert_close(sizes, 40 * prior, atol=1e-4, rtol=0)
    with pytest.raises(UserError, match="class_prior"):
        many.adapt_rows(*_start(episodes, how), [u], Adaptation("sinkhorn", 10.0, 1, class_prior=prior[:2]))


def _start(episodes, how):
    support, _ = calibrate(episodes, how)
    return (episodes.membership.mT @ support)[0], episodes.shots[0]


def test_sums_do_not_drift_with_many_float32_rows():
    """100,000 rows in float32, one step: the float64 answer to seven digits, though a float32 sum has lost two."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(100_000, 4, generator=generator)
    how = Adaptation("euclid", 0.0, 1)  # scale 0: every row counts the same for both classes
    prototypes, _ = many.adapt_rows(torch.zeros(2, 4), torch.ones(2), rows.split(64), how)
    expected = 0.5 * rows.double().sum(0) / (1 + 50_000)
    torch.testing.assert_close(prototypes, expected.expand(2, 4), atol=0, rtol=1e-7)


def test_small_chunks_are_kept_and_large_ones_worked_out_anew(monkeypatch):
    calls = []

    def work(x):
        calls.append(len(x))
        return x

    source = torch.zeros(10, 4).split(5)
    chunks = many.kept(many.Chunks(source, work))
    assert [len(c) for c in chunks] == [len(c) for c in chunks] == [5, 5]
    assert calls == [5, 5]
    monkeypatch.setattr(many, "KEEP", 100)  # bytes: the second chunk is one too many
    calls.clear()
    chunks = many.kept(many.Chunks(source, work))
    assert len(list(chunks)) == len(list(chunks)) == 2
    assert calls == [5] * 6


@given(
    st.integers(1, 5).flatmap(
        lambda way: st.lists(st.lists(st.integers(0, 3), min_size=way, max_size=way), min_size=1, max_size=6)
    )
)
def test_two_best_are_the_first_of_the_largest(rows):
    chosen, p = many.two_best(torch.tensor(rows, dtype=torch.float64))
    for row, picked, value in zip(rows, chosen.tolist(), p.tolist()):
        assert picked == sorted(range(len(row)), key=lambda c: -row[c])[:2]
        total = sum(math.exp(v) for v in row)
        assert value == pytest.approx([math.exp(row[c]) / total for c in picked])
