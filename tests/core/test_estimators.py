"""The classifiers against slow references, scikit-learn's own checks, and what people do with classifiers."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from helpers.cases import clouds
from helpers.parts import write_table
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

import protoadapt
from protoadapt.core.errors import UserError
from protoadapt.core.estimators import CIPAClassifier, PrototypeClassifier, PTMAPClassifier
from protoadapt.core.methods import rows as holders
from protoadapt.core.partial_labels import labelled_folds
from protoadapt.core.parts import open_parts

CLASSIFIERS = PrototypeClassifier.__subclasses__()
every_classifier = pytest.mark.parametrize("make", CLASSIFIERS)

EXEMPT = {
    "check_classifiers_classes": "fits the labels {-1, 1}, and -1 means unlabelled here; scikit-learn gives its own "
    "semi-supervised classes other labels in this check, as the test below does"
}


@parametrize_with_checks([make() for make in CLASSIFIERS], expected_failed_checks=lambda _: EXEMPT)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@every_classifier
def test_the_exempted_check_as_scikit_learn_runs_it_for_semi_supervised_classes(make):
    check_classifiers_classes("LabelPropagation", make())


def task(queries=30, dtype=np.float64, shots=(2, 1, 3), way=3, **more):
    """X, y with -1 on the last `queries` rows, and all rows' true labels."""
    episodes, truth = clouds(episodes=1, way=way, shots=shots, queries=queries, **more)
    X = torch.cat([episodes.support[0], episodes.query[0]]).numpy().astype(dtype)
    known, truth = episodes.support_labels[0].numpy(), truth[0].numpy()
    return X, np.concatenate([known, np.full(queries, -1)]), np.concatenate([known, truth])


def test_ordinary_folds_are_warned_of_and_labelled_ones_are_not():
    X, y, _ = task(shots=(4, 4, 4))
    with pytest.warns(UserWarning, match=r"10 of the rows to be tested have no label.*labelled_folds"):
        cross_val_score(CIPAClassifier(), X, y, cv=3)
    with warnings.catch_warnings(action="error"):
        cross_val_score(CIPAClassifier(), X, y, cv=labelled_folds(y, 3))
        assert CIPAClassifier().fit(X, y).score(X, y) > 0.5


@every_classifier
def test_fit_predict_is_the_transduction(make):
    X, y, _ = task()
    assert (make().fit_predict(X, y) == make().fit(X, y).transduction_).all()


@every_classifier
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["clouds", "duplicates", "zeros", "one unlabelled", "equal classes", "far apart"])
def test_fitted_unlabelled_rows_get_their_transduction_again_one_row_or_many(make, dtype, kind):
    X, y, _ = task(dtype=dtype)
    if kind == "duplicates":
        X[-15:] = X[-30:-15]
    elif kind == "zeros":
        X[:] = 0
    elif kind == "one unlabelled":
        X, y = X[:7], y[:7]
    elif kind == "equal classes":
        X[3:6] = X[2]  # the rows of the third class are that of the second
    elif kind == "far apart":
        X *= 1e3
    model = make().fit(X, y)
    again = model.predict(X[y < 0])
    assert (again == model.transduction_[y < 0]).all()
    assert (again == np.concatenate([model.predict(row[None]) for row in X[y < 0]])).all()
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, atol=1e-5)


@every_classifier
def test_labelled_rows_keep_their_labels_even_unlikely_ones(make):
    X, y, truth = task(shots=(5, 5, 5), spread=0.05)
    y[0] = 2  # a row of class 0
    model = make().fit(X, y)
    assert (model.transduction_[y >= 0] == y[y >= 0]).all()
    assert model.predict(X[:1]) == 0
    assert (model.transduction_[y < 0] == truth[y < 0]).all()


@every_classifier
def test_the_two_best_are_those_of_the_probabilities(make):
    X, y, _ = task()
    model = make().fit(X, y)
    p = model.predict_proba(X)
    order = np.argsort(-p, axis=1, kind="stable")[:, :2]
    assert (model.two_best_ == order).all()
    np.testing.assert_allclose(model.two_best_proba_, np.take_along_axis(p, order, 1))


def test_without_unlabelled_rows_cipa_is_protonet_centred_by_the_support():
    X, _, truth = task(queries=20)
    new, _, _ = task(queries=5, seed=1)

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    mean = unit(np.sqrt(X + 1e-6)).mean(0)
    prototypes = np.stack([unit(unit(np.sqrt(X + 1e-6)) - mean)[truth == c].mean(0) for c in range(3)])
    logits = 10 * unit(unit(np.sqrt(new + 1e-6)) - mean) @ unit(prototypes).T
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    model = CIPAClassifier().fit(X, truth)
    np.testing.assert_allclose(model.predict_proba(new), expected, atol=1e-9)
    np.testing.assert_allclose(model.center_, mean)


@every_classifier
def test_chunks_change_nothing_and_no_more_rows_are_taken_at_a_time(make, monkeypatch):
    X, y, _ = task(queries=80, dtype=np.float32)
    few_steps = {"n_iter": 3} if "n_iter" in make().get_params() else {}
    whole = make(**few_steps).fit(X, y)
    taken, powered = [], PrototypeClassifier._powered

    def watched(self, rows):
        taken.append(len(rows))
        return powered(self, rows)

    monkeypatch.setattr(PrototypeClassifier, "_powered", watched)
    monkeypatch.setattr("protoadapt.core.estimators.block_size", lambda way, dim: 23)
    monkeypatch.setattr(holders, "BLOCK_ROWS", 23)
    monkeypatch.setattr(holders, "KEPT_BYTES", 0)
    parts = make(**few_steps).fit(X, y)
    assert max(taken) == 23
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-5)
    assert (parts.transduction_ == whole.transduction_).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_classifier
def test_gpu_and_cpu_agree(make):
    X, y, _ = task(queries=2000, dtype=np.float32)
    here, there = make().fit(X, y), make(device="cuda").fit(X, y)
    assert (here.transduction_ == there.transduction_).mean() >= 0.999
    np.testing.assert_allclose(here.predict_proba(X), there.predict_proba(X), atol=1e-3)


NAMES = np.array(["cat", "dog", "emu"], dtype=object)


def named(y, mark):
    labels = NAMES[np.maximum(y, 0)].copy()
    labels[y < 0] = mark
    return labels


@every_classifier
def test_features_too_large_or_too_small_to_compute_with_are_refused(make):
    X, y, truth = task(shots=5, spread=0.1)
    for scale, words in ((1e14, ""), (0.01, ""), (1e20, "scale them down"), (-1e20, "scale them down"), (1e-4, "up")):
        rows = (scale * X).astype(np.float32)
        if not words:
            assert (make().fit(rows, y).transduction_ == truth).mean() > 0.95
            continue
        with pytest.raises(UserError, match=rf"the features reach .*: scale them .*{words.split()[-1]}"):
            make().fit(rows, y)


def test_one_row_a_class_and_many_classes_are_no_regression():
    X, y, truth = task(way=30, shots=1, spread=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CIPAClassifier().fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.9


def test_masks_are_refused():
    X, y, _ = task()
    for rows, labels in ((np.ma.masked_less(X, 0.1), y), (X, np.ma.masked_equal(y, 1))):
        with pytest.raises(UserError, match="are partly masked"):
            CIPAClassifier().fit(rows, labels)
    with pytest.raises(UserError, match="are partly masked"):
        CIPAClassifier().fit(X, y).predict(np.ma.masked_less(X, 0.1))


def test_one_class_alone_is_always_the_answer():
    X, _, _ = task()
    model = CIPAClassifier().fit(X, np.where(np.arange(len(X)) < 3, 7, -1))
    assert (model.transduction_ == 7).all()
    assert model.two_best_.shape == (len(X), 1)


@every_classifier
def test_negative_features_work(make):
    X, y, truth = task(shots=5, spread=0.1)
    model = make().fit(X - X.mean(0), y)
    assert (model.transduction_ == truth).mean() > 0.95


def test_half_precision_is_computed_in_single_and_new_rows_in_the_fitted_type():
    X, y, _ = task()
    half = CIPAClassifier().fit(X.astype(np.float16), y)
    assert half.prototypes_.dtype == np.float32
    assert (half.predict_proba(X.astype(np.float32)) == half.predict_proba(X.astype(np.float32).astype(float))).all()


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        (CIPAClassifier(), {"y": -1}, "no row of y has a label"),
        (CIPAClassifier(), {"y": None}, "no row of y has a label"),
        (CIPAClassifier(power="strict"), {"X": -1}, "power=auto"),
        (CIPAClassifier(device="cuda"), {}, "cannot compute"),
        (CIPAClassifier(device="bogus"), {}, "device is 'bogus'"),
        (CIPAClassifier(device="meta"), {}, "device is 'meta'"),
        (PTMAPClassifier(class_prior=[0.5, 0.5]), {}, "3 positive shares"),
    ],
)
def test_errors_name_the_way_out(model, change, words):
    if words == "cannot compute" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    X, y, _ = task()
    y = {-1: np.full(len(y), -1), None: np.full(len(y), None)}.get(change.get("y", 0), y)
    with pytest.raises(UserError, match=words):
        model.fit(X * change.get("X", 1), y)


def test_in_a_pipeline_with_a_grid_and_data_frames():
    X, y, truth = task(queries=60, shots=(4, 5, 6))
    frame = pd.DataFrame(X, columns=[f"f{d}" for d in range(16)])
    labels = pd.Series(named(y, None))
    # A frame in, a frame on: the names reach the classifier.
    steps = make_pipeline(MinMaxScaler().set_output(transform="pandas"), CIPAClassifier())
    grid = {"cipaclassifier__tau": [5.0, 10.0], "cipaclassifier__n_iter": [0, 20]}
    search = GridSearchCV(steps, grid, cv=labelled_folds(labels, 3))
    search.fit(frame, labels)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_[-1]
    assert best.feature_names_in_.tolist() == frame.columns.tolist()
    assert (best.transduction_ == NAMES[truth]).mean() > 0.9
    assert search.predict(frame[:1]).shape == (1,)


@every_classifier
def test_cross_validation_scores_labelled_rows(make):
    X, y, _ = task(shots=(4, 5, 6), spread=0.05, balanced=True)
    steps = make_pipeline(FunctionTransformer(), make())
    assert cross_val_score(steps, X, y, cv=labelled_folds(y, 4)).tolist() == [1.0] * 4


@every_classifier
def test_the_score_counts_labelled_rows_only(make):
    X, y, truth = task(shots=(4, 5, 6), spread=0.3, balanced=True)
    model = make().fit(X, y)
    known = y >= 0
    expected = (model.predict(X)[known] == y[known]).mean()
    assert model.score(X, y) == expected
    assert model.score(X, named(y, None)) == 0  # other labels than it was fitted with
    weight = np.arange(len(y)) + 1.0
    weighted = np.average(model.predict(X)[known] == y[known], weights=weight[known])
    assert model.score(X, y, weight) == pytest.approx(weighted)
    assert model.score(X, truth) == (model.predict(X) == truth).mean()
    with pytest.raises(UserError, match="no row of y has a label"):
        model.score(X, np.full(len(y), -1))


def test_labels_of_minus_one_and_one_are_warned_of():
    X, y, _ = task(queries=20)
    with pytest.warns(UserWarning, match="one class to learn: if -1 is a class, name the classes 0 and 1"):
        CIPAClassifier().fit(X, np.where(y == 0, 1, -1))
    for fine in (y, np.where(y == 0, 1, 2), named(np.where(y == 0, 0, -1), None), np.where(y == 0, 0, -1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CIPAClassifier().fit(X, fine)


@every_classifier
def test_the_path_leads_from_the_class_means_to_the_prototypes(make):
    X, y, _ = task()
    model = make()
    path = model.path(X, y)
    assert not hasattr(model, "prototypes_")
    assert path.shape == (getattr(model, "n_iter", 0) + 1, 3, 16)
    if len(path) > 1:
        for step in (0, 1):
            np.testing.assert_allclose(path[step], make(n_iter=step).fit(X, y).prototypes_)
    np.testing.assert_allclose(path[-1], model.fit(X, y).prototypes_)


@every_classifier
@pytest.mark.parametrize("threads", [1, 3])
def test_a_table_on_disk_teaches_what_it_teaches_in_memory(make, threads, tmp_path, monkeypatch):
    """In parts of float16, by one thread or three, and never held; rows that are zero or equal among them."""
    X, y, _ = task(queries=400, dtype=np.float32, shots=(4, 3, 5))
    X[-9:], X[-30:-20] = 0, X[-1]
    X = X.astype(np.float16)
    write_table(tmp_path, X, 64)
    monkeypatch.setattr(holders, "KEPT_BYTES", 0)
    known = np.flatnonzero(y >= 0)
    table = replace(open_parts(tmp_path), leave={0: known})
    few_steps = {"n_iter": 3} if make is PTMAPClassifier else {}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    on_disk = make(**few_steps).fit_rows(X[known], NAMES[y[known]], table)
    torch.set_num_threads(before)
    model = make(**few_steps).fit(X, y)
    np.testing.assert_allclose(on_disk.predict_proba(X), model.predict_proba(X), atol=1e-4)
    assert on_disk.classes_.tolist() == ["cat", "dog", "emu"]
    with pytest.raises(UserError, match="labelled rows only"):
        make().fit_rows(X, y, table)


def test_public_names_are_there():
    for name in protoadapt.__all__:
        assert getattr(protoadapt, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = protoadapt.nothing
