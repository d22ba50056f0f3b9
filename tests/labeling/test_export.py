"""ONNX files: what is written answers as torch does, says what it is, and is not left behind when it differs."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from helpers.networks import save_model

from protoadapt import UserError
from protoadapt.cli.export_command import export_command as command
from protoadapt.core.estimators import BAPAClassifier
from protoadapt.labeling import onnx_export
from protoadapt.labeling.classifier import Classifier, save_classifier
from protoadapt.vision import networks
from protoadapt.vision.embed import embed

SIZE = 16
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (7, 3, SIZE, SIZE), dtype=np.uint8)
NAMES = ["cat", "Käfer, roter", "two\nlines"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file, and the features that it gives PIXELS."""
    file = tmp_path_factory.mktemp("model") / "toy.safetensors"
    about = {"backbone": "conv4", "width": 8, "size": SIZE, "dataset": "toy"}
    save_model(file, **about, mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4])
    return file, embed(*networks.load(file), PIXELS)


@pytest.fixture(scope="module")
def written(model):
    """The exported network, and what was metadata of it."""
    out = model[0].with_name("toy.onnx")
    return out, onnx_export.export(model[0], out)


def fitted(estimator, rows, weights="", temperature=1.0):
    """A classifier of 3 classes on rows (n, D), the first six of them labelled."""
    y = np.r_[np.arange(6) % 3, np.full(len(rows) - 6, -1)]
    estimator.fit(rows, y)
    model = {"name": "toy", "weights": weights, "size": SIZE, "mean": [0.0] * 3, "std": [1.0] * 3}
    made = Classifier.of(estimator, NAMES, model)
    return replace(made, temperature=temperature, threshold=float(np.median(made.answer(rows).density)))


def test_the_file_answers_as_torch_does_for_any_batch(model, written):
    out, metadata = written
    session = onnxruntime.InferenceSession(out)
    for n in (1, 7):
        [rows] = session.run(["features"], {"pixels": PIXELS[:n]})
        np.testing.assert_allclose(rows, model[1][:n], rtol=1e-4, atol=1e-5)
    assert metadata["difference"] < 1e-4
    assert metadata["output"] == ("N", 8)
    assert metadata["bytes"] == out.stat().st_size
    assert [path.name for path in out.parent.glob("*.onnx*")] == ["toy.onnx"]  # no second file with the weights


def test_the_file_is_a_model_again(model, written):
    network, about = networks.load(str(written[0]))
    np.testing.assert_allclose(
        embed(network, about, PIXELS, views=3), embed(*networks.load(model[0]), PIXELS, views=3), rtol=1e-4, atol=1e-4
    )
    assert (about["size"], about["dim"], about["backbone"], about["dataset"]) == (SIZE, 8, "conv4", "toy")
    said = {p.key: json.loads(p.value) for p in onnx.load(written[0]).metadata_props}
    assert (said["size"], said["mean"], said["std"]) == (SIZE, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    with pytest.raises(UserError, match="ONNX file already"):
        onnx_export.export(written[0], written[0].with_name("again.onnx"))


def test_a_classifier_goes_from_pixels_to_named_probabilities(model, tmp_path, capsys):
    file, rows = model
    estimator = BAPAClassifier()
    weights = networks.load(file)[1]["weights"]
    classifier = fitted(estimator, rows.numpy(), weights, temperature=2.0)
    save_classifier(tmp_path / "c.safetensors", classifier)
    command(str(file), tmp_path / "c.onnx", classifier=tmp_path / "c.safetensors")
    assert "largest difference to torch" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(tmp_path / "c.onnx")
    p, close = session.run(["probabilities", "density"], {"pixels": PIXELS})
    np.testing.assert_array_equal(close < classifier.threshold, classifier.answer(rows.numpy()).unknown)
    assert 0 < (close < classifier.threshold).sum() < len(PIXELS)
    sharp = estimator.predict_proba(rows.numpy())
    np.testing.assert_allclose(p, sharp**0.5 / (sharp**0.5).sum(1, keepdims=True), rtol=1e-3, atol=1e-4)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == NAMES
    assert json.loads(metadata["threshold"]) == classifier.threshold
    with pytest.raises(UserError, match="is a classifier"):
        networks.load(tmp_path / "c.onnx")


def test_a_classifier_of_other_weights_is_refused(model, tmp_path):
    with pytest.raises(UserError, match="other weights"):
        onnx_export.export(model[0], tmp_path / "c.onnx", fitted(BAPAClassifier(), model[1].numpy(), "0" * 16))
    assert not list(tmp_path.iterdir())


def test_a_file_that_differs_is_not_left_behind(model, written, tmp_path, monkeypatch):
    def wrong(network, *rest):
        with torch.no_grad():
            next(network.parameters()).mul_(1.5)  # the graph is right, torch then answers something else
        return content

    content = written[0].read_bytes()
    monkeypatch.setattr(onnx_export, "exported", wrong)
    (tmp_path / "old.onnx").write_bytes(content)
    with pytest.raises(UserError, match="differ from torch's"):
        onnx_export.export(model[0], tmp_path / "old.onnx")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]
