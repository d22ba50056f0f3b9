"""The prototype family: one law for its loop, its compiled twin and its row holders, and what its members are known by.

That each member equals its slow loop, with every switch, is in tests/core/test_laws.py.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.cases import clouds
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import bapa as reference

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods import family, rows, twin
from protoadapt.core.methods.bapa import bapa, mixture_rule
from protoadapt.core.methods.cipa import cipa
from protoadapt.core.methods.common import powered
from protoadapt.core.methods.family import Rule, learn, log_shares, sizes_are_equal
from protoadapt.core.methods.prototypes import protonet, semi_protonet, soft_kmeans
from protoadapt.core.methods.pt_map import pt_map, transport_rule
from protoadapt.core.methods.rows import Holder, Slices, kept, powered_rows
from protoadapt.core.prototype_model import two_best


@st.composite
def rules(draw, way):
    """Any rule: every choice with every other one, but for a transport about a centre that moves."""
    steps, sigma = draw(st.integers(0, 6)), draw(st.floats(0, 1))
    center = draw(st.sampled_from(twin.PLACES))
    sizes = [kind for kind in twin.SIZES if center != "classes" or kind != "transport"]
    similarity = draw(st.sampled_from(["cosine", "euclid"]))
    return Rule(
        similarity=similarity,
        scale=10.0 if similarity == "cosine" else draw(st.sampled_from([5.0, 10.0])),
        n_iter=steps,
        sigma=sigma,
        center=center,
        l2=draw(st.booleans()),
        query_center=draw(st.sampled_from(["none", "unlabeled"])),
        sizes=draw(st.sampled_from(sizes)),
        class_prior=draw(st.sampled_from([None, "equal", list(range(1, way + 1))])),
        kappa=draw(st.one_of(st.just(0.0), st.floats(0, 5))),
    )


@st.composite
def tasks(draw):
    """A rule, and episodes for it after the power transform."""
    shots = draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    rule = draw(rules(len(shots)))
    made = {
        "queries": draw(st.integers(1, 30)),
        "unlabeled": 0 if rule.sizes == "transport" else draw(st.integers(0, 12)),
    }
    made |= {"spread": draw(st.sampled_from([0.5, 1.5])), "seed": draw(st.integers(0, 99))}
    return rule, powered(clouds(way=len(shots), shots=shots, **made)[0], 0.5, "strict")


@settings(max_examples=150, deadline=None)
@given(tasks(), st.integers(1, 41))
def test_twin_body_and_holders_give_one_answer(task, size):
    rule, episodes = task
    body = family.in_feature_space(episodes, rule)
    torch.testing.assert_close(twin.adapt_compiled(episodes, rule), body, atol=1e-6, rtol=0)
    *_, model = family.prototype_path(episodes, rule)
    helping = episodes.query_index if episodes.unlabeled_index is None else episodes.unlabeled_index
    for e in range(len(episodes)):
        x, y = episodes.support[e], episodes.membership[e]
        unlabeled = [part.numpy() for part in episodes.rows[helping[e]].split(size)]
        for holder in (
            Holder(unlabeled, lambda rows: [torch.from_numpy(rows)]),
            Holder([*map(torch.from_numpy, unlabeled)]),
        ):
            *_, one = learn(rule, (x, y.mT), holder, y.sum(0)[:, None])
            for name in ("center", "prototypes", "bias"):
                torch.testing.assert_close(getattr(one, name), getattr(model, name)[e], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("rule", [mixture_rule(8, 0.35, 11.0, 2.0, None), transport_rule(20, 0.2, 10.0, None)], ids=str)
@pytest.mark.parametrize("spread", [0.5, 2.5])
def test_the_twin_answers_alike_in_float32(rule, spread):
    episodes = powered(
        clouds(episodes=40, queries=30, shots=(5, 1, 2), spread=spread, dtype=torch.float32)[0], 0.5, "auto"
    )
    close = {"atol": 5e-4, "rtol": 0}  # twenty steps carry rounding on, further where rows are unsure
    torch.testing.assert_close(twin.adapt_compiled(episodes, rule), family.in_feature_space(episodes, rule), **close)


@pytest.mark.parametrize("few", [True, False])
def test_the_twin_takes_small_episodes_on_a_cpu(few, monkeypatch):
    episodes, _ = clouds(queries=twin._SMALL + (not few), episodes=1, dtype=torch.float32)
    assert twin.takes(episodes) == few
    assert not twin.takes(replace(episodes, rows=episodes.rows.half()))
    expected = cipa(episodes), pt_map(episodes)
    monkeypatch.setattr(twin, "takes", lambda episodes: False)
    for run, answer in zip((cipa, pt_map), expected):
        torch.testing.assert_close(run(episodes), answer, atol=1e-3, rtol=0)


@pytest.mark.parametrize("run", [protonet, semi_protonet, soft_kmeans, cipa, bapa])
def test_an_empty_list_of_unlabelled_rows_moves_nothing(run):
    episodes, _ = clouds()
    index = episodes.query_index
    empty = replace(episodes, unlabeled_index=index[:, :0])
    assert not twin.takes(empty)
    answer = run(empty)
    assert torch.isfinite(answer).all()
    alone = run(replace(empty, query_index=index[:, :1]))
    torch.testing.assert_close(answer[:, :1], alone)


def test_sums_do_not_drift_with_many_float32_rows():
    """100,000 rows in float32, one step: the float64 answer to seven digits, though a float32 sum has lost two."""
    table = torch.rand(100_000, 4, generator=torch.Generator().manual_seed(0))
    shots = torch.ones(2, 1, dtype=torch.float64)  # scale 0: every row counts the same for both classes
    *_, model = learn(
        Rule(similarity="euclid", scale=0.0, n_iter=1),
        (torch.zeros(2, 4), torch.eye(2)),
        powered_rows(Slices(table.numpy(), np.arange(len(table)), 64), 0.5, "off", torch.float32, "cpu"),
        shots,
    )
    expected = 0.5 * table.double().sum(0) / (1 + 50_000)
    torch.testing.assert_close(model.prototypes, expected.expand(2, 4), atol=0, rtol=1e-7)


def test_small_blocks_are_kept_and_large_ones_made_again(monkeypatch):
    table, made = np.arange(40.0).reshape(10, 4), []

    def make(array):
        made.append(len(array))
        return [torch.from_numpy(array)]

    streamed = Holder(Slices(table, np.arange(1, 10), 5), make)
    held = kept(streamed)
    assert held.make is None
    assert made == [5, 4]
    zeros = (torch.zeros(4),)
    for holder in (held, streamed):
        (total,) = holder.each(lambda x: 2 * x).sums(lambda x: (x.sum(0),), zeros)
        np.testing.assert_array_equal(total, 2 * table[1:].sum(0))
    assert made == [5, 4] * 2
    monkeypatch.setattr(rows, "KEPT_BYTES", 100)
    assert kept(streamed) is streamed


@given(
    st.integers(1, 5).flatmap(
        lambda way: st.lists(st.lists(st.integers(0, 3), min_size=way, max_size=way), min_size=1, max_size=6)
    )
)
def test_two_best_are_the_first_of_the_largest(scores):
    chosen, p = two_best(torch.tensor(scores, dtype=torch.float64))
    for row, picked, value in zip(scores, chosen.tolist(), p.tolist()):
        assert picked == sorted(range(len(row)), key=lambda c: -row[c])[:2]
        total = sum(math.exp(v) for v in row)
        assert value == pytest.approx([math.exp(row[c]) / total for c in picked])


# ---------------------------------------------------------------------------------------------- members


def test_given_sizes_are_kept():
    """By PT+MAP in every step, by BAPA nearer with every step."""
    episodes, _ = clouds(queries=60, spread=1.0)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    np.testing.assert_allclose(pt_map(episodes, class_prior=prior).mean(1), prior.expand(3, 3), atol=1e-4)
    far = [float((bapa(episodes, class_prior=prior, n_iter=n).mean(1) - prior).abs().max()) for n in (1, 8, 200)]
    assert far[0] > far[1] > far[2]
    assert far[2] < 1e-3


@pytest.mark.parametrize("method", [cipa, bapa], ids=["cipa", "bapa"])
def test_a_row_at_the_centre_is_of_no_class_in_twin_and_body(method, monkeypatch):
    """A row nearer to the centre than a millionth of its length is zero after centring, one further off is not."""
    for apart, at_center in ((3e-7, True), (1e-5, False)):
        support = torch.eye(4, dtype=torch.float64)[None, :2] + 1
        query = torch.eye(4, dtype=torch.float64)[:, None].repeat(1, 2, 1).flatten(0, 1)[None] + 1
        center = torch.full((1, 1, 4), 1.25) if method is cipa else support.mean(1, keepdim=True)
        query = torch.cat([query, center.double()], 1)
        query[0, -1, 0] += apart * 2.5 * 2
        made = Episodes.from_tensors(support, torch.tensor([[0, 1]]), query, 2)
        answer = method(made, power="off", n_iter=0)[0, -1]
        monkeypatch.setattr(twin, "takes", lambda episodes: False)
        torch.testing.assert_close(method(made, power="off", n_iter=0)[0, -1], answer, atol=1e-4, rtol=0)
        monkeypatch.undo()
        assert (abs(float(answer[0] - 0.5)) < 1e-3) == at_center


# ---------------------------------------------------------------------------------------------- BAPA's sizes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 300), min_size=2, max_size=8))
def test_log_shares_are_averaged_over_the_concentrations_in_body_and_twin(sizes):
    n = np.array(sizes)
    expected = reference.log_shares(n)
    body = log_shares(torch.from_numpy(n)[:, None])[:, 0]
    np.testing.assert_allclose(body, expected, atol=1e-9)
    bias = np.zeros(len(n))
    twin._log_shares(n, bias)
    np.testing.assert_allclose(bias, expected, atol=1e-9)


def test_sizes_of_equal_classes_are_taken_as_equal_about_as_often_as_chance_says():
    """55 of 75 rows are exceeded by χ² with 4 degrees of freedom in 45 % of draws, far more often by unequal classes;
    few rows never look equal."""
    rng = np.random.default_rng(0)
    for shares, low, high in (([0.2] * 5, 0.51, 0.59), ([0.4, 0.3, 0.1, 0.1, 0.1], 0.0, 0.01)):
        n = torch.from_numpy(rng.multinomial(75, shares, 4000)).double()[..., None]
        assert low <= float(sizes_are_equal(n).double().mean()) <= high
    for n_rows in (1, 3, 6):
        assert not sizes_are_equal(torch.full((5, 1), n_rows / 5))


def test_a_class_without_labels_starts_at_the_centre_in_twin_and_body():
    """There K_c = 0, and with κ = 0 its first prototype is 0/0."""
    episodes, _ = clouds(shots=(2, 0, 3))
    for kappa in (2.0, 0.0):
        rule = mixture_rule(8, 0.35, 11.0, kappa, None)
        plain = powered(episodes, 0.5, "auto")
        answer = twin.adapt_compiled(plain, rule)
        assert torch.isfinite(answer).all()
        torch.testing.assert_close(answer, family.in_feature_space(plain, rule), atol=1e-8, rtol=0)


def test_given_sizes_are_kept_where_shares_are_tiny():
    """Sharp logits: shares far below what the compiled exponential can tell apart."""
    numbers = torch.Generator().manual_seed(0)
    support, query = torch.randn(50, 3, 8, generator=numbers), torch.randn(50, 2, 8, generator=numbers)
    episodes = powered(Episodes.from_tensors(support, torch.arange(3).expand(50, 3), query, 3), 0.5, "auto")
    for lam in (30.0, 100.0):
        for steps in (0, 12):
            rule = mixture_rule(steps, 0.35, lam, 2.0, "equal")
            torch.testing.assert_close(
                twin.adapt_compiled(episodes, rule), family.in_feature_space(episodes, rule), atol=1e-3, rtol=0
            )
