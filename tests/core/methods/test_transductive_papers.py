"""BD-CSPN, LaplacianShot, TIM, α-TIM, LR+ICI, fine-tuning and iLPC against slow loops, libraries and optimality."""

import numpy as np
import pytest
import torch
from helpers.cases import clouds, slow
from reference import REFERENCE
from sklearn.linear_model import LogisticRegression

from protoadapt.core.errors import UserError
from protoadapt.core.methods.alpha_tim import alpha_tim
from protoadapt.core.methods.bd_cspn import bd_cspn
from protoadapt.core.methods.common import (
    class_means,
    lowest_of_each_class,
    neighbours,
    sq_distances,
    tied_argmax,
    unit,
)
from protoadapt.core.methods.fine_tune import transductive_fine_tuning
from protoadapt.core.methods.ici import logistic_regression, lr_ici, offset_path, principal_basis
from protoadapt.core.methods.ilpc import ilpc
from protoadapt.core.methods.laplacian_shot import laplacian_shot
from protoadapt.core.methods.tim import tim_adm, tim_gd

CASES = [  # arguments of the method and of its slow loop
    (bd_cspn, {}),
    (laplacian_shot, {}),
    (laplacian_shot, {"lam": 1.2, "rectify": False, "n_neighbors": 4}),
    (tim_adm, {}),
    (tim_adm, {"weights": (1.0, 2.0, 0.5), "temp": 8.0, "n_iter": 40}),
    (tim_gd, {"n_iter": 120, "lr": 1e-3}),
    (alpha_tim, {"n_iter": 120, "lr": 1e-3}),
    (alpha_tim, {"n_iter": 40, "alpha": 1.3, "weights": (0.5, 1.0, 2.0)}),
    (transductive_fine_tuning, {}),
    (transductive_fine_tuning, {"n_epochs": 40, "lr": 1e-2}),
    (lr_ici, {"n_lambdas": 15, "per_class": 2}),
    (lr_ici, {"n_lambdas": 10, "n_components": 3, "C": 1.0, "ratio": 1e-2}),
    (ilpc, {"n_steps": 50, "per_class": 2, "n_neighbors": 5}),
    (ilpc, {"n_steps": 30, "sinkhorn": False}),
    (ilpc, {"n_steps": 30, "class_prior": [0.5, 0.3, 0.2], "alpha": 0.5}),
]


@pytest.mark.parametrize(("run", "arguments"), CASES)
@pytest.mark.parametrize("shots", [1, 5, (2, 1, 3)], ids=str)
@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_equals_the_slow_loop(run, arguments, shots, spread):
    episodes, _ = clouds(shots=shots, spread=spread)
    expected = slow(REFERENCE[run.__name__], episodes, **arguments)
    torch.testing.assert_close(run(episodes, **arguments), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("run", [tim_adm, bd_cspn, lr_ici])
def test_more_rows_than_dimensions_equal_the_slow_loop(run):
    episodes, _ = clouds(dim=6, queries=20)
    torch.testing.assert_close(run(episodes), slow(REFERENCE[run.__name__], episodes), atol=1e-6, rtol=0)


@pytest.mark.parametrize("run", [tim_adm, tim_gd, alpha_tim])
def test_tim_without_steps_is_the_softmax_of_distances_to_the_means(run):
    episodes, _ = clouds()
    rows = episodes.each_row(unit)
    start = (-7.5 * sq_distances(rows.query, class_means(rows.support, rows.membership))).softmax(-1)
    torch.testing.assert_close(run(episodes, n_iter=0), start)


def test_fine_tuning_without_steps_is_the_softmax_of_cosines():
    episodes, _ = clouds()
    means = unit(class_means(episodes.support, episodes.membership))
    start = (unit(episodes.query) @ means.mT).softmax(-1)
    torch.testing.assert_close(transductive_fine_tuning(episodes, n_epochs=0), start)


# ------------------------------------------------------------------------------------------- an episode stops by itself


def test_laplacian_shot_stops_each_episode_by_itself():
    episodes, _ = clouds(episodes=8, spread=1.0, queries=20)
    together, rounds = laplacian_shot(episodes), set()
    for e in range(8):
        alone = laplacian_shot(episodes[e : e + 1])
        torch.testing.assert_close(together[e : e + 1], alone, atol=1e-12, rtol=0)
        rounds.add(next(n for n in range(21) if torch.equal(laplacian_shot(episodes[e : e + 1], n_iter=n), alone)))
    assert len(rounds) > 1  # else nothing was shown
    assert max(rounds) < 20


@pytest.mark.parametrize(("run", "arguments"), [(ilpc, {"n_steps": 20}), (lr_ici, {"n_lambdas": 10, "per_class": 1})])
def test_easy_and_hard_episodes_do_not_disturb_each_other(run, arguments):
    """Rounds end at different times: 12 queries of one class need more of them than 12 of three."""
    episodes, _ = clouds(spread=1.0)
    query = episodes.query.clone()
    query[1] = episodes.support[1, 0] + 0.1 * query[1]
    mixed = type(episodes).from_tensors(episodes.support, episodes.support_labels, query, 3)
    alone = torch.cat([run(mixed[e : e + 1], **arguments) for e in range(3)])
    torch.testing.assert_close(run(mixed, **arguments), alone, atol=1e-9, rtol=0)


# ----------------------------------------------------------------------------------------------------------------- ICI


@pytest.mark.parametrize(("way", "factor"), [(5, 1.0), (2, 2.0)])
def test_logistic_regression_is_scikit_learns(way, factor):
    """With two classes scikit-learn penalises w₁ − w₂, twice what the two cost apart: it needs twice the C."""
    episodes, _ = clouds(episodes=2, way=way, shots=(4, 1, 2, 5, 3), queries=30, dim=24, spread=1.0)
    rows = unit(torch.cat([episodes.support, episodes.query], 1))
    labels = torch.cat([episodes.membership, torch.zeros(2, 30, way, dtype=torch.float64)], 1)
    chosen = labels.sum(-1) > 0
    ours = logistic_regression(rows @ rows.mT, labels, chosen, C=10.0).softmax(-1)
    for e in range(2):
        model = LogisticRegression(C=10.0 * factor, tol=1e-10, max_iter=10_000)
        model.fit(rows[e, chosen[e]].numpy(), labels[e, chosen[e]].argmax(-1).numpy())
        np.testing.assert_allclose(ours[e].numpy(), model.predict_proba(rows[e].numpy()), atol=1e-4)


@pytest.mark.parametrize("kind", ["clouds", "duplicates", "separable", "two classes"])
def test_group_lasso_path_is_optimal(kind):
    """Karush–Kuhn–Tucker: with P = I − UUᵀ, P(Y − γ) is tγ_i/‖γ_i‖ where γ_i is not zero, and not longer than t where
    it is.
    """
    way = 2 if kind == "two classes" else 3
    episodes, labels = clouds(way=way, queries=20, spread=0.05 if kind == "separable" else 1.0)
    rows = unit(torch.cat([episodes.support, episodes.query], 1))
    if kind == "duplicates":
        rows[:, -10:] = rows[:, -11:-10]
    Y = torch.cat([episodes.membership, torch.nn.functional.one_hot(labels, way)], 1).double()
    U = principal_basis(rows, 5)
    P = torch.eye(rows.shape[1], dtype=torch.float64) - U @ U.mT
    seen = 0
    for t, residual in offset_path(U, Y, n_lambdas=12, ratio=1e-3):
        t = t[:, None, None]
        length = residual.norm(dim=-1, keepdim=True)
        offsets = residual * (1 - t / length).clamp_min(0)
        pull = P @ (Y - offsets)
        active = (length > t)[..., 0]
        expected = (t * offsets / offsets.norm(dim=-1, keepdim=True))[active]
        torch.testing.assert_close(pull[active], expected, atol=1e-8, rtol=0)
        assert (pull.norm(dim=-1, keepdim=True) <= t * (1 + 1e-8) + 1e-12).all()
        seen += int(active.sum())
    assert seen > 0


def test_principal_basis_spans_the_leading_scores():
    episodes, _ = clouds(queries=20)
    centred = episodes.query - episodes.query.mean(1, keepdim=True)
    U = principal_basis(episodes.query, 5)
    torch.testing.assert_close(U.mT @ U, torch.eye(5, dtype=torch.float64).expand(3, 5, 5))
    explained = (U.mT @ centred).square().sum((1, 2))
    torch.testing.assert_close(explained, torch.linalg.svdvals(centred)[:, :5].square().sum(1))
    assert (principal_basis(torch.ones(1, 6, 4, dtype=torch.float64), 5) == 0).all()


# ---------------------------------------------------------------------------------------------------------------- ties


def test_tied_neighbours_share_the_last_places():
    points = torch.tensor([[0.0, 1.0, 1.0, -1.0, 5.0]]).mT[None]
    shares = neighbours(sq_distances(points, points), 2)[0]
    torch.testing.assert_close(shares[0], torch.tensor([0, 2 / 3, 2 / 3, 2 / 3, 0]))
    torch.testing.assert_close(shares[1], torch.tensor([1.0, 0, 1, 0, 0]))
    torch.testing.assert_close(shares[4], torch.tensor([0, 1.0, 1, 0, 0]))
    assert (neighbours(torch.zeros(2, 1, 1), 2) == 0).all()


def test_ties_at_the_last_place_are_taken_together():
    cost = torch.tensor([[0.1, 0.2, 0.2, 0.3, 0.0, 0.5]], dtype=torch.float64)
    labels = torch.tensor([[[1, 0], [1, 0], [1, 0], [1, 0], [0, 0], [0, 1]]], dtype=torch.float64)
    assert lowest_of_each_class(cost, labels, 2).tolist() == [[True, True, True, False, False, True]]
    torch.testing.assert_close(tied_argmax(torch.tensor([1.0, 2.0, 2.0 + 1e-7])), torch.tensor([0.0, 0.5, 0.5]))


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("run", sorted({case[0] for case in CASES}, key=lambda run: run.__name__))
def test_unlabelled_rows_are_refused_in_words(run):
    episodes, _ = clouds(unlabeled=4)
    with pytest.raises(UserError, match="no semi-supervised form"):
        run(episodes)


@pytest.mark.parametrize(
    ("run", "arguments", "words"),
    [
        (tim_adm, {"n_iter": -1}, "n_iter is -1"),
        (tim_gd, {"n_iter": 1.5}, "n_iter is 1.5"),
        (tim_gd, {"weights": (1.0, 1.0)}, "weights is .* must be 3 numbers from 0 to 1000"),
        (laplacian_shot, {"n_neighbors": -2}, "n_neighbors is -2"),
        (lr_ici, {"per_class": 0}, "per_class is 0"),
        (lr_ici, {"C": 0.0}, "C is 0.0: it must be a number from 1e-06"),
        (ilpc, {"alpha": 1.0}, "alpha is 1"),
        (ilpc, {"class_prior": [0.5, 0.5]}, "3 positive shares"),
        (ilpc, {"class_prior": [1.0, 0.0, 0.0]}, "class_prior is .* a list of numbers from 1e-09"),
        (alpha_tim, {"alpha": 1.0}, "alpha is 1"),
    ],
)
def test_bad_arguments_are_named(run, arguments, words):
    with pytest.raises(UserError, match=words):
        run(clouds()[0], **arguments)


def test_tim_gd_with_a_prior_descends_the_divergence_from_it():
    """Against autograd on the loss written out: CE + KL(mean p ‖ π) + H(Y|X), with torch's own Adam."""
    episodes, _ = clouds()
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    rows = episodes.each_row(unit)
    w = class_means(rows.support, rows.membership).requires_grad_()
    adam = torch.optim.Adam([w], lr=1e-2)

    def posterior(x):
        return (-7.5 * (x[:, :, None] - w[:, None]).square().sum(-1)).softmax(-1)

    for _ in range(25):
        p, mean = posterior(rows.query), posterior(rows.query).mean(1)
        cross = -(posterior(rows.support).log() * rows.membership).sum(-1).mean(1)
        divergence = (mean * (mean / prior).log()).sum(-1)
        entropy = -(p * p.log()).sum(-1).mean(1)
        adam.zero_grad()
        (0.1 * cross + divergence + 0.1 * entropy).sum().backward()
        adam.step()
    ours = tim_gd(episodes, n_iter=25, lr=1e-2, class_prior=prior)
    torch.testing.assert_close(ours, posterior(rows.query).detach(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("run", [tim_adm, tim_gd])
def test_tim_follows_the_prior_it_is_told(run):
    episodes, _ = clouds(queries=30, spread=1.0)
    steps = {"n_iter": 150, "lr": 1e-2} if run is tim_gd else {}
    torch.testing.assert_close(run(episodes, class_prior=[2, 2, 2], **steps), run(episodes, **steps))
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    told, equal = run(episodes, class_prior=prior, **steps).mean(1), run(episodes, **steps).mean(1)
    assert ((told - prior).abs().sum(1) < (equal - prior).abs().sum(1)).all()
