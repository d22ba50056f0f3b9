"""Settings chosen on validation classes, the files they are kept in, and transforms before a method."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.cases import clouds

from benchmarks.synthetic import synthetic_features
from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import GRIDS, evaluate, tune
from protoadapt.core.methods import METHODS, method
from protoadapt.core.protocol import Protocol

TABLE = synthetic_features(classes=12, rows=40, dim=16, spread=0.8)


def test_what_cannot_be_tuned_is_said():
    with pytest.raises(UserError, match="'cipa' has no settings to tune: choose bapa or paddle"):
        tune(TABLE.features, TABLE.labels, "cipa")


@pytest.mark.parametrize("name", GRIDS)
def test_of_a_grid_the_best_is_taken(name):
    protocol, progress = Protocol("one-class", query=20), []
    options = {"episodes": 8, "seed": 3}
    found = tune(TABLE.features, TABLE.labels, name, protocol, **options, on_progress=progress.append)
    tried = [{key: method(name).settings[key] for key in GRIDS[name]}]
    tried += [dict(zip(GRIDS[name], values)) for values in itertools.product(*GRIDS[name].values())]
    scores = [
        evaluate(TABLE.features, TABLE.labels, method(name, **one), protocol, **options).accuracy for one in tried
    ]
    assert scores[tried.index(found)] == max(scores)
    assert progress == sorted(progress)
    assert progress[-1] == 8


def test_the_defaults_win_ties():
    easy = synthetic_features(classes=6, rows=30, dim=16, spread=0.01)  # every combination is right everywhere
    defaults = {key: method("bapa").settings[key] for key in GRIDS["bapa"]}
    assert tune(easy.features, easy.labels, "bapa", episodes=4) == defaults


def test_a_file_of_settings_is_a_method(tmp_path):
    file = tmp_path / "tim.json"
    file.write_text(json.dumps({"method": "tim_adm", "arguments": {"temp": 7.0, "weights": [1.5, 1.0, 1.0]}}))
    assert method(str(file)).settings == {"temp": 7.0, "weights": [1.5, 1.0, 1.0], "n_iter": 150}
    assert method(str(file), temp=3.0).settings["temp"] == 3.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *((text, "is no file of settings") for text in (None, "{", "[" * 100_000, "[1]", '{"method": "cipa"}')),
        ('{"method": "os:system", "arguments": {}}', "is no file of settings"),
        ('{"method": "s.json", "arguments": {}}', "is no file of settings"),
        ('{"method": "paddle", "arguments": {"scale": -1}}', "scale is -1: it must be a number"),
        ('{"method": "paddle", "arguments": {"other": 1}}', "no setting 'other'"),
    ],
)
def test_files_that_hold_no_settings_are_refused(tmp_path, content, words):
    file = tmp_path / "s.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=words):
        method(str(file))


# Balanced pairwise affinities before a method


def slow_affinities(support, query, reg=0.2, rounds=10):
    """One episode, row by row: Sinkhorn's iteration on exp(−cost/reg) without the diagonal."""
    x = np.concatenate([support, query])
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    plan = np.exp(-(1 - x @ x.T) / reg)
    np.fill_diagonal(plan, 0)
    for _ in range(rounds):
        plan = plan / plan.sum(axis=1, keepdims=True)
        plan = plan / plan.sum(axis=0, keepdims=True)
    plan = plan / plan.max()
    np.fill_diagonal(plan, 1)
    return plan


@pytest.mark.parametrize("name", ["cipa", "bapa", "pt_map", "protonet"])
def test_a_transform_stands_before_any_method(name):
    episodes, _ = clouds()
    parts = [slow_affinities(s.numpy(), q.numpy()) for s, q in zip(episodes.support, episodes.query)]
    rows, n = torch.from_numpy(np.stack(parts)), episodes.support_index.shape[1]
    made = Episodes.from_tensors(rows[:, :n], episodes.support_labels, rows[:, n:], 3)
    run = method(f"bpa+{name}")
    assert run.label == f"bpa+{name}"
    torch.testing.assert_close(run(episodes), METHODS[name](made), atol=1e-9, rtol=0)


def test_transformed_methods_keep_the_laws():
    episodes, _ = clouds(episodes=4)
    run = method("bpa(reg=0.1, rounds=5)+cipa(tau=5)")
    assert run.settings["tau"] == 5
    assert run.label == "bpa(reg=0.1, rounds=5)+cipa(tau=5)"
    together = run(episodes)
    torch.testing.assert_close(torch.cat([run(episodes[e : e + 1]) for e in range(4)]), together)
    with pytest.raises(UserError, match="no semi-supervised form"):
        run(clouds(unlabeled=5)[0])
    with pytest.raises(UserError, match="SimpleShot needs the mean of the base classes"):
        method("bpa+simpleshot")(episodes)


# Whitening before a method


def test_whitening_depends_on_the_shape_of_the_covariance_alone():
    """A multiple of the identity whitens nothing: rows are those after the power transform."""
    episodes, _ = clouds(spread=1.0)
    answer = method("whiten+bapa")(episodes)
    scaled = replace(episodes, base_covariance=1e4 * episodes.base_covariance, memo={})
    torch.testing.assert_close(method("whiten+bapa")(scaled), answer, atol=1e-9, rtol=1e-9)
    like = replace(episodes, base_covariance=7 * torch.eye(16, dtype=torch.float64), memo={})
    torch.testing.assert_close(method("whiten+bapa")(like), method("bapa")(episodes), atol=1e-9, rtol=1e-9)


def test_a_covariance_that_is_missing_or_none_is_said():
    episodes, _ = clouds()
    negative = -torch.eye(16, dtype=torch.float64)
    negative[0, 0] = 16
    with pytest.raises(UserError, match=r"bavardage needs the covariance .* --base FILE"):
        METHODS["bavardage"](replace(episodes, base_covariance=None))
    for covariance, words in (
        (None, "whiten needs the covariance of the base classes' features"),
        (0 * negative, "compute it from several different rows"),
        (20 * negative, "base_covariance is not a covariance"),
    ):
        with pytest.raises(UserError, match=words):
            method("whiten+bapa")(replace(episodes, base_covariance=covariance, memo={}))
