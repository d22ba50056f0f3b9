"""Unnamed classes: against slow loops, and what must hold for any rows, the odd ones too."""

import numpy as np
import pytest
import torch
from reference import unnamed as slow

from protoadapt.core.errors import UserError
from protoadapt.core.estimators import BAPAClassifier
from protoadapt.core.methods import unnamed
from protoadapt.core.methods.bapa import KAPPA, LAM, N_ITER, SIGMA, mixture_rule
from protoadapt.core.methods.rows import sampled
from protoadapt.core.prototype_model import HAS_NAME, STRAY, power_transform, prepared_rows

RULE = mixture_rule(N_ITER, SIGMA, LAM, KAPPA, None)


def folder(named=4, unnamed=1, shots=3, per=20, strays=0, spread=0.7, dim=32, seed=0, dtype=np.float64):
    """Rows, labels (−1: none) and true kinds of all rows: named ones first, then unnamed ones; −2: a stray."""
    rng = np.random.default_rng(seed)
    centers = rng.gamma(1.0, 1.0, (named + unnamed + strays, dim))
    kinds = np.r_[np.repeat(range(named), shots), np.repeat(range(named + unnamed), per)]
    kinds = np.r_[kinds, named + unnamed + np.arange(strays)]
    X = np.abs(centers[kinds] + spread * rng.normal(size=(len(kinds), dim)))
    y = np.r_[np.repeat(range(named), shots), np.full(len(kinds) - named * shots, -1)]
    return X.astype(dtype), y, np.where(kinds < named + unnamed, kinds, STRAY)


def powered(X, y):
    x = power_transform(torch.from_numpy(X), 0.5, "auto")
    known = torch.from_numpy(y >= 0)
    classes = torch.from_numpy(y[y >= 0])
    return x[known], torch.nn.functional.one_hot(classes).mT.to(x), x[~known]


@pytest.mark.parametrize(("kinds", "spread"), [(0, 0.7), (1, 0.7), (2, 0.7), (2, 1.1)])
def test_groups_against_the_slow_loop(kinds, spread):
    X, y, _ = folder(3, kinds, shots=2, per=12, spread=spread)
    x, labels, rows = powered(X, y)
    u = prepared_rows(rows, (x.mean(0) + rows.mean(0)) / 2, True)
    seeds = unnamed._seeds(u, 3).tolist()
    expected, answer = slow.discover(X[y >= 0], y[y >= 0], X[y < 0], 3, seeds)
    found = unnamed.discover(RULE, x, labels, rows)
    assert found.tolist() == expected
    assert len(found) == kinds
    model = unnamed.fitted(RULE, x, labels, rows, rows[found])
    np.testing.assert_allclose(unnamed.answer(model, rows).T, answer, atol=1e-8)
    prepared = model.prepare(rows).numpy()
    v = slow.spread(answer, model.prototypes.numpy(), prepared, LAM)
    assert unnamed.spread(model, model.prepare(rows), torch.from_numpy(answer.T)) == pytest.approx(v, rel=1e-6)
    temperature, density = unnamed.sureness(model, rows, labels)
    n, C = len(rows), 3 + kinds
    v = (n * v + 13.5) / (n + 30)
    assert temperature == pytest.approx(max(0.5, 1.5 * v * (1 + 2**-0.5 / 2) * (1 + 3 * C / n)), rel=1e-6)
    e = np.log(np.exp(model.scores(model.prepare(rows)).numpy()).sum(0))[answer.argmax(1) < 3]
    assert density == pytest.approx(np.median(e) - 2.25 * (np.median(e) - np.quantile(e, 0.16)))


def test_kinds_without_a_name_are_found_and_named_ones_keep_their_rows():
    X, y, kinds = folder(5, 2, strays=2, spread=0.5)
    fitted = BAPAClassifier(discover=True).fit(X, y)
    assert fitted.n_unnamed_ == 2
    assert fitted.prototypes_.shape == (7, 32)
    free = y < 0
    for kind in (5, 6):
        assert len({*fitted.unnamed_[kinds == kind]}) == 1
        assert fitted.unnamed_[kinds == kind][0] >= 0
    named = (kinds >= 0) & (kinds < 5)
    assert (fitted.unnamed_[named & free] == HAS_NAME).mean() > 0.95
    assert (fitted.unnamed_[~free] == HAS_NAME).all()
    assert (fitted.transduction_[~free] == y[~free]).all()
    assert (fitted.transduction_[named] == kinds[named]).all()
    np.testing.assert_array_equal(fitted.predict_unnamed(X[free]), fitted.unnamed_[free])
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1)


def test_where_nothing_is_foreign_names_are_as_without():
    X, y, _ = folder(5, 0, spread=0.8)
    with_groups, without = (BAPAClassifier(discover=discover).fit(X, y) for discover in (True, False))
    assert with_groups.n_unnamed_ == 0
    np.testing.assert_array_equal(with_groups.transduction_, without.transduction_)
    np.testing.assert_allclose(with_groups.prototypes_, without.prototypes_)
    np.testing.assert_allclose(with_groups.class_bias_, without.class_bias_)
    assert with_groups.temperature_ != 1.0
    assert without.temperature_ == 1.0


def test_a_stray_is_of_no_class():
    X, y, kinds = folder(5, 0, strays=3, spread=0.3, seed=3)
    fitted = BAPAClassifier(discover=True).fit(X, y)
    assert (fitted.unnamed_[kinds == STRAY] == STRAY).all()
    assert (fitted.unnamed_[(kinds >= 0) & (y < 0)] == STRAY).mean() < 0.1


def test_a_class_is_no_group_though_its_only_example_is_odd():
    """A group that takes a class's example is worth little: the rows stay with the class."""
    X, y, kinds = folder(4, 0, shots=1, per=30, spread=0.6)
    fitted = BAPAClassifier(discover=True).fit(X, y)
    assert fitted.n_unnamed_ == 0
    assert (fitted.transduction_ == kinds).mean() > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("three pictures", lambda X, y: (X[[0, 3, 20]], np.array([0, 1, -1]))),
        ("no unlabelled picture", lambda X, y: (X[y >= 0], y[y >= 0])),
        ("identical pictures", lambda X, y: (np.repeat(X[:1], len(X), 0), y)),
        ("identical but two", lambda X, y: (np.r_[X[:1], X[3:4], np.repeat(X[20:21], 30, 0)], np.r_[0, 1, [-1] * 30])),
        ("one class", lambda X, y: (X[y <= 0], y[y <= 0])),
        ("one example in all", lambda X, y: (X[11:], np.where(np.arange(len(y)) == 11, 3, -1)[11:])),
        ("all junk", lambda X, y: (np.r_[X[y >= 0], X[-20:]], np.r_[y[y >= 0], [-1] * 20])),
        ("zeros", lambda X, y: (0 * X, y)),
        ("many classes", lambda X, y: (np.tile(X, (2, 1)), np.r_[range(60), [-1] * (2 * len(X) - 60)])),
    ],
)
def test_odd_folders(name, change, dtype):
    X, y, _ = folder(4, 1, dtype=dtype)
    X, y = change(X, y)
    fitted = BAPAClassifier(discover=True).fit(X, y)
    assert np.isfinite(fitted.prototypes_).all()
    assert np.isfinite(fitted.two_best_proba_).all()
    assert 0.5 <= fitted.temperature_ < 100
    assert (fitted.transduction_[y >= 0] == y[y >= 0]).all()
    assert (fitted.unnamed_[y >= 0] == HAS_NAME).all()
    if name == "all junk":
        assert fitted.n_unnamed_ == 1
        assert (fitted.unnamed_[y < 0] == 0).all()
    else:
        assert fitted.n_unnamed_ == 0


def test_large_tables_show_their_groups_in_a_sample(monkeypatch):
    X, y, kinds = folder(4, 1, per=60, spread=0.5, dtype=np.float32)
    whole = BAPAClassifier(discover=True).fit(X, y)
    monkeypatch.setattr(unnamed, "MOST_ROWS", 90)
    part = BAPAClassifier(discover=True).fit(X, y)
    assert whole.n_unnamed_ == part.n_unnamed_ == 1
    assert (whole.unnamed_[kinds == 4] == 0).mean() > 0.95
    assert (part.unnamed_ == whole.unnamed_).mean() > 0.95
    rows = BAPAClassifier(discover=True).fit_rows(X[y >= 0], y[y >= 0], [X[y < 0][:100], X[y < 0][100:]])
    np.testing.assert_allclose(rows.prototypes_, part.prototypes_, atol=1e-5)
    assert rows.temperature_ == pytest.approx(part.temperature_, rel=1e-4)


def test_a_sample_takes_all_rows_alike_in_their_order():
    arrays = [np.arange(10)[:, None], np.empty((0, 1), int), np.arange(10, 35)[:, None]]
    assert sampled(arrays, 100, arrays[1])[:, 0].tolist() == [*range(35)]
    some = sampled(arrays, 8, arrays[1])[:, 0]
    assert len({*some}) == 8
    assert sorted(some) == some.tolist()
    assert sampled([], 8, arrays[1]).shape == (0, 1)


def test_a_batch_of_fits_is_so_many_single_ones():
    X, y, _ = folder(3, 1)
    x, labels, rows = powered(X, y)
    starts = torch.stack([rows[:10], rows[20:30], rows[60:70]])[:, None]
    together = unnamed.fitted(RULE, x, labels, rows, starts)
    for i, start in enumerate(starts):
        alone = unnamed.fitted(RULE, x, labels, rows, start)
        torch.testing.assert_close(together.prototypes[i], alone.prototypes)
        torch.testing.assert_close(together.bias[i], alone.bias)


def test_given_sizes_leave_no_room():
    X, y, _ = folder()
    fitted = BAPAClassifier(discover=True, class_prior="equal").fit(X, y)
    assert (fitted.n_unnamed_, fitted.temperature_) == (0, 1.0)
    assert (fitted.unnamed_ == HAS_NAME).all()
    with pytest.raises(UserError, match="discover is 'yes': it must be true or false"):
        BAPAClassifier(discover="yes").fit(X, y)


@pytest.mark.parametrize("kinds", [2, 5, 9])
def test_without_any_label_alike_rows_fall_into_groups(kinds):
    X, _, truth = folder(1, kinds - 1, shots=0, per=20, spread=0.4)
    x = power_transform(torch.from_numpy(X), 0.5, "auto")
    groups = unnamed.first_groups(prepared_rows(x, x.mean(0), True))
    assert kinds <= len(groups) <= kinds + 1
    assert all(len(set(truth[group].tolist())) == 1 for group in groups)
    assert len(torch.cat(groups).unique()) == len(x), "k-means may split a kind, and mixes none"


@pytest.mark.parametrize("rows", [np.zeros((0, 4)), np.eye(3), np.ones((30, 4)) / 2, np.zeros((30, 4))])
def test_odd_rows_without_any_label(rows):
    """Too few, or all the same."""
    groups = unnamed.first_groups(torch.from_numpy(rows))
    assert [len(group) for group in groups] == ([30] if len(rows) == 30 else [])
