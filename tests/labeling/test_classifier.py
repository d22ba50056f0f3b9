"""The saved classifier answers as the estimator does, and its file is believed only as far as it can be checked."""

import json
import pickle
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from helpers.evil import Evil
from safetensors.torch import load_file, save_file

from benchmarks.synthetic import synthetic_features
from protoadapt.core.errors import UserError
from protoadapt.labeling.classifier import Classifier, load_classifier, save_classifier
from protoadapt.labeling.label_methods import ESTIMATORS, make_estimator

TABLE = synthetic_features(classes=4, rows=60, dim=64, spread=0.5)
X = TABLE.features.numpy()
Y = np.where(np.arange(len(X)) % 60 < 3, TABLE.labels.numpy(), -1)
NAMES = ["=cat", "dog\n", "ж", "'"]
MODEL = {"name": "lite0", "weights": "0" * 16, "size": 224, "mean": [0.5] * 3, "std": [0.5] * 3}


def fitted(method="bapa", **changes):
    model = make_estimator(method, {}).fit(X, Y)
    return model, replace(Classifier.of(model, NAMES, MODEL), **changes)


@pytest.mark.parametrize("method", ESTIMATORS)
def test_it_answers_as_the_estimator_does(tmp_path, method):
    model, classifier = fitted(method, threshold=0.3)
    save_classifier(tmp_path / "c.safetensors", classifier)
    back = load_classifier(tmp_path / "c.safetensors")
    (tmp_path / "c.safetensors").rename(tmp_path / "classifier.safetensors")
    assert load_classifier(tmp_path).classes == NAMES
    assert (back.classes, back.model, back.temperature, back.threshold) == (NAMES, MODEL, model.temperature_, 0.3)
    best, probability, *_ = back.answer(X)
    np.testing.assert_array_equal(best[:, 0], model.predict(X))
    full = np.sort(model.predict_proba(X))[:, :-3:-1]
    np.testing.assert_allclose(probability, full, atol=2e-5)


def test_groups_without_a_name_are_in_the_file(tmp_path):
    """The fourth class has no examples."""
    y = np.where(Y == 3, -1, Y)
    model = make_estimator("bapa", {}).fit(X, y)
    classifier = Classifier.of(model, NAMES[:3], MODEL)
    assert classifier.groups == ["unnamed-1"]
    save_classifier(tmp_path / "c.safetensors", classifier)
    answers = load_classifier(tmp_path / "c.safetensors").answer(X)
    expected = model.predict_unnamed(X)
    np.testing.assert_array_equal(answers.group, expected)
    np.testing.assert_array_equal(answers.unknown, expected != -1)
    assert (answers.group[TABLE.labels.numpy() == 3] == 0).mean() > 0.9
    assert (answers.probability.sum(1) < 1 + 1e-6).all(), "what is left is the group's"


@pytest.mark.parametrize("power", ["auto", "off"])
@pytest.mark.parametrize(("rule", "l2"), [("cosine", True), ("cosine", False), ("euclid", True), ("euclid", False)])
def test_numpy_and_torch_answer_alike(power, rule, l2):
    """Rows of all kinds: negative, zero, tiny, at the centre, and halfway between two classes."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 12)).astype(np.float32)
    rows[1], rows[2], rows[3] = 0, rows[0] * 1e-25, rows[4]
    parts = [rng.normal(size=shape).astype(np.float32) for shape in ((12,), (6, 12), (6,))]
    parts[0] *= 0.01
    rows[5], rows[6] = parts[0], parts[1][:2].mean(0)
    by_numpy = Classifier(*parts, rule, 5.0, l2, NAMES, power, 0.5, MODEL, 1.5, 0.2)
    for one, other in zip(by_numpy.answer(rows), by_numpy.to("cpu").answer(rows)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_blocks_do_not_show(monkeypatch):
    _, classifier = fitted()
    whole = classifier.answer(X)
    monkeypatch.setattr("protoadapt.core.prototype_model.block_size", lambda *_: 7)
    for part, expected in zip(classifier.answer(X), whole):
        np.testing.assert_allclose(part, expected, rtol=2e-6, atol=1e-6)
    assert [len(part) for part in classifier.answer(X[:0])] == [0, 0, 0, 0]


def test_settings_are_checked():
    assert make_estimator("cipa", {"tau": 15}).tau == 15
    for method, settings, words in (
        ("cipb", {}, "did you mean 'cipa'"),
        ("cipa", {"tao": 1}, "did you mean 'tau'"),
        ("cipa", {"tau": "much"}, "tau is 'much': it must be a number"),
        ("cipa", {"device": "cuda"}, "cipa has no setting .device."),
    ):
        with pytest.raises(UserError, match=words):
            make_estimator(method, settings)


def damaged(tensors, metadata):
    for name, tensor, words in (
        ("prototypes", tensors["prototypes"][:3], "another shape"),
        ("center", tensors["center"].double(), "another shape or type"),
        ("center", tensors["center"].to(torch.float8_e4m3fn), "float8"),
        ("bias", torch.full((4,), torch.nan), "NaN"),
        ("prototypes", torch.full((4, 64), 1e38), "too large"),
    ):
        yield tensors | {name: tensor}, metadata, words
    yield {"center": tensors["center"]}, metadata, "it lacks bias, prototypes"
    yield tensors, [1], "another kind"
    yield tensors, metadata | {"schema": "else"}, "another kind"
    yield tensors, metadata | {"surplus": 1}, "it lacks surplus, or this version does not know that"
    less = {key: value for key, value in metadata.items() if key not in ("model", "l2")}
    yield tensors, less, r"\(it lacks l2, model, or this .*: make it again with `protoadapt label`"
    for names in ("aabc", [1, 2, 3, 4], ["a", " ", "b", "c"], ["a", "Unknown", "b", "c"]):
        yield tensors, metadata | {"classes": list(names)}, "names, or one is called 'unknown'"
    yield tensors, metadata | {"classes": ["a", "b", "c", "\ud800"]}, "surrogates"
    wrong = [("similarity", "eval"), ("threshold", "low"), ("power", 3), ("l2", 1), ("model", {})]
    wrong += [("scale", value) for value in ("10", True, 10**400)]
    wrong += [("temperature", value) for value in (0, float("nan"))]
    wrong += [("model", MODEL | odd) for odd in ({"size": 10**6}, {"mean": [10**400] * 3}, {"name": "x" * 5000})]
    for key, value in wrong:
        yield tensors, metadata | {key: value}, "one of its settings is missing or has a wrong value"


def test_files_that_lie_are_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    save_classifier(path, fitted()[1])
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = json.loads(file.metadata()["protoadapt"])
    assert metadata["schema"] == "protoadapt-classifier/1"
    for tensors, words, reason in damaged(load_file(path), metadata):
        save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata={"protoadapt": json.dumps(words)})
        with pytest.raises(UserError, match=reason):
            load_classifier(path)


def test_other_contents_are_refused_and_no_code_runs(tmp_path):
    evil = Evil(open, str(tmp_path / "pwned"), "w")
    path, packed = tmp_path / "c.safetensors", BytesIO()
    save_classifier(path, fitted()[1])
    torch.save({"center": evil}, packed)
    whole = path.read_bytes()
    cuts = [whole[:size] for size in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1)]
    for content in (*cuts, pickle.dumps(evil), packed.getvalue(), bytes(1 << 20)):
        path.write_bytes(content)
        with pytest.raises(UserError, match="no classifier, or is damaged"):
            load_classifier(path)
    assert not (tmp_path / "pwned").exists()


def test_answers_that_are_no_numbers_are_an_error():
    with pytest.raises(UserError, match="not numbers"):
        fitted()[1].decide(torch.full((2, 4), torch.nan))


def test_features_of_another_width_are_named():
    with pytest.raises(UserError, match="of 5 dimensions"):
        fitted()[1].answer(np.zeros((2, 5), np.float32))
