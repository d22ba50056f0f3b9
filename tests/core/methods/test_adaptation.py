"""CIPA and its relatives against slow loops, and the three forms of their loop against each other."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.cases import clouds, slow
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cipa as slow_cipa
from reference import protonet as slow_protonet
from reference import pt_map as slow_pt_map
from reference import semi_protonet as slow_semi
from reference import simpleshot as slow_simpleshot
from reference import soft_kmeans as slow_kmeans

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods import adaptation, native
from protoadapt.core.methods.adaptation import Adaptation, gram_form, prototype_path
from protoadapt.core.methods.bapa import bapa
from protoadapt.core.methods.cipa import cipa
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.normalize import powered
from protoadapt.core.methods.protonet import protonet
from protoadapt.core.methods.pt_map import pt_map
from protoadapt.core.methods.semi_protonet import semi_protonet
from protoadapt.core.methods.settings import CENTERS
from protoadapt.core.methods.simpleshot import simpleshot
from protoadapt.core.methods.soft_kmeans import soft_kmeans

bapa_module = sys.modules["protoadapt.core.methods.bapa"]

CIPA_SWITCHES = [
    {},
    {"n_iter": 0},
    {"n_iter": 1, "sigma": 1.0},
    {"sigma": 1.0},
    {"center": "joint"},
    {"center": "support"},
    {"center": "none"},
    {"l2": False},
    {"power": "off"},
    {"power": "off", "center": "none", "l2": False},
    {"power": "signed"},
    {"beta": 0.3, "tau": 4.0},
]


@pytest.mark.parametrize("switches", CIPA_SWITCHES, ids=str)
@pytest.mark.parametrize("shots", [1, 5, (2, 1, 3)], ids=str)
def test_cipa_is_the_papers_algorithm(switches, shots):
    episodes, _ = clouds(shots=shots)
    torch.testing.assert_close(cipa(episodes, **switches), slow(slow_cipa, episodes, **switches))


@pytest.mark.parametrize("query_center", ["none", "unlabeled"])
@pytest.mark.parametrize("center", ["separate", "joint", "support", "none"])
def test_semi_supervised_cipa(center, query_center):
    episodes, _ = clouds(unlabeled=9)
    switches = {"center": center, "query_center": query_center}
    torch.testing.assert_close(cipa(episodes, **switches), slow(slow_cipa, episodes, **switches))


@pytest.mark.parametrize("metric", ["cosine", "euclid"])
def test_protonet(metric):
    episodes, _ = clouds()
    torch.testing.assert_close(protonet(episodes, metric=metric), slow(slow_protonet, episodes, metric=metric))


@pytest.mark.parametrize("metric", ["cosine", "euclid"])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("unlabeled", [0, 7])
def test_semi_protonet(metric, steps, unlabeled):
    episodes, _ = clouds(unlabeled=unlabeled)
    expected = slow(slow_semi, episodes, metric=metric, n_iter=steps)
    torch.testing.assert_close(semi_protonet(episodes, metric=metric, n_iter=steps), expected)


def test_soft_kmeans():
    episodes, _ = clouds()
    torch.testing.assert_close(soft_kmeans(episodes), slow(slow_kmeans, episodes))


def test_simpleshot():
    episodes, _ = clouds()
    torch.testing.assert_close(simpleshot(episodes), slow(slow_simpleshot, episodes))


@pytest.mark.parametrize("prior", [None, [0.5, 0.3, 0.2]])
def test_pt_map(prior):
    episodes, _ = clouds()
    expected = slow(slow_pt_map, episodes, class_prior=prior)
    torch.testing.assert_close(pt_map(episodes, class_prior=prior), expected, atol=1e-5, rtol=1e-5)


RULES = [("cosine", 10.0), ("euclid", 5.0), ("sinkhorn", 10.0)]


@settings(max_examples=40, deadline=None)
@given(
    rule=st.sampled_from(RULES),
    center=st.sampled_from(CENTERS),
    l2=st.booleans(),
    steps=st.integers(0, 6),
    sigma=st.floats(0, 1),
    queries=st.integers(1, 30),
    unlabeled=st.integers(0, 12),
    query_center=st.sampled_from(["none", "unlabeled"]),
    shots=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    seed=st.integers(0, 99),
)
def test_three_forms_give_one_answer(rule, center, l2, steps, sigma, queries, unlabeled, query_center, shots, seed):
    unlabeled = 0 if rule[0] == "sinkhorn" else unlabeled  # transport moves the queries themselves
    episodes, _ = clouds(way=len(shots), shots=shots, queries=queries, unlabeled=unlabeled, seed=seed)
    episodes = powered(episodes, 0.5, "strict")
    how = Adaptation(*rule, steps, sigma, center, l2, query_center)
    *_, prototypes = prototype_path(episodes, how)
    in_space = adaptation._assign(adaptation._prepared_queries(episodes, how), prototypes, how)
    torch.testing.assert_close(gram_form(episodes, how), in_space, atol=1e-5, rtol=1e-5)
    in_space = in_space / in_space.sum(-1, keepdim=True)
    torch.testing.assert_close(native.adapt(episodes, how), in_space, atol=1e-5, rtol=1e-5)


def test_many_rows_take_the_feature_space_form(monkeypatch):
    episodes, _ = clouds(queries=adaptation.SMALL + 1, episodes=1)
    monkeypatch.setattr(native, "adapt", None)  # neither of the others may be called
    monkeypatch.setattr(adaptation, "gram_form", None)
    torch.testing.assert_close(cipa(episodes), slow(slow_cipa, episodes))


def test_without_numba_torch_answers_the_same(monkeypatch):
    episodes, _ = clouds()
    compiled = cipa(episodes), pt_map(episodes)
    monkeypatch.setattr(native, "njit", None)
    torch.testing.assert_close(cipa(episodes), compiled[0])
    torch.testing.assert_close(pt_map(episodes), compiled[1])


def test_steps_start_at_the_class_means_and_lead_to_the_answer():
    episodes, _ = clouds()
    how = Adaptation("cosine", 10.0, 7, 0.2, "separate", True)
    path = list(prototype_path(powered(episodes, 0.5, "strict"), how))
    assert len(path) == 8
    support, query = adaptation.prepare(powered(episodes, 0.5, "strict"), how)
    for c in range(3):
        torch.testing.assert_close(path[0][:, c], support[:, episodes.support_labels[0] == c].mean(1))
    logits = 10 * torch.nn.functional.cosine_similarity(query[:, :, None], path[-1][:, None], dim=-1)
    torch.testing.assert_close(logits.softmax(-1), cipa(episodes, n_iter=7))


UNIT = {"center": "separate", "l2": True}
PATHS = {
    "cipa": (cipa, "strict", Adaptation("cosine", 10.0, 4, 0.2, **UNIT)),
    "pt_map": (pt_map, "strict", Adaptation("sinkhorn", 10.0, 4, 0.2, **UNIT)),
    "semi_protonet": (semi_protonet, "off", Adaptation("euclid", 1.0, 4)),
    "soft_kmeans": (soft_kmeans, "off", Adaptation("euclid", 5.0, 4, center="joint", l2=True)),
}


@pytest.mark.parametrize("name", PATHS)
def test_each_step_goes_where_the_answers_before_it_pull(name):
    run, power, how = PATHS[name]
    episodes, _ = clouds(shots=(2, 1, 3))
    given = powered(episodes, 0.5, power)
    support, rows = adaptation.prepare(given, how)
    y = episodes.membership
    path = list(prototype_path(given, how))
    assert len(path) == 5
    for k in range(4):
        z = run(episodes, n_iter=k)
        pulled = (y.mT @ support + z.mT @ rows) / (y.sum(1) + z.sum(1))[..., None]
        expected = how.sigma * pulled + (1 - how.sigma) * path[k]
        torch.testing.assert_close(path[k + 1], expected, atol=1e-5, rtol=1e-5)


def test_a_sinkhorn_plan_keeps_its_marginals():
    episodes, _ = clouds(queries=20)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    plan = pt_map(episodes, class_prior=prior)
    np.testing.assert_allclose(plan.sum(1).numpy(), np.tile(20 * prior.numpy(), (3, 1)), atol=1e-3)


def test_a_negative_row_that_is_never_drawn_is_no_error():
    """Only the rows of these episodes have to be rectified, whatever else is in the table."""
    episodes, _ = clouds()
    table = torch.cat([episodes.rows, torch.full_like(episodes.rows[:2], -1)])
    made = replace(episodes, rows=table, memo={})
    torch.testing.assert_close(cipa(made), cipa(episodes))
    torch.testing.assert_close(pt_map(made), pt_map(episodes))
    drawn = replace(made, query_index=made.query_index.clone())
    drawn.query_index[1, 3] = len(table) - 1
    with pytest.raises(UserError, match=r"lowest is -1: .*power=signed"):
        cipa(drawn)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-7, 1e7, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_cosines_do_not_depend_on_the_scale_of_the_features(scale, dtype):
    episodes, _ = clouds(dtype=dtype)
    scaled = replace(episodes, rows=episodes.rows * scale, memo={})
    for run in (protonet, lambda e: semi_protonet(e, metric="cosine")):
        torch.testing.assert_close(run(scaled), run(episodes), atol=1e-5, rtol=0)
    torch.testing.assert_close(unit(scaled.rows), unit(episodes.rows), atol=1e-6, rtol=0)


@pytest.mark.parametrize("method", [cipa, bapa, pt_map, semi_protonet, lambda e: protonet(e, metric="euclid")])
def test_features_too_small_to_compute_with_are_refused(method):
    """By an offset of 1e-6, or in distances that are rounding errors: answers would be at chance without a word."""
    episodes, truth = clouds(episodes=20, dtype=torch.float32)
    right = (method(episodes).argmax(-1) == truth).float().mean()
    for scale in 10.0 ** np.arange(-12, 1):
        try:
            answer = method(replace(episodes, rows=episodes.rows * scale, memo={}))
        except UserError:
            assert scale < 1e-2
        else:
            assert scale > 1e-6
            assert (answer.argmax(-1) == truth).float().mean() > right - 0.1
    torch.testing.assert_close(
        method(replace(episodes, rows=0 * episodes.rows, memo={})).sum(-1), torch.ones(truth.shape)
    )


@pytest.mark.parametrize("method", [cipa, bapa], ids=["cipa", "bapa"])
def test_a_row_at_the_centre_means_the_same_in_every_form(method, monkeypatch):
    """A row nearer to the centre than a millionth of its length is zero after centring, one further off is not."""
    for apart, at_center in ((3e-7, True), (1e-5, False)):
        query = torch.eye(4, dtype=torch.float64)[:, None].repeat(1, 2, 1).flatten(0, 1)[None]
        support = torch.eye(4, dtype=torch.float64)[None, :2] + 1
        query = torch.cat([query + 1, torch.full((1, 1, 4), 1.25, dtype=torch.float64)], 1)
        query[0, -1, 0] += apart * 2.5 * 2
        made = Episodes.from_tensors(support, torch.tensor([[0, 1]]), query, 2)
        settings = {"power": "off", "n_iter": 0} | ({"k_s": 1e-6} if method is bapa else {})
        answers = [method(made, **settings)[0, -1]]
        with monkeypatch.context() as patch:
            patch.setattr(native, "njit", None)
            answers.append(method(made, **settings)[0, -1])
            patch.setattr(adaptation, "large", lambda episodes: True)
            patch.setattr(bapa_module, "large", lambda episodes: True)
            answers.append(method(made, **settings)[0, -1])
        for answer in answers:
            torch.testing.assert_close(answer, answers[0], atol=1e-4, rtol=0)
        if method is cipa:
            assert (abs(float(answers[0][0] - 0.5)) < 1e-3) == at_center


def test_negative_features_are_an_error_that_names_the_fix():
    episodes, _ = clouds()
    shifted = episodes.each_row(torch.sub, other=0.5)
    with pytest.raises(UserError, match=r"power=signed"):
        cipa(shifted)
    assert torch.isfinite(cipa(shifted, power="auto")).all()


def test_auto_power_is_strict_on_rectified_features():
    episodes, _ = clouds()
    torch.testing.assert_close(cipa(episodes, power="auto"), cipa(episodes), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"center": "mean"}, "center"),
        ({"sigma": 2.0}, "sigma"),
        ({"n_iter": -1}, "n_iter"),
        ({"n_iter": 10**9}, "n_iter"),
        ({"power": "x"}, "power"),
        ({"beta": 0.0}, "beta"),
    ],
)
def test_wrong_switches_are_named(wrong, word):
    episodes, _ = clouds()
    with pytest.raises(UserError, match=word):
        cipa(episodes, **wrong)
