"""The learner over a row source against the Gram form and the form in feature space, whatever the blocks."""

import math

import pytest
import torch
from helpers.cases import clouds
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.core.errors import UserError
from protoadapt.core.methods import row_source
from protoadapt.core.methods.adaptation import Adaptation, gram_form, prepare, prototype_path
from protoadapt.core.methods.bapa import bapa
from protoadapt.core.methods.normalize import powered
from protoadapt.core.methods.row_learner import Support, bapa_steps, prototype_steps, two_best
from protoadapt.core.methods.row_source import Blocks, DenseBlock
from protoadapt.core.methods.settings import CENTERS

CLOSE = {"atol": 1e-6, "rtol": 1e-6}


def blocks(rows, size):
    return [DenseBlock(part) for part in rows.split(size)]


def learned(episodes, how, size):
    """The models after each step, from one episode's rows in blocks."""
    support = Support(blocks(episodes.support[0], size), episodes.support_labels[0], episodes.n_way)
    return list(prototype_steps(support, Blocks(blocks(episodes.query[0], size)), how))


def answers(model, rows, size):
    return torch.cat([model.logits(block).softmax(0).mT for block in blocks(rows, size)])


@settings(max_examples=60, deadline=None)
@given(
    rule=st.sampled_from([("cosine", 10.0), ("euclid", 5.0), ("sinkhorn", 10.0)]),
    center=st.sampled_from(CENTERS),
    l2=st.booleans(),
    steps=st.integers(0, 6),
    sigma=st.floats(0, 1),
    rows=st.integers(1, 40),
    size=st.integers(1, 41),
    shots=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    seed=st.integers(0, 99),
)
def test_blocks_give_the_answers_of_the_other_forms(rule, center, l2, steps, sigma, rows, size, shots, seed):
    episodes, _ = clouds(episodes=1, way=len(shots), shots=shots, queries=rows, seed=seed)
    episodes = powered(episodes, 0.5, "strict")
    how = Adaptation(*rule, steps, sigma, center, l2)
    models = learned(episodes, how, size)
    for model, (expected,) in zip(models, prototype_path(episodes, how), strict=True):
        torch.testing.assert_close(model.prototypes, expected, **CLOSE)
    (answer,) = gram_form(episodes, how)
    found = answers(models[-1], episodes.query[0], size)
    torch.testing.assert_close(found, answer / answer.sum(1, keepdim=True), **CLOSE)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("size", [1, 5, 100])
def test_the_centre_is_that_of_the_unlabelled_rows(center, size):
    episodes, _ = clouds(episodes=1, queries=23)
    how = Adaptation("cosine", 10.0, 4, 0.2, center, True)
    model = learned(episodes, how, size)[-1]
    _, (u,) = prepare(episodes, how)
    torch.testing.assert_close(DenseBlock(episodes.query[0]).about(model.center, True).rows, u, **CLOSE)


def test_biases_make_the_classes_as_large_as_the_prior():
    episodes, _ = clouds(episodes=1, queries=40)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    model = learned(episodes, Adaptation("sinkhorn", 10.0, 3, 0.2, "separate", True, class_prior=prior), 7)[-1]
    sizes = answers(model, episodes.query[0], 9).sum(0)
    torch.testing.assert_close(sizes, 40 * prior, atol=1e-3, rtol=0)  # what fifty rounds leave
    with pytest.raises(UserError, match="class_prior"):
        learned(episodes, Adaptation("sinkhorn", 10.0, 1, class_prior=prior[:2]), 7)


def test_sums_do_not_drift_with_many_float32_rows():
    """100,000 rows in float32, one step: the float64 answer to seven digits, though a float32 sum has lost two."""
    rows = torch.rand(100_000, 4, generator=torch.Generator().manual_seed(0))
    how = Adaptation("euclid", 0.0, 1)  # scale 0: every row counts the same for both classes
    support = Support([DenseBlock(torch.zeros(2, 4))], torch.tensor([0, 1]), 2)
    *_, model = prototype_steps(support, Blocks(blocks(rows, 64)), how)
    expected = 0.5 * rows.double().sum(0) / (1 + 50_000)
    torch.testing.assert_close(model.prototypes, expected.expand(2, 4), atol=0, rtol=1e-7)


@pytest.mark.parametrize("shots", [(2, 1, 3), (4, 3, 5)], ids=str)
@pytest.mark.parametrize("spread", [0.5, 2.5])
@pytest.mark.parametrize("queries", [1, 30])
def test_bapa_learns_the_same_from_any_blocks(queries, spread, shots):
    episodes, _ = clouds(episodes=1, queries=queries, spread=spread, shots=shots)
    how = Adaptation("euclid", 10.0, 12, 0.25, l2=True)
    expected = bapa(episodes, power="off")[0]
    for size in (1, 7, 100):
        support = Support(blocks(episodes.support[0], size), episodes.support_labels[0], 3)
        *_, model = bapa_steps(support, Blocks(blocks(episodes.query[0], size)), how, 3.0, 10.0)
        torch.testing.assert_close(answers(model, episodes.query[0], size), expected, atol=1e-9, rtol=0)


def test_small_blocks_are_kept_and_large_ones_computed_again(monkeypatch):
    calls = []

    def work(x):
        calls.append(len(x))
        return x

    source = torch.zeros(10, 4).split(5)
    chunks = row_source.kept(row_source.Computed(source, work))
    assert [len(c) for c in chunks] == [len(c) for c in chunks] == [5, 5]
    assert calls == [5, 5]
    monkeypatch.setattr(row_source, "KEPT_BYTES", 100)  # bytes: the second chunk is one too many
    calls.clear()
    chunks = row_source.kept(row_source.Computed(source, work))
    assert len(list(chunks)) == len(list(chunks)) == 2
    assert calls == [5] * 6


@given(
    st.integers(1, 5).flatmap(
        lambda way: st.lists(st.lists(st.integers(0, 3), min_size=way, max_size=way), min_size=1, max_size=6)
    )
)
def test_two_best_are_the_first_of_the_largest(rows):
    chosen, p = two_best(torch.tensor(rows, dtype=torch.float64))
    for row, picked, value in zip(rows, chosen.tolist(), p.tolist()):
        assert picked == sorted(range(len(row)), key=lambda c: -row[c])[:2]
        total = sum(math.exp(v) for v in row)
        assert value == pytest.approx([math.exp(row[c]) / total for c in picked])
