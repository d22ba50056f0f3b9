"""The reference loops: closed forms of the prototype methods, defaults, and rows followed one by one."""

import inspect

import numpy as np
import pytest
from helpers.cases import slow_loop
from scipy.special import digamma
from scipy.stats import dirichlet_multinomial

from protoadapt.core.methods import method

from .bapa import bapa, log_shares
from .bd_cspn import bd_cspn
from .cases import episode, means, softened
from .cipa import cipa
from .common import hard, one_hot, unit
from .inductive import simpleshot
from .laplacian_shot import laplacian_shot
from .prototypes import protonet, semi_protonet, soft_kmeans

# ---------------------------------------------------------------------------------------------- prototypes


def test_cipa_without_steps_or_preparation_is_cosine_to_class_means():
    support, y, query, _, _ = episode(1, shot=3)
    got = cipa(support, y, query, 5, n_iter=0, power="off", center="none", l2=False)
    p = means(support, y, 5)
    cos = query @ p.T / np.linalg.norm(query, axis=1)[:, None] / np.linalg.norm(p, axis=1)
    np.testing.assert_allclose(got, softened(10 * cos), atol=1e-12)
    np.testing.assert_allclose(protonet(support, y, query, 5), got, atol=1e-12)


def test_cipa_preparation_is_power_unit_centre_unit():
    support, y, query, _, _ = episode(1, shot=3)

    def power(x):
        x = np.sqrt(x + 1e-6)
        return x / np.sqrt((x**2).sum(axis=1, keepdims=True))

    for center, (a, b) in {
        "separate": (power(support).mean(0), power(query).mean(0)),
        "joint": (np.vstack([power(support), power(query)]).mean(0),) * 2,
        "support": (power(support).mean(0),) * 2,
        "none": (0.0, 0.0),
    }.items():
        s, q = power(support) - a, power(query) - b
        s, q = s / np.linalg.norm(s, axis=1)[:, None], q / np.linalg.norm(q, axis=1)[:, None]
        p = means(s, y, 5)
        cos = q @ (p / np.linalg.norm(p, axis=1)[:, None]).T
        np.testing.assert_allclose(cipa(support, y, query, 5, n_iter=0, center=center), softened(10 * cos), atol=1e-12)


def test_cipa_step_in_closed_form():
    """Support e₁, e₂ and one query e₁: p₁ never moves, p₂ = (e₂ + z₂e₁)/(1 + z₂) when σ = 1."""
    got = cipa(np.eye(2), [0, 1], np.eye(2)[:1], 2, n_iter=1, sigma=1.0, tau=3.0, power="off", center="none")
    z2 = 1 / (1 + np.exp(3.0))
    cos2 = z2 / np.sqrt(1 + z2**2)
    np.testing.assert_allclose(got, softened(np.array([[3.0, 3.0 * cos2]])), atol=1e-14)


def test_semi_protonet_steps():
    support, y, query, _, _ = episode(2, shot=2)
    np.testing.assert_allclose(
        semi_protonet(support, y, query, 5, n_iter=0), protonet(support, y, query, 5, metric="euclid"), atol=1e-14
    )
    cosine = semi_protonet(support, y, query, 5, n_iter=4, metric="cosine")
    same = cipa(support, y, query, 5, n_iter=4, sigma=1.0, power="off", center="none", l2=False)
    np.testing.assert_allclose(cosine, same, atol=1e-13)
    extra = episode(9)[2]
    z = softened(-((extra[:, None] - means(support, y, 5)[None]) ** 2).sum(axis=2))
    p = (one_hot(y, 5).T @ support + z.T @ extra) / (2 + z.sum(axis=0))[:, None]
    expected = softened(-((query[:, None] - p[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(semi_protonet(support, y, query, 5, unlabeled=extra), expected, atol=1e-12)


def test_soft_kmeans_start_and_fixed_point():
    support, y, query, _, _ = episode(5, shot=2)
    mean = np.concatenate([support, query]).mean(axis=0)
    s, q = unit(support - mean), unit(query - mean)
    d2 = ((q[:, None] - means(s, y, 5)[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(soft_kmeans(support, y, query, 5, n_iter=0), softened(-5 * d2), atol=1e-12)
    z = soft_kmeans(support, y, query, 5, n_iter=3000)
    p = (one_hot(y, 5).T @ s + z.T @ q) / (one_hot(y, 5).sum(0) + z.sum(0))[:, None]
    d2 = ((q[:, None] - p[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(z, softened(-5 * d2), atol=1e-9)


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


def test_bapa_first_step_query_by_query():
    support, y, query, truth, _ = episode(5, shot=2, noise=0.3)
    query = query[np.argsort(truth)][:9]
    s, q, r = unit(np.sqrt(support + 1e-6)), unit(np.sqrt(query + 1e-6)), 1 / np.sqrt(2)

    def likely(rows, p, mu):
        return -11 * ((unit(rows - mu)[:, None] - p[None]) ** 2).sum(axis=2)

    mu = s.mean(axis=0)
    start = 2 * means(unit(s - mu), y, 5) / (2 + 2 * r)
    e = np.exp(11 + likely(q, start, mu))  # ‖q − p‖² is 1 more than ‖p‖² − 2 q·p
    z = np.array([row / (sum(row) + r) for row in e])  # what is nearer to the centre is of no class
    z_support = softened(likely(s, start, mu))
    moved, centers = start.copy(), []
    for c in range(5):
        total, weight = np.zeros(support.shape[1]), 2 + 2 * r
        for i, label in enumerate(y):
            total = total + (2 * (label == c) - z_support[i, c]) * unit(s - mu)[i]
        for i in range(9):
            total, weight = total + z[i, c] * unit(q - mu)[i], weight + z[i, c]
        moved[c] = 0.6 * start[c] + 0.4 * total / weight
        centers.append((4 * s[y == c].sum(axis=0) + z[:, c] @ q) / (8 + z[:, c].sum()))
    n = z.sum(axis=0)
    assert ((n - n.mean()) ** 2).sum() > 4 * n.mean()  # sizes are not taken to be equal
    a = np.array([0.3, 1, 3, 10, 30])[:, None]
    odds = [dirichlet_multinomial.pmf(np.round(n), one * np.ones(5), int(np.round(n).sum())) for one in a[:, 0]]
    ell = log_shares(n)
    rough = np.average(digamma(n + a) - digamma(n.mean() + a), 0, odds)  # whole numbers of rows, for the evidence
    np.testing.assert_allclose(ell, rough, atol=0.2)
    expected = softened(likely(q, moved, np.mean(centers, axis=0)) + ell)
    np.testing.assert_allclose(bapa(support, y, query, 5, n_iter=1), expected, atol=1e-12)


def test_bapa_holds_where_cipa_assumes_balance():
    """All queries of one class: CIPA's own centring spreads them over all classes, ours must not."""
    ours, theirs = [], []
    for seed in range(5):
        support, y, query, truth, _ = episode(seed, shot=5, n_query=30, noise=0.4)
        query = query[truth == 2]
        ours.append((bapa(support, y, query, 5).argmax(axis=1) == 2).mean())
        theirs.append((cipa(support, y, query, 5).argmax(axis=1) == 2).mean())
    assert np.mean(ours) > 0.9 > 0.6 > np.mean(theirs)


# ---------------------------------------------------------------------------------------------- CL2N methods


def test_simpleshot_and_ties():
    answer = simpleshot([[2.0, 0], [0, 5.0]], [0, 1], [[3.0, 1.0], [1.0, 1.0]], 2, base_mean=[0.0, 0.0])
    np.testing.assert_array_equal(answer, [[1, 0], [0.5, 0.5]])
    np.testing.assert_array_equal(hard(np.array([[1.0, 1.0 + 1e-13, 0.0]])), [[0.5, 0.5, 0.0]])


def test_bd_cspn_row_by_row():
    support, y, query, truth, base = episode(6, noise=0.9, shot=3)
    s, q = unit(support - base), unit(query - base)
    shifted = q + s.mean(axis=0) - q.mean(axis=0)
    start = means(s, y, 5)
    sums, count = np.zeros_like(start), np.zeros(5)
    for x in [*s, *shifted]:
        cos = [x @ p / np.linalg.norm(x) / np.linalg.norm(p) for p in start]
        c = int(np.argmax(cos))
        sums[c] += np.exp(10 * cos[c]) / np.sum(np.exp(10 * np.array(cos))) * x
        count[c] += 1
    expected = [np.argmin([np.linalg.norm(x - p) for p in sums / count[:, None]]) for x in shifted]
    got = bd_cspn(support, y, query, 5, base_mean=base)
    np.testing.assert_array_equal(got, one_hot(expected, 5))
    assert (np.array(expected) == truth).mean() > 0.5


def test_laplacian_shot_without_its_laplacian_is_a_softmax_of_distances():
    support, y, query, _, base = episode(6, shot=2)
    s, q = unit(support - base), unit(query - base)
    d2 = ((q[:, None] - means(s, y, 5)[None]) ** 2).sum(axis=2)
    got = laplacian_shot(support, y, query, 5, base_mean=base, lam=0.0, rectify=False)
    np.testing.assert_allclose(got, softened(-d2), atol=1e-12)
    # one update from there, with W found by sorting
    w = np.zeros((30, 30))
    for i in range(30):
        w[i, np.argsort(((q - q[i]) ** 2).sum(axis=1))[1:3]] = 1.0
    got = laplacian_shot(support, y, query, 5, base_mean=base, lam=0.7, rectify=False, n_iter=1)
    np.testing.assert_allclose(got, softened(-d2 + 0.7 * w @ softened(-d2)), atol=1e-12)
