"""CIPA and its relatives against slow loops, and the three forms of their loop against each other."""

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

from protoadapt.core.errors import UserError
from protoadapt.core.methods import adaptation, native
from protoadapt.core.methods.adaptation import Adaptation, _gram_form, prototype_path
from protoadapt.core.methods.cipa import cipa, cipa_steps, powered
from protoadapt.core.methods.protonet import protonet
from protoadapt.core.methods.pt_map import pt_map, pt_map_steps
from protoadapt.core.methods.semi_protonet import semi_protonet, semi_protonet_steps
from protoadapt.core.methods.simpleshot import simpleshot
from protoadapt.core.methods.soft_kmeans import soft_kmeans, soft_kmeans_steps

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
    expected = slow(slow_semi, episodes, metric=metric, n_steps=steps)
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
    center=st.sampled_from(adaptation.CENTERS),
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
    in_space = adaptation._assign(adaptation._calibrated_queries(episodes, how), prototypes, how)
    torch.testing.assert_close(_gram_form(episodes, how), in_space, atol=1e-5, rtol=1e-5)
    in_space = in_space / in_space.sum(-1, keepdim=True)
    torch.testing.assert_close(native.adapt(episodes, how), in_space, atol=1e-5, rtol=1e-5)


def test_many_rows_take_the_feature_space_form(monkeypatch):
    episodes, _ = clouds(queries=adaptation.SMALL + 1, episodes=1)
    monkeypatch.setattr(native, "adapt", None)  # neither of the others may be called
    monkeypatch.setattr(adaptation, "_gram_form", None)
    torch.testing.assert_close(cipa(episodes), slow(slow_cipa, episodes))


def test_without_numba_torch_answers_the_same(monkeypatch):
    episodes, _ = clouds()
    compiled = cipa(episodes), pt_map(episodes)
    monkeypatch.setattr(native, "njit", None)
    torch.testing.assert_close(cipa(episodes), compiled[0])
    torch.testing.assert_close(pt_map(episodes), compiled[1])


def test_steps_start_at_the_class_means_and_lead_to_the_answer():
    episodes, _ = clouds()
    path = list(cipa_steps(episodes, n_iter=7))
    assert len(path) == 8
    support, query = adaptation.calibrate(
        powered(episodes, 0.5, "strict"), Adaptation("cosine", 1.0, 0, 1, "separate", True)
    )
    for c in range(3):
        torch.testing.assert_close(path[0][:, c], support[:, episodes.support_labels[0] == c].mean(1))
    logits = 10 * torch.nn.functional.cosine_similarity(query[:, :, None], path[-1][:, None], dim=-1)
    torch.testing.assert_close(logits.softmax(-1), cipa(episodes, n_iter=7))


UNIT = {"center": "separate", "l2": True}
PATHS = {
    "cipa": (cipa, cipa_steps, "strict", 0.2, UNIT),
    "pt_map": (pt_map, pt_map_steps, "strict", 0.2, UNIT),
    "semi_protonet": (semi_protonet, semi_protonet_steps, None, 1.0, {}),
    "soft_kmeans": (soft_kmeans, soft_kmeans_steps, None, 1.0, {"center": "joint", "l2": True}),
}


@pytest.mark.parametrize("name", PATHS)
def test_each_step_goes_where_the_answers_before_it_pull(name):
    run, steps, power, sigma, calibration = PATHS[name]
    episodes, _ = clouds(shots=(2, 1, 3))
    given = powered(episodes, 0.5, power) if power else episodes
    support, rows = adaptation.calibrate(given, Adaptation("cosine", 1.0, 0, **calibration))
    y = episodes.membership
    path = list(steps(episodes, n_iter=4))
    assert len(path) == 5
    for k in range(4):
        z = run(episodes, n_iter=k)
        pulled = (y.mT @ support + z.mT @ rows) / (y.sum(1) + z.sum(1))[..., None]
        torch.testing.assert_close(path[k + 1], sigma * pulled + (1 - sigma) * path[k], atol=1e-5, rtol=1e-5)


def test_a_sinkhorn_plan_keeps_its_marginals():
    episodes, _ = clouds(queries=20)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    plan = pt_map(episodes, class_prior=prior)
    np.testing.assert_allclose(plan.sum(1).numpy(), np.tile(20 * prior.numpy(), (3, 1)), atol=1e-3)


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
