"""BAPA against a slow loop, its derivation against chance, and the cases where methods that assume balance fail."""

import inspect
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.cases import clouds, slow
from reference import bapa as slow_bapa

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare, evaluate
from protoadapt.core.features import synthetic_features, within_class_covariance
from protoadapt.core.methods import bapa_equations, native, native_bapa
from protoadapt.core.methods.bapa import bapa, feature_form, for_whitened, gram_form
from protoadapt.core.methods.bapa_equations import (
    BapaSettings,
    class_sizes,
    likeness,
    pulls,
    shared,
    steps_of_rows,
    takes_part,
    told,
    trust,
)
from protoadapt.core.methods.normalize import powered
from protoadapt.core.protocol import Protocol

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "settings",
    [{}, {"n_iter": 0}, {"n_iter": 3, "sigma": 1.0}, {"kappa": 0.5, "k_s": 40.0, "lam": 4.0}, {"power": "off"}],
    ids=str,
)
@pytest.mark.parametrize("queries", [1, 12, 40])
@pytest.mark.parametrize("shots", [1, (2, 1, 3)], ids=str)
@pytest.mark.parametrize("unlabeled", [0, 1, 17])
def test_the_equations(settings, queries, shots, unlabeled):
    episodes, _ = clouds(queries=queries, shots=shots, unlabeled=unlabeled)
    torch.testing.assert_close(bapa(episodes, **settings), slow(slow_bapa, episodes, **settings))


OVERLAPPING = {"spread": 2.5, "dim": 40, "shots": (4, 3, 5)}
"""Classes whose labelled rows are hardly alike, so that unlabelled rows take part in some of the steps only."""


def taking_part(episodes, n_iter=12):
    """T (E), pair by pair: the equations of 6, and the start of the loop."""
    plain, steps = powered(episodes, 0.5, "auto"), []
    for e in range(len(episodes)):
        one = plain[[e]]
        support, rows, labels = one.support[0], one.rows[one.query_index[0]], one.support_labels[0]
        y = one.membership[0]
        shots, m = y.sum(0), (y / y.sum(0)).mean(1) @ support
        spread = torch.stack([((q - s) ** 2).sum() / 2 / shots[c] for q in rows for s, c in zip(support, labels)]).sum()
        spread = spread / len(rows) / len(shots)
        noise = (1 / shots).sum() / len(shots) ** 2 + 1 / len(rows)
        alpha = len(rows) / (len(rows) + 10) * min(1.0, spread * noise / ((rows.mean(0) - m) ** 2).sum()) ** 3
        center = alpha * rows.mean(0) + (1 - alpha) * m
        q, s = (torch.nn.functional.normalize(part - center, dim=1) for part in (rows, support))
        r = shots.rsqrt().mean()
        p = y.T @ s / (shots + 3 * r)[:, None]
        likely = (10 * (2 * q @ p.T - p.square().sum(1))).exp()
        n = (likely / (likely.sum(1, keepdim=True) + r)).sum(0)
        pairs = [(labels[i] == labels[j], s[i] @ s[j]) for i in range(len(s)) for j in range(i)]
        within, between = ([float(cosine) for same, cosine in pairs if bool(same) == which] for which in (True, False))
        alike = max(0.0, np.mean(within) - np.mean(between) + 0.1 / len(within) ** 0.5)
        unequal = float(((n / n.mean() - 1) ** 2).mean() / (len(shots) - 1))
        mean_shots = float(len(shots) / (1 / shots).sum())
        steps.append(n_iter * min(1.0, 40 * alike**2 / (mean_shots - 1) + 5 * unequal))
    return np.array(steps)


@pytest.mark.parametrize("settings", [{}, {"n_iter": 7, "sigma": 0.5}], ids=str)
@pytest.mark.parametrize("unlabeled", [0, 17])
def test_the_equations_where_classes_overlap(settings, unlabeled):
    episodes, _ = clouds(episodes=6, unlabeled=unlabeled, **OVERLAPPING)
    part = taking_part(episodes)
    assert ((part > 0) & (part < 12)).sum() >= 3
    torch.testing.assert_close(bapa(episodes, **settings), slow(slow_bapa, episodes, **settings))


def test_unlabelled_rows_take_part_in_the_steps_that_the_equations_say():
    episodes, _ = clouds(episodes=8, queries=30, **OVERLAPPING)
    y = episodes.membership.mT
    plain = powered(episodes, 0.5, "auto")
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules[feature_form.__module__]
        patch.setattr(module, "takes_part", lambda step, T, n_iter: seen.append(T) or takes_part(step, T, n_iter))
        feature_form(plain, BapaSettings(12, 0.25, 10.0, 3.0, 10.0))
    np.testing.assert_allclose(seen[0][:, 0, 0], taking_part(episodes), rtol=1e-9)
    one_each, shots = torch.ones(2, 5, 1), y.sum(-1, keepdim=True)
    assert torch.isinf(likeness(torch.ones(2), torch.ones(2), one_each)).all()  # nothing to compare: all steps
    sizes, alike = torch.full_like(shots, 10.0), torch.zeros(8, 1, 1)
    assert (steps_of_rows(alike, sizes, 20) == 0).all()  # unlike rows, equal sizes: none
    assert (steps_of_rows(alike, torch.tensor([[30.0], [0.0], [0.0]]), 20) == 20).all()  # one class: all
    assert (steps_of_rows(alike, sizes, 20, every=True) == 20).all()
    parts = [takes_part(step, torch.tensor(2.25), 5).item() for step in range(5)]
    assert parts == [0, 0, 0.25, 1, 1]


def test_where_other_things_than_the_class_make_rows_alike_they_do_not_outvote_the_labels():
    """Five labels per class, rows that differ by five shared factors far more than by their class (light, pose)."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 20)
    factors = 3 * rng.normal(size=(200, 100, 5)) @ rng.normal(size=(200, 5, 64)) / 5**0.5
    rows = rng.normal(size=(200, 5, 64))[:, labels] + factors + 0.5 * rng.normal(size=(200, 100, 64))
    known = np.arange(100) % 20 < 5
    support_labels, truth = (torch.from_numpy(np.tile(labels[rows], (200, 1))) for rows in (known, ~known))
    episodes = Episodes.from_tensors(
        torch.from_numpy(rows[:, known]), support_labels, torch.from_numpy(rows[:, ~known]), 5
    )

    def accuracy(**settings):
        return 100 * float((bapa(episodes, **settings).argmax(-1) == truth).double().mean())

    ours = accuracy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_bapa, "TAKING_PART", (1e6, 0.1, 5.0))  # all unlabelled rows in all steps
        assert ours > accuracy() + 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("queries", [1, 9, 60])
@pytest.mark.parametrize("shots", [1, (5, 1, 2)], ids=str)
@pytest.mark.parametrize("unlabeled", [0, 6])
@pytest.mark.parametrize("spread", [0.5, 2.5])
def test_the_compiled_loop_and_torch_agree(queries, shots, unlabeled, spread, dtype, monkeypatch):
    episodes, _ = clouds(episodes=40, queries=queries, shots=shots, unlabeled=unlabeled, spread=spread, dtype=dtype)
    compiled = bapa(episodes, n_iter=12, kappa=2)
    with monkeypatch.context() as patch:
        patch.setattr(native_bapa, "adapt", None)  # where numba is missing nobody calls it
        patch.setattr(native, "njit", None)
        in_torch = bapa(episodes, n_iter=12, kappa=2)
    in_space = feature_form(powered(episodes, 0.5, "auto"), BapaSettings(12, 0.25, 10.0, 2, 10.0))
    # In float32 twelve steps carry rounding on, further where rows are unsure.
    close = {"atol": 1e-4 * (1 if spread < 1 else 5) if dtype == torch.float32 else 1e-9, "rtol": 0}
    torch.testing.assert_close(compiled, in_torch, **close)
    torch.testing.assert_close(in_space, in_torch, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_without_pseudo_rows_a_class_without_labels_starts_at_the_centre_in_every_form(dtype):
    """There K_c + k = 0: its first prototype is 0/0."""
    episodes, _ = clouds(shots=(2, 0, 3), dtype=dtype)
    plain, how = powered(episodes, 0.5, "auto"), BapaSettings(12, 0.25, 10.0, 0.0, 10.0)
    answer = bapa(episodes, kappa=0.0)
    assert (answer.argmax(-1) == 1).any(), "unlabelled rows may be of this class"
    for form in (feature_form, gram_form):
        torch.testing.assert_close(form(plain, how), answer, atol=1e-4 if dtype == torch.float32 else 1e-9, rtol=0)


@pytest.mark.parametrize("n_iter", [20, 40, 300])
def test_all_forms_take_sizes_to_be_settled_in_the_same_step(n_iter):
    """Also where 0.55 of the steps is a whole number, which float32 does not hit."""
    episodes, _ = clouds(dtype=torch.float32, episodes=10, seed=26)
    how = BapaSettings(n_iter, 0.25, 10.0, 3.0, 10.0)
    torch.testing.assert_close(
        bapa(episodes, n_iter=n_iter), gram_form(powered(episodes, 0.5, "auto"), how), atol=1e-4, rtol=0
    )


def test_without_pseudo_rows_a_class_that_nothing_pulls_is_no_number_less():
    """No labels, no pseudo-rows, and unlabelled rows that take no part yet."""
    rows, _ = clouds(shots=(2, 2, 2))
    labels = torch.tensor([0, 0, 0, 1, 1, 1]).expand(3, 6)
    answer = bapa(Episodes.from_tensors(rows.support, labels, rows.query, 3), kappa=0.0)
    torch.testing.assert_close(answer.sum(-1), torch.ones_like(answer[..., 0]))


def test_the_page_shows_the_equations_of_the_code():
    page = (ROOT / "docs" / "bapa.md").read_text()
    equations = [
        line.strip() for line in (inspect.getmodule(bapa).__doc__ or "").splitlines() if line.startswith("    ")
    ]
    assert len(equations) == 11
    assert all(line in page for line in equations)


def test_new_rows_are_answered_like_those_it_learnt_from():
    """Semi-supervised with the queries themselves as the unlabelled rows is the transductive answer."""
    episodes, _ = clouds(queries=20)
    made = Episodes.from_tensors(episodes.support, episodes.support_labels, episodes.query, 3, unlabeled=episodes.query)
    torch.testing.assert_close(bapa(made), bapa(episodes))


@pytest.mark.parametrize("shots", [(1, 1, 1), (5, 5, 5), (1, 2, 9)], ids=str)
def test_means_of_like_rows_differ_as_step_0_expects(shots):
    """With rows of one distribution the ratio of expected to found is 1 on average, however unequal the shots."""
    rng = np.random.default_rng(0)
    n_rows, dim, found, spread = 20, 8, [], []
    for _ in range(4000):
        support = [rng.gamma(2.0, size=(k, dim)) for k in shots]
        query = rng.gamma(2.0, size=(n_rows, dim))
        center = np.mean([rows.mean(0) for rows in support], axis=0)
        found.append(((query.mean(0) - center) ** 2).sum())
        pairs = [((query[:, None] - rows[None]) ** 2).sum(-1).mean() / 2 for rows in support]
        spread.append(np.mean(pairs))
    mean = torch.tensor([[np.mean(found)]])
    share = torch.tensor(shots, dtype=torch.float64)[:, None]
    # At twice the distance expected of like rows the share of the unlabelled mean falls to an eighth.
    alpha = trust(2 * mean, torch.tensor([[np.mean(spread)]]), share, n_rows, k_s=10)
    torch.testing.assert_close(alpha, torch.tensor([[20 / 30 / 8]], dtype=torch.float64), rtol=0.05, atol=0)


def test_unequal_sizes_are_followed_and_equal_ones_say_nothing():
    near, far = torch.tensor([14.0, 15.0, 16.0])[:, None], torch.tensor([40.0, 4.0, 1.0])[:, None]
    zero, one = torch.zeros_like(near), torch.ones(1, 1)
    size_term, weight = class_sizes(near, zero, one, None, False)
    assert (size_term == 0).all()
    assert (weight == 1).all()
    size_term, weight = class_sizes(far, zero, one, None, False)
    assert (size_term * ((far + 3) / 18).log() > 0).all()
    assert weight[0] < 0.6 < 1.5 < weight[2]


def test_a_class_without_a_name_takes_its_share_of_a_row():
    """As softmax with one more class, whose logit is log r; a row that is all of it still has a likeliest class."""
    logits, r = 4 * torch.randn(5, 3, 7, dtype=torch.float64), torch.rand(5, 1, 1, dtype=torch.float64) + 0.1
    beside = torch.cat([logits, r.log().expand(5, 1, 7)], 1).softmax(1)
    torch.testing.assert_close(shared(logits, 1, r), beside[:, :3])
    torch.testing.assert_close(shared(logits, 1, 0.0), logits.softmax(1))
    far = shared(logits - 1e4, 1, r)
    torch.testing.assert_close(far, 1e-6 * logits.softmax(1))
    assert torch.isfinite(pulls(far, 1)).all()


def test_pictures_of_other_classes_and_folders_of_one_mislead_less(monkeypatch):
    table = synthetic_features(classes=20, rows=60)
    cases = Protocol("open"), Protocol("open", shot=5), Protocol("one-class", query=40)

    def results():
        monkeypatch.setattr(native, "njit", None)  # the form in torch, which can be changed
        return [compare(table.features, table.labels, ["bapa"], case, episodes=400)[0] for case in cases]

    ours = results()
    monkeypatch.setattr(bapa_equations, "shared", lambda logits, classes, doubt: logits.softmax(classes))
    for with_it, without in zip(ours, results()):
        mean, half = with_it.minus(without)
        assert mean > half / 2 > 0


def test_sizes_that_settle_near_balance_are_made_equal_and_others_followed():
    near, far, before = torch.tensor([14.0, 15.0, 16.0])[:, None], torch.tensor([40.0, 4.0, 1.0])[:, None], 0.1
    doubt, size_term = torch.ones(1, 1), torch.full((3, 1), before)
    evened, weight = class_sizes(near, size_term, doubt, None, True)
    torch.testing.assert_close(evened, before + 15 / 16 * (15 / near).log())
    assert (weight == 1).all()
    for part, early in zip(
        class_sizes(far, size_term, doubt, None, True), class_sizes(far, size_term, doubt, None, False)
    ):
        torch.testing.assert_close(part, early)


def test_compiled_form_keeps_told_sizes_where_shares_are_tiny():
    """Sharp logits: shares far below what the compiled exponential can tell apart."""
    numbers = torch.Generator().manual_seed(0)
    support, query = torch.randn(50, 3, 8, generator=numbers), torch.randn(50, 2, 8, generator=numbers)
    episodes = Episodes.from_tensors(support, torch.arange(3).expand(50, 3), query, 3)
    for lam in (100.0, 300.0):
        answers = [bapa(episodes, lam=lam, class_prior="equal", n_iter=n) for n in (0, 20)]
        how = [BapaSettings(n, 0.35, lam, 3.0, 10.0, told("equal", 3, episodes.rows)) for n in (0, 20)]
        plain = powered(episodes, 0.5, "auto")
        for answer, settings in zip(answers, how):
            torch.testing.assert_close(answer, gram_form(plain, settings), atol=1e-4, rtol=0)


def test_whitening_depends_on_the_shape_of_the_covariance_alone():
    """A covariance that is a multiple of the identity whitens nothing: the answer is that of the settings alone."""
    episodes, _ = clouds(spread=1.0)
    answer = bapa(episodes, whiten=True)
    scaled = replace(episodes, base_covariance=1e4 * episodes.base_covariance, memo={})
    torch.testing.assert_close(bapa(scaled, whiten=True), answer, atol=1e-9, rtol=1e-9)
    plain, how = powered(episodes, 0.5, "auto"), for_whitened(BapaSettings(12, 0.25, 10.0, 3.0, 10.0))
    for size in (1e-3, 7.0):
        like = replace(episodes, base_covariance=size * torch.eye(plain.rows.shape[1], dtype=plain.rows.dtype), memo={})
        torch.testing.assert_close(bapa(like, whiten=True), gram_form(plain, how), atol=1e-9, rtol=1e-9)


def test_whitening_helps_where_rows_of_one_class_differ_along_few_directions():
    rng = np.random.default_rng(0)
    labels, loud = np.repeat(np.arange(40), 40), np.where(np.arange(24) < 4, 3.0, 1.0)
    rows = 5 + 1.2 * rng.normal(size=(40, 24))[labels] + loud * rng.normal(size=(len(labels), 24))
    table, base = torch.from_numpy(rows.clip(0)), labels < 20
    covariance = within_class_covariance(table[base], torch.from_numpy(labels[base]))
    specs, options = ["bapa", "bapa(whiten=true)"], {"base_covariance": covariance.double(), "episodes": 300}
    for protocol in (Protocol(), Protocol("dirichlet")):
        plain, better = compare(table[~base], labels[~base], specs, protocol, **options)
        mean, half = better.minus(plain)
        assert mean - half > 1


def test_a_covariance_that_is_missing_or_none_is_said():
    episodes, _ = clouds()
    with pytest.raises(UserError, match="base_power_mean has entries that are not finite"):
        bapa(replace(episodes, base_power_mean=torch.nan * episodes.base_power_mean, memo={}), base_rows=10)
    with pytest.raises(UserError, match="whiten needs the covariance of the base classes' features, which is missing"):
        bapa(replace(episodes, base_covariance=None), whiten=True)
    with pytest.raises(UserError, match="whiten needs base classes whose rows differ"):
        bapa(replace(episodes, base_covariance=0 * episodes.base_covariance, memo={}), whiten=True)
    negative = -torch.eye(episodes.rows.shape[1], dtype=episodes.rows.dtype)
    negative[0, 0] = len(negative)
    with pytest.raises(UserError, match="base_covariance is not a covariance"):
        bapa(replace(episodes, base_covariance=20 * negative, memo={}), whiten=True)


CASES = {
    "1 query": Protocol("few", query=1),
    "one class": Protocol("one-class", query=40),
    "Dirichlet(2)": Protocol("dirichlet"),
    "balanced": Protocol(),
}


@pytest.mark.parametrize("shot", [1, 5])
@pytest.mark.parametrize("case", CASES)
def test_bapa_holds_where_methods_that_assume_balance_fail(case, shot):
    table, protocol = synthetic_features(classes=12, rows=90), replace(CASES[case], shot=shot)
    specs = ("bapa", "cipa(n_iter=0, center=support)", "cipa", "pt_map")
    ours, start, cipa, pt_map = (
        evaluate(table.features, table.labels, spec, protocol, episodes=300).accuracy for spec in specs
    )
    assert ours > start - 1
    if case == "balanced":
        assert ours > cipa - 0.5
    elif case == "Dirichlet(2)":
        assert ours > max(cipa, start) + 2
    else:  # about chance: the queries' own mean takes away what told them apart
        assert max(cipa, pt_map) < 35
