"""Runs that train a few-shot head: what they save, that they resume bitwise, and what the commands say of them."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import toy
from helpers.command import answered, refused

from benchmarks.comparators import from_pictures
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.features import save_features
from protoadapt.core.heads import HEADS
from protoadapt.core.heads.deepemd import DeepEMD
from protoadapt.core.protocol import Protocol
from protoadapt.core.results import read_results
from protoadapt.training import Phase, train
from protoadapt.training.build import make_learner
from protoadapt.training.optim import Average, make_optimizer, set_learning_rate
from protoadapt.vision import networks
from protoadapt.vision.extraction import extract_features
from protoadapt.vision.networks.head_files import load_head
from protoadapt.vision.pictures.split import Images

SIDE = 32
"""Two places per side after the four stages of Conv-4."""
WEIGHTS = {name: {name: 1.0} for name in HEADS} | {"feat": {"feat": 1.0, "feat_contrast": 0.1}}


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch):
    monkeypatch.setattr(DeepEMD, "steps", 1)


def config(name, **changes):
    phases = (Phase(1.0, WEIGHTS[name]),)
    own = {"size": SIDE, "way": 2, "shot": 1, "query": 2, "episodes": 4, "episode_batch": 2, "dropblock": 0.1}
    return toy.config(**{**own, "phases": phases, "head_factor": 10.0, "lr": 0.01, "validate_every": 2, **changes})


def trained(name, out, resume=False, **changes):
    base, val = toy.images(side=SIDE), toy.images(seed=1, classes=2, side=SIDE)
    return train(config(name, **changes), base, val, out, resume=resume, accelerator="cpu")


def split(classes, each, seed):
    p = toy.images(classes, each, seed, SIDE)
    return Images(p.pixels, p.labels, p.class_names, [""] * len(p.labels), [], "toy", "novel", "none", Path())


@pytest.mark.parametrize("name", HEADS)
def test_stopped_and_resumed_equals_uninterrupted(name, tmp_path, monkeypatch):
    """Bitwise, dropout of the head included: its random numbers are a function of the step."""
    assert trained(name, tmp_path / "whole")["finished"]
    toy.call_at(Average, "update", 3, lambda *_: signal.raise_signal(signal.SIGTERM), monkeypatch.setattr)
    assert not trained(name, tmp_path / "parts")["finished"]
    assert trained(name, tmp_path / "parts", resume=True)["finished"]
    assert toy.files(tmp_path / "parts") == toy.files(tmp_path / "whole")


@pytest.mark.parametrize("name", HEADS)
def test_the_saved_head_answers_as_validation_did(name, tmp_path):
    """The score of the run is that of the head, and `load_head` gives the same accuracy on the same pictures."""
    result = trained(name, tmp_path / "run", ema=0.0, epochs=1)
    scores = result["history"][-1]
    shots = [shot for shot in (1, 5) if f"val_{name}_{shot}" in scores]
    assert shots
    assert scores["val_score"] == pytest.approx(np.mean([scores[f"val_{name}_{shot}"] for shot in shots]))
    network, metadata = networks.load(tmp_path / "run")
    table = extract_features(network, metadata, split(2, 12, seed=1), maps=True)
    head = load_head(tmp_path / "run")
    if head.module.conditions:
        with pytest.raises(UserError, match="tadam runs its network again for each episode, from pictures"):
            head.check(table)
        return
    head.check(table)
    rows = table.maps if head.module.places else table.features
    for shot in shots:
        protocol = Protocol(way=2, shot=shot, query=7)
        (again,) = compare(rows, table.labels, [head.method], protocol, episodes=4)
        assert again.accuracy == pytest.approx(scores[f"val_{name}_{shot}"], abs=2)  # float16 maps may turn one answer


def test_a_head_that_conditions_its_network_answers_pictures_as_validation_did(tmp_path):
    scores = trained("tadam", tmp_path / "run", ema=0.0, epochs=2)["history"][-1]
    head, images = load_head(tmp_path / "run"), split(2, 12, seed=1)
    assert head.module.gamma_size.abs().min() > 0, "the conditions have learned"
    rows, method = from_pictures(head, images, "cpu")
    for shot in (1, 5):
        (again,) = compare(rows, images.labels, [method], Protocol(way=2, shot=shot, query=7), episodes=4)
        assert again.accuracy == pytest.approx(scores[f"val_tadam_{shot}"], abs=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of a head on pooled rows, of one on places and of a classifier, with their features."""
    home = tmp_path_factory.mktemp("runs")
    for name in ("feat", "metaopt_ridge"):
        trained(name, home / name, epochs=1)
        network, metadata = networks.load(home / name)
        for file, maps in ((f"{name}.safetensors", True), (f"{name}-pooled.safetensors", False)):
            save_features(home / file, extract_features(network, metadata, split(3, 10, seed=2), maps=maps))
    train(toy.config(phases=(Phase(),), epochs=1), toy.images(), None, home / "classifier", accelerator="cpu")
    return home


EPISODES = ("--way", 2, "--query", 5, "--episodes", 30)


@pytest.mark.parametrize("name", ["feat", "metaopt_ridge"])
def test_a_head_is_evaluated_beside_methods_on_the_same_episodes(runs, name, tmp_path):
    file = runs / f"{name}.safetensors"
    head = ("--head", runs / name, *EPISODES, "--json")
    answered("evaluate", file, *head, tmp_path / "one.json")
    answered("compare", file, "--methods", "protonet,cipa", *head, tmp_path / "all.json")
    results = read_results(json.loads((tmp_path / "all.json").read_text()))
    assert [result["method"] for result in results] == ["protonet", "cipa", name]
    assert len({result["features"]["hash"] for result in results}) == 1
    assert json.loads((tmp_path / "one.json").read_text())["accuracy"] == results[-1]["accuracy"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("metaopt_ridge-pooled.safetensors", "--head", "metaopt_ridge"), "does not hold: extract it with --maps"),
        (("feat.safetensors", "--head", "metaopt_ridge"), "the features are of another network"),
        (("feat.safetensors", "--head", "classifier"), "has no few-shot head, as its recipe trains a classifier"),
        (("feat.safetensors", "--head", "nowhere"), "there is no model"),
        (("feat.safetensors", "--head", "feat", "--method", "cipa"), "leave out --method and --set"),
        (("feat.safetensors", "--head", "feat", "--protocol", "semi", "--unlabeled", 2), "no semi-supervised form"),
    ],
)
def test_a_head_that_does_not_fit_is_one_sentence(runs, words, said):
    assert said in refused("evaluate", *words, *EPISODES, cwd=runs)


def test_a_head_that_a_file_describes_wrongly_is_refused(runs, monkeypatch):
    from protoadapt.vision.networks import head_files

    tensors, metadata = head_files.load_weights(runs / "feat")
    for wrong in ({"name": "nobody"}, "feat", {**metadata["head"], "dim": "5"}, {**metadata["head"], "dim": 10**40}):
        monkeypatch.setattr(head_files, "load_weights", lambda path, w=wrong: (tensors, {**metadata, "head": w}))
        with pytest.raises(UserError, match="does not describe its head"):
            load_head(runs / "feat")
    large = {**metadata["head"], "dim": 65_536}  # 17 GB for one of its layers
    monkeypatch.setattr(head_files, "load_weights", lambda path: (tensors, {**metadata, "head": large}))
    monkeypatch.setattr(torch.nn.init, "kaiming_uniform_", check_small)
    with pytest.raises(UserError, match="do not fit its head"):
        load_head(runs / "feat")


def check_small(weights, **settings):
    assert weights.is_meta or weights.numel() < 2**28, "memory is asked for before the file is compared"
    return weights


def test_heads_learn_at_their_own_rate():
    learner = make_learner(config("feat"), 4, [0.5] * 3, [0.2] * 3)
    optimizer = make_optimizer(config("feat"), learner, fused=False)
    set_learning_rate(optimizer, 0.25)
    backbone, heads = optimizer.param_groups
    assert (backbone["lr"], heads["lr"]) == (0.25, 2.5)
    assert len(backbone["params"]) == len(list(learner.backbone.parameters()))
    assert len(heads["params"]) == len(list(learner.feat.parameters()))


def test_a_frozen_backbone_keeps_its_weights_and_statistics(tmp_path):
    first = toy.config(phases=(Phase(),), epochs=1, size=SIDE)
    train(first, toy.images(side=SIDE), None, tmp_path / "first", accelerator="cpu")
    trained("leo", tmp_path / "leo", init_from=str(tmp_path / "first"), frozen=True)
    before, after = (networks.load(tmp_path / name)[0].state_dict() for name in ("first", "leo"))
    assert all(torch.equal(before[key], after[key]) for key in before if "num_batches" not in key)
    with pytest.raises(UserError, match="frozen is true but the backbone is random: name a trained one with init_from"):
        config("leo", frozen=True)
    with pytest.raises(UserError, match="nothing can learn: set frozen=false"):
        trained("matching", tmp_path / "none", init_from=str(tmp_path / "first"), frozen=True)
