"""Confidence and familiarity: against loops, closed forms and data whose calibration is known."""

import json

import numpy as np
import pytest
import torch

from protoadapt import Features, UserError, save_features
from protoadapt.cli.calibrate_command import calibrate as command
from protoadapt.core.arrays import checked
from protoadapt.core.features import synthetic_features
from protoadapt.labeling import calibration
from protoadapt.labeling.calibration import (
    calibrate,
    calibration_error,
    episode_answers,
    fit_temperature,
    foreign_episodes,
    tempered,
    threshold_at,
)
from protoadapt.labeling.classifier import described, make_estimator
from protoadapt.labeling.label_methods import ESTIMATORS
from protoadapt.vision.networks import cards

TABLE = synthetic_features(classes=12, rows=40, dim=32, spread=0.6)


def probabilities(n=20_000, way=4, seed=0):
    """Rows of probabilities, and labels drawn from them: calibrated by construction."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(way, 0.7), n)
    return p, (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=way - 1)


def test_what_is_calibrated_needs_no_temperature_and_what_is_too_sure_gets_its_own():
    p, y = probabilities()
    assert fit_temperature([(p, y)]) == pytest.approx(1, abs=0.03)
    for factor in (0.5, 3.0):
        sharp = tempered(p, 1 / factor)  # logits times factor
        assert fit_temperature([(sharp, y)]) == pytest.approx(factor, rel=0.03)
        assert calibration_error(sharp.max(1), sharp.argmax(1) == y) > 0.05
    assert calibration_error(p.max(1), p.argmax(1) == y) < 0.02


def test_the_temperature_is_the_best_of_a_grid():
    p, y = probabilities(500)
    q, z = probabilities(100, way=3, seed=1)
    found = fit_temperature([(p**2 / (p**2).sum(1, keepdims=True), y), (q, z)])

    def loss(t):
        parts = [(p**2 / (p**2).sum(1, keepdims=True), y), (q, z)]
        return np.mean([-np.log(tempered(a, t)[np.arange(len(b)), b]).mean() for a, b in parts])

    assert loss(found) <= min(map(loss, np.geomspace(0.1, 10, 400))) + 1e-9


def test_calibration_error_against_a_loop():
    rng = np.random.default_rng(0)
    sure, right = rng.random(300), rng.random(300) < 0.5
    sure[:2] = 0.0, 1.0
    want = 0.0
    for b in range(15):
        inside = [i for i in range(300) if b / 15 <= sure[i] < (b + 1) / 15 or (b == 14 and sure[i] == 1)]
        if inside:
            want += len(inside) / 300 * abs(np.mean([right[i] for i in inside]) - np.mean([sure[i] for i in inside]))
    assert calibration_error(sure, right) == pytest.approx(want)


def test_threshold_and_auroc_against_loops():
    rng = np.random.default_rng(0)
    known = rng.random(200) < 0.6
    score = np.round(rng.normal(size=200) + known, 1)  # with ties
    result = threshold_at(score, known, keep=0.8)
    pairs = [(a > b) + 0.5 * (a == b) for a in score[known] for b in score[~known]]
    assert result["auroc"] == pytest.approx(np.mean(pairs))
    assert result["kept"] >= 0.8  # and no higher threshold keeps as many
    assert all((score[known] >= t).mean() < 0.8 for t in score[known] if t > result["threshold"])
    assert result["kept"] == pytest.approx((score[known] >= result["threshold"]).mean())
    assert result["found"] == pytest.approx((score[~known] < result["threshold"]).mean())


@pytest.mark.parametrize(("way", "shot"), [(3, 1), (5, 2)])
def test_foreign_queries_are_of_classes_without_support(way, shot):
    rows, labels = checked(TABLE.features, TABLE.labels)
    for episodes, y in foreign_episodes(rows, labels, way, shot, 20, seed=3):
        for e in range(len(episodes)):
            support, query = labels[episodes.support_index[e]], labels[episodes.query_index[e]]
            class_of = {int(c): int(w) for c, w in zip(support, episodes.support_labels[e])}
            assert sorted(set(class_of.values())) == list(range(way))
            assert len(support) == way * shot
            assert [class_of.get(int(c), -1) for c in query] == y[e].tolist()
            assert (y[e] == -1).sum() == 15 * calibration.n_foreign(way)
            assert not set(episodes.support_index[e].tolist()) & set(episodes.query_index[e].tolist())


@pytest.mark.parametrize("method", ["bapa", "cipa"])
def test_answers_against_a_fit_and_familiarity_against_a_loop(method):
    """About the centre that a fit of support and queries ends with, which is what `label` has."""
    rows, labels = checked(TABLE.features, TABLE.labels)
    result = episode_answers(rows, labels, method, 3, 2, 4, seed=0)
    [(episodes, y)] = foreign_episodes(rows, labels, 3, 2, 4, seed=0)
    x = (rows.double() + 1e-6).sqrt()
    x = x / x.norm(dim=1, keepdim=True)
    place = 0
    for e in range(4):
        support, query = x[episodes.support_index[e]], x[episodes.query_index[e]]
        index = torch.cat([episodes.support_index[e], episodes.query_index[e]])
        given = np.r_[episodes.support_labels[e], np.full(len(query), -1)]
        fitted = ESTIMATORS[method]().fit(rows[index].numpy(), given)
        center, p = torch.from_numpy(fitted.center_), fitted.predict_proba(rows[episodes.query_index[e]].numpy())
        np.testing.assert_allclose(result.p[place : place + len(query)], p, atol=1e-6)
        for row, label in zip(query, y[e]):
            cosines = [torch.cosine_similarity(row - center, s - center, dim=0) for s in support]
            by_class = [np.mean([c for c, w in zip(cosines, episodes.support_labels[e]) if w == k]) for k in range(3)]
            assert result.familiarity[place] == pytest.approx(max(by_class), abs=1e-5)
            assert result.y[place] == label
            place += 1


def test_familiarity_tells_foreign_pictures_apart_where_probability_does_not():
    result = calibrate(TABLE.features, TABLE.labels, ways=(5,), episodes=30)
    assert result["familiarity"]["auroc"][0] > 0.9
    assert result["familiarity"]["auroc"][0] > result["auroc"] + 0.1
    again = calibrate(TABLE.features, TABLE.labels, ways=(5,), episodes=30)
    assert again == result


def test_ways_that_do_not_fit_are_left_out():
    result = calibrate(TABLE.features, TABLE.labels, "protonet", episodes=5)
    assert result["familiarity"]["way"] == [3, 5]
    few = TABLE.labels < 3
    with pytest.raises(UserError, match="need 4 or more"):
        calibrate(TABLE.features[few], TABLE.labels[few])


@pytest.mark.parametrize("episodes", [0, -3, 2.5, None])
def test_episodes_are_a_whole_number(episodes):
    with pytest.raises(UserError, match=f"episodes is {episodes}: it must be a whole number from 1 to"):
        calibrate(TABLE.features, TABLE.labels, episodes=episodes)


def test_a_small_class_is_named_with_what_can_be_done():
    enough = (TABLE.labels != 7) | (torch.arange(len(TABLE.labels)) % 2 == 0)  # half of its 40 rows
    assert calibrate(TABLE.features[enough], TABLE.labels[enough], "protonet", ways=(3,), episodes=2)
    few = enough & (torch.arange(len(TABLE.labels)) != 7 * 40)
    with pytest.raises(UserError, match="class 7 has 19 rows and a task takes 20 per class: extract more") as caught:
        calibrate(TABLE.features[few], TABLE.labels[few])
    assert "--" not in str(caught.value), "there are no options for it"


def test_the_command_fills_a_card_and_touches_nothing_else(tmp_path, capsys):
    file, card, notes = (tmp_path / name for name in ("val.safetensors", "mine.json", "notes.json"))
    save_features(file, Features(TABLE.features, TABLE.labels, metadata={"weights": "ab" * 8, "dataset": "clouds"}))
    command(file, card, episodes=5)
    result = json.loads(card.read_text())
    assert cards.calibration_of(card, "ab" * 8) == result["calibration"]
    assert result["calibration"]["settings"] == described(make_estimator("bapa", {}))["settings"]
    assert f"temperature {result['calibration']['temperature']:.3f}" in capsys.readouterr().out
    card.write_text(json.dumps({**result, "licence": "mine", "calibration": None}))
    command(file, card, "protonet", episodes=5)
    again = json.loads(card.read_text())
    assert (again["licence"], again["calibration"]["method"]) == ("mine", "protonet")
    notes.write_text('{"mine": 1}')
    for name, odd in (
        ("views", {"views": 8}),
        ("pooling", {"pooling": 2.0}),
        ("base", {"split": "base", "trained_on": "clouds"}),
    ):
        about = {"weights": "ab" * 8, "dataset": "clouds", **odd}
        save_features(tmp_path / f"{name}.safetensors", Features(TABLE.features, TABLE.labels, metadata=about))
    save_features(tmp_path / "bare.safetensors", TABLE)
    card.write_text(json.dumps({**result, "weights": "other"}))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for words, said in (
        ((file, card), "extract them again"),
        ((file, tmp_path / "card.txt"), r"end the name in \.json"),
        ((file, notes), "left as is"),
        ((tmp_path / "bare.safetensors", tmp_path / "new.json"), "which weights made it"),
        ((tmp_path / "none.npz", tmp_path / "new.json"), "no feature file"),
        ((tmp_path / "views.safetensors", tmp_path / "new.json"), "made with --views"),
        ((tmp_path / "pooling.safetensors", tmp_path / "new.json"), "made with --pooling"),
        ((tmp_path / "base.safetensors", tmp_path / "new.json"), "that the network was trained on"),
    ):
        with pytest.raises(UserError, match=said):
            command(*words)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
