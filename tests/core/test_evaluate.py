"""Accuracies, intervals and paired differences against their definitions."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score

from benchmarks.synthetic import synthetic_features
from protoadapt import Protocol, UserError, compare
from protoadapt.core import evaluate as evaluation
from protoadapt.core.episodes import draw
from protoadapt.core.evaluate import evaluate
from protoadapt.core.methods import METHODS, method, parse_assignments, split_specs
from protoadapt.core.results import class_interval, read_results
from protoadapt.core.statistics import class_half_width

TABLE = synthetic_features(classes=8, rows=40)
X, Y = TABLE.features, TABLE.labels


def test_the_accuracy_is_that_of_a_plain_loop():
    result = evaluate(X, Y, "protonet", Protocol(shot=2), episodes=30, seed=7)
    accuracies = []
    drawn = next(draw(Y.numpy(), Protocol(shot=2), 7, 30))
    unit = X / X.norm(dim=1, keepdim=True)
    for e in range(30):
        means = torch.stack([X[drawn.support[e][drawn.support_labels[e] == c]].mean(0) for c in range(5)])
        means /= means.norm(dim=1, keepdim=True)
        answer = (unit[drawn.query[e]] @ means.T).argmax(1).numpy()
        accuracies.append(100 * (answer == drawn.query_labels[e]).mean())
    assert result.accuracy == pytest.approx(np.mean(accuracies))
    assert result.ci95 == pytest.approx(1.96 * np.std(accuracies, ddof=1) / np.sqrt(30))


@pytest.mark.parametrize("chunk", [1, 100, 256, 300, 5000])
def test_chunks_change_nothing(chunk, monkeypatch):
    whole = evaluate(X, Y, "cipa", episodes=600, seed=1)
    monkeypatch.setitem(evaluation._CHUNK, "cpu", (2**40, chunk))
    assert np.array_equal(evaluate(X, Y, "cipa", episodes=600, seed=1).correct, whole.correct)


def test_methods_share_their_episodes_and_differences_are_paired():
    first, second = compare(X, Y, ["protonet", "cipa"], episodes=300)
    assert np.array_equal(second.correct, evaluate(X, Y, "cipa", episodes=300).correct)
    difference = second.accuracies - first.accuracies
    assert second.minus(first) == pytest.approx((difference.mean(), 1.96 * difference.std(ddof=1) / np.sqrt(300)))
    for other in ({"seed": 1}, {"episodes": 9}, {"protocol": Protocol(shot=2)}):
        with pytest.raises(UserError, match="same episodes"):
            second.minus(evaluate(X, Y, "cipa", **{"episodes": 300, **other}))


def test_foreign_queries_are_not_scored_and_their_auroc_is_that_of_scikit_learn():
    protocol = Protocol("open", way=3, query=5, foreign=0.4)
    result = evaluate(X, Y, "protonet(tau=3)", protocol, episodes=30, seed=2)
    drawn = next(draw(Y.numpy(), protocol, 2, 30))
    answer = METHODS["protonet"](drawn.episodes(X, 3), tau=3).numpy()
    known = drawn.query_labels >= 0
    assert result.protocol.queries == 15
    assert drawn.query.shape[1] == 25
    right = ((answer.argmax(-1) == drawn.query_labels) & known).sum(1)
    assert np.array_equal(result.correct, right)
    expected = [roc_auc_score(k, a.max(-1)) for k, a in zip(known, answer)]
    np.testing.assert_allclose(result.unknown_auroc, expected)
    record = result.to_json()
    assert record["unknown_auroc"]["mean"] == pytest.approx(100 * np.mean(expected), abs=1e-4)
    assert read_results(record) == [record]


# Uncertainty over classes (jackknife)


@pytest.mark.parametrize("protocol", [Protocol(way=3), Protocol("semi", way=3, unlabeled=2, distractors=2)], ids=str)
def test_the_interval_over_classes_leaves_out_a_class_at_a_time(protocol):
    first, second = compare(X, Y, ["protonet", "cipa"], protocol, episodes=200, seed=4)
    drawn = next(draw(Y.numpy(), protocol, 4, 200))
    rows = np.concatenate([drawn.support, drawn.unlabeled], 1)
    classes = [set(Y[row].tolist()) for row in rows]
    d = len(classes[0])
    assert d == 3 + protocol.distractors
    for values, half in [
        (second.accuracies, class_interval(second.to_json())),
        (second.accuracies - first.accuracies, class_interval(second.to_json(), first.to_json())),
    ]:
        means = [np.mean([v for v, held in zip(values, classes) if c not in held]) for c in range(8)]
        drawn_too = np.var(values, ddof=1) / 200 * (d * 7 / (8 - d) - 1)
        assert half == pytest.approx(1.96 * np.sqrt(7 / 8 * np.sum((means - np.mean(means)) ** 2) - drawn_too))


def test_where_classes_only_add_up_it_is_that_of_their_mean():
    """All 3 of 7 classes many times, each episode as good as its classes are in the mean."""
    good = np.array([50.0, 61, 72, 44, 90, 66, 58])
    members = np.tile([[c in subset for c in range(7)] for subset in combinations(range(7), 3)], (2000, 1))
    values = members @ good / 3
    half = class_half_width(values, members.sum(0), values @ members)
    assert half == pytest.approx(1.96 * good.std(ddof=1) / np.sqrt(7), rel=1e-4)


def test_rows_without_a_class_are_no_class_and_without_other_classes_there_is_no_interval():
    result = evaluate(X, torch.where(Y < 5, Y, -1), "protonet", episodes=20)
    classes = {"ci95": None, "episodes": [20] * 5, "correct": [int(result.correct.sum())] * 5}
    assert result.to_json()["classes"] == classes


def test_wrong_answers_of_a_method_are_said():
    nan = lambda e: torch.full((*e.query_index.shape, e.n_way), float("nan"))  # noqa: E731
    for answer, words in ((lambda e: e.query, "returned"), (lambda e: None, "NoneType"), (nan, "NaN")):
        with pytest.raises(UserError, match=words):
            evaluate(X, Y, answer, episodes=3)


@pytest.mark.parametrize(
    ("features", "labels", "options", "words"),
    [
        (X[:, 0], Y, {}, r"must be a real \(n_rows, n_dims\) array"),
        (X, Y.numpy().astype(np.uint64) + 2**63, {}, "fit int64"),
        (X, Y, {"base_mean": torch.full((64,), float("nan"))}, "finite"),
        (X, Y[:-1], {}, "one label per row"),
        (X, Y + 0.5, {}, "whole numbers"),
        (X, [*Y.tolist()[:-1], float("nan")], {}, "whole numbers"),
        (torch.where(torch.arange(len(X))[:, None] == 3, float("nan"), X), Y, {}, "the first is row 3"),
        (1e20 * X, Y, {}, r"the features reach \d\.\d+e\+20, .*: scale them down"),
        (X, Y, {"episodes": 0}, "episodes is 0: it must be a whole number from 1 to"),
        (X, Y, {"seed": None}, "seed is None: it must be a whole number from 0 to"),
        (X, Y, {"device": "junk"}, "device is 'junk', on which torch cannot compute"),
        (X, Y, {"base_mean": [["a"]]}, r"base_mean are no array of real numbers \(<U1\): give a numpy array"),
        (X, Y, {"base_mean": [[1], [2, 3]]}, "no array of real numbers .* inhomogeneous"),
        (X.to_sparse(), Y, {}, "no array of real numbers .*torch.sparse_coo"),
        (X.to("meta"), Y, {}, "no array of real numbers .*on meta"),
        (X.numpy().astype(complex), Y, {}, "no array of real numbers .*complex128"),
        (np.ma.masked_less(X.numpy(), 0.1), Y, {}, "features are partly masked"),
        (X, np.ma.masked_equal(Y.numpy(), 3), {}, "labels are partly masked"),
        (X, Y, {"base_mean": torch.zeros(3)}, "base_mean"),
        (X, Y, {"base_covariance": torch.ones(64)}, "base_covariance has shape"),
    ],
)
def test_bad_input_is_named(features, labels, options, words):
    with pytest.raises(UserError, match=words):
        evaluate(features, labels, "protonet", **{"episodes": 3, **options})


def test_rows_labels_and_means_of_many_types_are_read():
    expected = evaluate(X, Y, "simpleshot", episodes=10, base_mean=X.mean(0)).correct
    names = np.array([f"class {c}" for c in range(8)])[Y]
    for rows, labels, mean in (
        (pd.DataFrame(X.numpy()), pd.Series(Y.numpy(), index=np.arange(len(Y)) + 7), pd.Series(X.mean(0).numpy())),
        (X.numpy()[::-1][::-1], Y.tolist(), X.mean(0).tolist()),
        (np.ma.array(X.numpy()), np.ma.array(Y.numpy()), X.mean(0).requires_grad_()),
        (X.clone().requires_grad_(), Y.int(), X.mean(0).double()),
        (X.numpy().astype(">f4"), Y.float(), X.mean(0)),
        *(
            (X, labels, X.mean(0))
            for labels in (Y.double().numpy(), names, names.tolist(), pd.Series(names, dtype="O"))
        ),
    ):
        assert np.array_equal(evaluate(rows, labels, "simpleshot", episodes=10, base_mean=mean).correct, expected)
    assert evaluate(X.half(), Y, "simpleshot", episodes=10, base_mean=X.mean(0).bfloat16()).accuracy > 50


@pytest.mark.parametrize(("way", "query", "dim", "most"), [(5, 15, 64, 512), (5, 15, 640, 512), (20, 100, 640, 8)])
def test_chunks_are_as_large_as_memory_allows(way, query, dim, most):
    """The last episode takes 21 MB: 512 of them at a time would take 11 GB."""
    rows, sizes = way * (1 + query), []

    def protonet_like(episodes):
        sizes.append(len(episodes))
        return torch.full((*episodes.query_index.shape, way), 1 / way)

    features = torch.rand(rows, dim)
    evaluate(features, np.arange(rows) % way, protonet_like, Protocol(way=way, query=query), episodes=513)
    gathered, gram = rows * dim * 4, rows * rows * 4
    assert sizes[0] == 1, "warm-up"
    assert most / 2 < max(sizes) <= most
    assert max(sizes) * (gathered + gram) < 2**30
    assert sum(sizes[1:]) == 513


@pytest.mark.parametrize(("spec", "name"), [("simpleshot", "SimpleShot"), ("bd_cspn", "BD-CSPN")])
def test_base_mean_is_asked_for_with_the_way_out(spec, name):
    with pytest.raises(UserError, match=f"^{name} needs the mean .*--base FILE .* other pictures .* leave {name} out$"):
        evaluate(X, Y, spec, episodes=3)


def test_specs_carry_arguments():
    parsed = method("semi_protonet(n_iter=5, metric=cosine)")
    assert parsed.function is METHODS["semi_protonet"]
    assert parsed.arguments == {"n_iter": 5, "metric": "cosine"}
    assert parsed.label == "semi_protonet(n_iter=5, metric=cosine)"
    assert method("tim_adm(weights=[1, 1, 1])").arguments == {"weights": [1, 1, 1]}
    assert method("pt_map(class_prior=[0.5, 0.3, 0.2])").arguments == {"class_prior": [0.5, 0.3, 0.2]}
    assert split_specs("a, b(x=1, y=2),c") == ["a", "b(x=1, y=2)", "c"]
    assert parse_assignments(["l2=false", "tau=1e1", "power=off", "lam=None"]) == {
        "l2": False, "tau": 10.0, "power": "off", "lam": None,
    }  # fmt: skip
