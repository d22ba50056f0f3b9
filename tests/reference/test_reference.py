"""The reference loops beside what is known in another way: closed forms, optimality conditions, other solvers.

That they are the methods' equations is seen from the laws, where each equals a method that was written without it.
"""

import inspect

import numpy as np
import pytest
import torch
from helpers.cases import clouds, slow_loop

from protoadapt.core.methods import method

from .bapa import bapa
from .cipa import cipa
from .common import class_means, hard, one_hot, sinkhorn, softmax, unit
from .inductive import simpleshot
from .prototypes import protonet, semi_protonet
from .tim import adm_step, alpha_tim, probabilities, tim_adm, tim_gd, tim_loss


def episode(shots=2, queries=30, **more):
    """Support rows, their labels, queries and the queries' labels of one episode of five classes."""
    made, truth = clouds(episodes=1, way=5, shots=shots, queries=queries, **more)
    return made.support[0].numpy(), made.support_labels[0].numpy(), made.query[0].numpy(), truth[0].numpy()


DEFAULTS = {  # of the papers, in our methods' words
    "protonet": {"metric": "cosine", "tau": None},
    "cipa": {"n_iter": 20, "sigma": 0.2, "tau": 10.0, "beta": 0.5, "center": "separate", "l2": True},
    "semi_protonet": {"n_iter": 1, "metric": "euclid", "tau": None},
    "soft_kmeans": {"n_iter": 29, "tau": 5.0},  # 30 rounds of distances, 29 updates between them
    "pt_map": {"lam": 10.0, "n_iter": 20, "step": 0.2, "class_prior": None},
    "laplacian_shot": {"n_neighbors": 2, "n_iter": 20, "rectify": True},
    "tim_gd": {"n_iter": 1000, "lr": 1e-4, "temp": 15.0, "weights": (0.1, 1.0, 0.1)},
    "tim_adm": {"n_iter": 150, "temp": 15.0, "weights": (0.1, 1.0, 0.1)},
    "alpha_tim": {"n_iter": 1000, "lr": 1e-4, "temp": 15.0, "weights": (1.0, 1.0, 1.0), "alpha": None},
    "transductive_fine_tuning": {"n_epochs": 25, "lr": 5e-5},
    "paddle": {"n_iter": 100, "gamma": 1.0, "scale": None},
    "bavardage": {"n_iter": 5, "prior": 2.0, "beta": 10.0, "most": 5.0},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_the_papers(name):
    """Of the methods, and of the loops they are compared with."""
    assert DEFAULTS[name].items() <= method(name).settings.items()
    loop = inspect.signature(slow_loop(name)).parameters
    for key, value in DEFAULTS[name].items():
        if (written := loop.get(key)) and value is not None:
            assert written.default == value, key


# ---------------------------------------------------------------------------------------------- prototypes


def test_where_papers_of_one_family_say_the_same_their_loops_do():
    support, y, query, _ = episode()
    plain = {"power": "off", "center": "none", "l2": False}
    for one, other in (
        (cipa(support, y, query, 5, n_iter=0, **plain), protonet(support, y, query, 5)),
        (semi_protonet(support, y, query, 5, n_iter=0), protonet(support, y, query, 5, metric="euclid")),
        (
            semi_protonet(support, y, query, 5, n_iter=4, metric="cosine"),
            cipa(support, y, query, 5, n_iter=4, sigma=1.0, **plain),
        ),
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_cipa_step_in_closed_form():
    """Support e₁, e₂ and one query e₁: p₁ never moves, p₂ = (e₂ + z₂e₁)/(1 + z₂) when σ = 1."""
    got = cipa(np.eye(2), [0, 1], np.eye(2)[:1], 2, n_iter=1, sigma=1.0, tau=3.0, power="off", center="none")
    z2 = 1 / (1 + np.exp(3.0))
    cos2 = z2 / np.sqrt(1 + z2**2)
    np.testing.assert_allclose(got, softmax(np.array([[3.0, 3.0 * cos2]])), atol=1e-14)


def test_bapa_holds_where_cipa_assumes_balance():
    """All queries of one class: CIPA's own centring spreads them over all classes, ours must not."""
    ours, theirs = [], []
    for seed in range(5):
        support, y, query, truth = episode(5, 150, seed=seed, spread=0.4)
        query = query[truth == 2]
        ours.append((bapa(support, y, query, 5).argmax(axis=1) == 2).mean())
        theirs.append((cipa(support, y, query, 5).argmax(axis=1) == 2).mean())
    assert np.mean(ours) > 0.9 > 0.6 > np.mean(theirs)


def test_simpleshot_and_ties():
    answer = simpleshot([[2.0, 0], [0, 5.0]], [0, 1], [[3.0, 1.0], [1.0, 1.0]], 2, base_mean=[0.0, 0.0])
    np.testing.assert_array_equal(answer, [[1, 0], [0.5, 0.5]])
    np.testing.assert_array_equal(hard(np.array([[1.0, 1.0 + 1e-13, 0.0]])), [[0.5, 0.5, 0.0]])


def test_sinkhorn_is_the_entropic_optimum():
    """Right marginals and the form u_i K_ic v_c together characterise the optimum: no linear programme is needed."""
    kernel = np.exp(-5 * np.random.default_rng(0).random((12, 4)))
    columns = np.array([1.0, 2.0, 4.0, 5.0])
    plan = sinkhorn(kernel, columns, eps=1e-12, max_rounds=100000)
    np.testing.assert_allclose(plan.sum(axis=0), columns, atol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=1), 1.0, atol=1e-9)
    potential = np.log(plan / kernel)
    potential = potential - potential.mean(axis=0) - potential.mean(axis=1)[:, None] + potential.mean()
    np.testing.assert_allclose(potential, 0.0, atol=1e-10)


# ---------------------------------------------------------------------------------------------- gradient methods


@pytest.mark.parametrize("method", [tim_adm, tim_gd])
def test_tim_starts_at_the_prototypes_and_gains_information(method):
    support, y, query, _ = episode()
    q = torch.from_numpy(unit(query))
    start = probabilities(q, torch.from_numpy(class_means(unit(support), y, 5)), 15.0)
    np.testing.assert_allclose(method(support, y, query, 5, n_iter=0), start.numpy(), atol=1e-12)
    sure = torch.from_numpy(one_hot(y, 5))  # the support term at 0: what is left the queries alone determine
    answers = [torch.from_numpy(method(support, y, query, 5, n_iter=n)) for n in (0, 10, 150)]
    losses = [float(tim_loss(sure, sure, p, (0.1, 1.0, 0.1))) for p in answers]
    assert losses[0] > losses[1] > losses[2]


def test_tim_adm_step_is_a_scaled_gradient_step():
    """w' − w = −∇/(temp·denominator) for the loss c₁ Σ_S CE(y, P) + c₂ Σ_Q CE(R, P) with R held fixed."""
    support, y, query, _ = episode()
    s, q, labels = unit(support), unit(query), one_hot(y, 5)
    w = torch.from_numpy(class_means(s, y, 5)).requires_grad_()
    p_s, p_q = (probabilities(torch.from_numpy(x), w, 15.0) for x in (s, q))
    sharp = p_q.detach() ** 1.1
    r = sharp / sharp.sum(dim=0).sqrt()
    r = r / r.sum(dim=1, keepdim=True)
    c1, c2 = 0.1 / 1.1, 10 / 30
    loss = -c1 * (torch.from_numpy(labels) * p_s.log()).sum() - c2 * (r * p_q.log()).sum()
    (gradient,) = torch.autograd.grad(loss, [w])
    scale = 15.0 * (c1 * labels.sum(axis=0) + c2 * r.sum(dim=0).numpy())
    expected = w.detach().numpy() - gradient.numpy() / scale[:, None]
    np.testing.assert_allclose(adm_step(s, labels, q, w.detach().numpy(), 15.0, (0.1, 1.0, 0.1)), expected, atol=1e-12)


def test_alpha_tim_tends_to_tim_as_alpha_tends_to_one():
    support, y, query, _ = episode(1)
    shannon = tim_gd(support, y, query, 5, n_iter=60, lr=1e-3, weights=(1.0, 1.0, 1.0))
    near = alpha_tim(support, y, query, 5, n_iter=60, lr=1e-3, alpha=1.0 + 1e-6)
    np.testing.assert_allclose(near, shannon, atol=1e-4)
    far = alpha_tim(support, y, query, 5, n_iter=60, lr=1e-3)
    np.testing.assert_array_equal(far, alpha_tim(support, y, query, 5, n_iter=60, lr=1e-3, alpha=2.0))
    assert np.abs(far - shannon).max() > 1e-3
