"""Confidence and familiarity: against loops, closed forms and data whose calibration is known."""

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from protoadapt import Features, UserError, save_features
from protoadapt.cli.calibrate_command import calibrate as command
from protoadapt.core.arrays import checked
from protoadapt.core.features import synthetic_features
from protoadapt.labeling.calibration import (
    answer_task,
    answered_tasks,
    calibrate,
    calibration_error,
    draw_task,
    fit_temperature,
    logistic,
    n_foreign,
    tempered,
)
from protoadapt.labeling.classifier import Classifier, described, make_estimator
from protoadapt.labeling.label_methods import ESTIMATORS
from protoadapt.labeling.task_calibration import (
    NEVER,
    RATE,
    adapted,
    checked_rate,
    statistics,
    surrounded,
    temperature_at,
    threshold_of,
)
from protoadapt.vision import networks
from protoadapt.vision.networks import cards

TABLE = synthetic_features(classes=12, rows=40, dim=32, spread=0.6)


def probabilities(n=20_000, way=4, seed=0):
    """Rows of probabilities, and labels drawn from them: calibrated by construction."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(way, 0.7), n)
    return p, (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=way - 1)


def test_what_is_calibrated_needs_no_temperature_and_what_is_too_sure_gets_its_own():
    p, y = probabilities()
    assert fit_temperature([(np.log(p), y)]) == pytest.approx(1, abs=0.03)
    for factor in (0.5, 3.0):
        sharp = tempered(np.log(p), 1 / factor)  # logits times factor
        assert fit_temperature([(np.log(sharp), y)]) == pytest.approx(factor, rel=0.03)
        assert calibration_error(sharp.max(1), sharp.argmax(1) == y) > 0.05
    assert calibration_error(p.max(1), p.argmax(1) == y) < 0.02


def test_the_temperature_is_the_best_of_a_grid():
    p, y = probabilities(500)
    q, z = probabilities(100, way=3, seed=1)
    parts = [(2 * np.log(p), y), (np.log(q), z)]
    found = fit_temperature(parts, np.array([1, 2]))

    def loss(t):
        losses = [-np.log(tempered(a, t)[np.arange(len(b)), b]).mean() for a, b in parts]
        return (losses[0] + 2 * losses[1]) / 3

    assert loss(found) <= min(map(loss, np.geomspace(0.1, 10, 400))) + 1e-9


@pytest.mark.parametrize("accuracy", [0.4, 0.7, 0.97])
def test_confidence_has_the_mean_that_is_asked_for(accuracy):
    p, _ = probabilities(300)
    found = tempered(np.log(p), temperature_at(np.log(p), accuracy))
    assert found.max(1).mean() == pytest.approx(accuracy, abs=1e-6)


def test_logistic_regression_against_scikit_learn():
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(400), rng.normal(size=(400, 2))]
    y = (rng.random(400) < 1 / (1 + np.exp(-x @ [0.3, 1.0, -2.0]))).astype(float)
    weight = rng.random(400) + 0.1
    theirs = LogisticRegression(C=1e4, fit_intercept=False, tol=1e-10).fit(x, y, weight).coef_[0]
    np.testing.assert_allclose(logistic(x, y, weight), theirs, atol=1e-4)


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


@pytest.mark.parametrize(("way", "shot"), [(3, 1), (5, 2)])
def test_foreign_pictures_are_of_classes_without_examples(way, shot):
    _, labels = checked(TABLE.features, TABLE.labels)
    for seed in range(20):
        task = draw_task(labels, way, shot, n_foreign(way), np.random.default_rng(seed))
        class_of = dict(zip(labels[task.support], task.codes))
        assert sorted(class_of.values()) == list(range(way))
        assert len(task.support) == way * shot
        assert [class_of.get(label, -1) for label in labels[task.unlabeled]] == task.y.tolist()
        assert len(set(labels[task.unlabeled[task.y < 0]])) == n_foreign(way)
        assert not set(task.support) & set(task.unlabeled)


@pytest.mark.parametrize("method", ["bapa", "cipa"])
def test_answers_and_statistics_against_loops(method):
    """About the centre that a fit of support and queries ends with, which is what `label` has."""
    rows, labels = checked(TABLE.features, TABLE.labels)
    task = draw_task(labels, 3, 2, 1, np.random.default_rng(1), per_class=6)
    result = answer_task(rows.numpy(), task, method, 3)
    x = (rows.double() + 1e-6).sqrt()
    x = x / x.norm(dim=1, keepdim=True)
    support, query = x[task.support], x[task.unlabeled]
    given = np.r_[task.codes, np.full(len(query), -1)]
    fitted = ESTIMATORS[method]().fit(rows[np.r_[task.support, task.unlabeled]].numpy(), given)
    p = fitted.predict_proba(rows[task.unlabeled].numpy())
    np.testing.assert_allclose(np.exp(result.log_p), p, atol=1e-6)
    center, label = torch.from_numpy(fitted.center_), p.argmax(1)

    def near(row, examples):
        return [float(torch.cosine_similarity(row - center, s - center, dim=0)) for s in examples]

    def to_unit(rows):
        return [(row - center) / (row - center).norm() for row in rows]

    parts, pool, means = [to_unit(support[task.codes == c]) for c in range(3)], to_unit(query), []
    for part in parts:  # two rounds: the labelled rows, and the ten rows nearest to the mean as far as they resemble it
        mean = sum(part) / len(part)
        for _ in range(2):
            cosines = sorted(((max(float(mean @ u), 0.0), j) for j, u in enumerate(pool)), reverse=True)[:10]
            mean = (sum(part) + sum(c * pool[j] for c, j in cosines)) / (len(part) + sum(c for c, _ in cosines))
        means.append(mean / mean.norm() / 2)
    closest = [max(range(3), key=lambda c: float(u @ means[c])) for u in pool]
    effective = len(pool) ** 2 / sum(closest.count(c) ** 2 for c in range(3))
    counts = [1.0] * len(pool)
    for _ in range(3):  # what all share: every row alike, then twice the less a row counts the more familiar it is
        shared = 0.75 * (effective / 3) ** 0.5 * sum(c * u for c, u in zip(counts, pool)) / (len(pool) + 10)
        familiar = [max(float(u @ mean) for mean in means) - float(u @ shared) for u in pool]
        below = [sum(other < one for other in familiar) for one in familiar]
        counts = [2 - (2 * rank + 1) / len(pool) for rank in below]
    means = [mean - shared for mean in means]

    best, margins, same = [], [], []
    for i, row in enumerate(query):
        by_class = [float(pool[i] @ mean) for mean in means]
        best.append(max(by_class))
        margins.append(by_class[label[i]] - max(b for c, b in enumerate(by_class) if c != label[i]))
        order = sorted((j for j in range(len(query)) if j != i), key=lambda j: -near(row, query[j : j + 1])[0])
        same += [label[j] == label[i] for j in order[:3]]
    np.testing.assert_allclose(result.familiarity, best, atol=1e-5)
    share = min(max(np.mean(same), 0.05), 0.98)
    sure = min(max(p.max(1).mean(), 0.02), 0.98)
    want = [np.quantile(best, 0.75), np.log(max(np.mean(margins), 0.005))]
    want += [np.log(part / (1 - part)) for part in (share, sure)]
    np.testing.assert_allclose(result.seen.seen, want, atol=1e-4)
    right = 0
    for i, row in enumerate(support):
        others = [
            np.mean(near(row, [s for j, s in enumerate(support) if j != i and task.codes[j] == c])) for c in range(3)
        ]
        right += int(np.argmax(others) == task.codes[i])
    assert (result.seen.tried, result.seen.right) == (6, right)
    np.testing.assert_allclose(result.seen.x, [1, np.log(3), 0.5, np.log(3) / 2])


def test_familiarity_tells_foreign_pictures_apart_where_probability_does_not():
    result = calibrate([(TABLE.features, TABLE.labels)], ways=(5,), episodes=10)
    assert result["familiarity"]["auroc"][0] > 0.9
    assert result["familiarity"]["auroc"][0] > result["auroc"] + 0.1
    assert result["familiarity"]["kept"][0] == pytest.approx(0.9, abs=0.03)
    again = calibrate([(TABLE.features, TABLE.labels)], ways=(5,), episodes=10)
    assert again == result


def called(tasks, limits):
    """Per task, the share of known pictures below its limit."""
    return np.array([(task.familiarity[task.known] < limit).mean() for task, limit in zip(tasks, limits)])


def test_a_threshold_follows_the_pictures_at_hand():
    """Two collections whose classes are tight and wide: a task of either keeps its own share of known pictures."""
    tables = [synthetic_features(classes=12, rows=40, dim=32, spread=spread, seed=1) for spread in (0.3, 1.2)]
    result = calibrate([(table.features, table.labels) for table in tables], ways=(4,), episodes=12)
    for table in tables:
        tasks = list(answered_tasks(*checked(table.features, table.labels), "bapa", (4,), 10, seed=5))
        pure, limits = np.array([task.known.all() for task in tasks]), {}
        for rate, off in ((0.1, 0.04), (0.3, 0.1)):
            limits[rate] = [threshold_of(result["task"], task.seen, rate) for task in tasks]
            share = called(tasks, limits[rate])
            assert share[pure].mean() == pytest.approx(rate, abs=off)
            assert share[~pure].mean() < share[pure].mean(), "foreign pictures are the less familiar ones"
        assert np.all(np.array(limits[0.1]) <= limits[0.3])
        plain, own = called(tasks, [result["familiarity"]["threshold"][0]] * len(tasks)), called(tasks, limits[0.1])
        assert abs(plain.mean() - 0.1) > abs(own.mean() - 0.1) + 0.01, "one threshold does not fit both"


def test_a_classifier_is_adapted_to_its_task():
    rows, labels = checked(TABLE.features, TABLE.labels)
    task = draw_task(labels, 3, 2, 1, np.random.default_rng(1), per_class=20)
    support, pool = rows[task.support].numpy(), rows[task.unlabeled].numpy()
    fitted = make_estimator("bapa", {}).fit(np.concatenate([support, pool]), np.r_[task.codes, np.full(len(pool), -1)])
    card = calibrate([(TABLE.features, TABLE.labels)], ways=(3,), episodes=4)
    made = Classifier.of(fitted, list("abc"), {}, support, task.codes, card)
    own = adapted(made, card, support, task.codes, pool)
    seen = statistics(surrounded(made, task.codes, pool), support, task.codes, pool)
    assert own.threshold == threshold_of(card["task"], seen, RATE)
    assert adapted(made, card, support, task.codes, pool, rate=0.3).threshold > own.threshold
    off = adapted(made, card, support, task.codes, pool, rate=0.0)
    assert (off.threshold, off.temperature, off.answer(pool).unknown.any()) == (NEVER, own.temperature, False)
    alone = adapted(made, card, support, task.codes, pool[:0])  # no picture: what is usual
    assert alone.temperature == card["temperature"]
    assert np.isfinite(alone.threshold)
    before = {key: value for key, value in card["task"].items() if key not in ("nearest", "shift", "contrast", "even")}
    before |= {"usual": [row[:3] for row in before["usual"]], "accuracy": before["accuracy"][:6]}
    older = adapted(made, {**card, "task": before}, support, task.codes, pool)  # cards of earlier versions
    assert torch.equal(older.means, made.means)
    assert np.isfinite([older.threshold, older.temperature]).all()
    cosine = torch.cosine_similarity(surrounded(made, task.codes, pool[:0]).means, made.means)
    torch.testing.assert_close(cosine, torch.ones(3))
    half = surrounded(made, task.codes, pool, np.arange(6) % 2 == 0)  # corrected rows count less beside the others
    assert not torch.equal(half.means, surrounded(made, task.codes, pool).means)
    one = pool[task.y == 0]  # a folder of one class only: the mean of its rows counts less
    apart, uneven, full = (
        surrounded(made, task.codes, one, contrast=0, **how) for how in ({"shift": 0.0}, {}, {"even": 0})
    )
    torch.testing.assert_close(apart.means - uneven.means, (apart.means - full.means) / 3**0.5)
    old = {key: value for key, value in card.items() if key != "task"}
    assert adapted(made, old, support, task.codes, pool) == made
    plain = Classifier.of(fitted, list("abc"), {}, support, task.codes)
    assert adapted(plain, None, support, task.codes, pool).threshold is None
    assert adapted(plain, None, support, task.codes, pool, rate=0.0).threshold is None
    assert adapted(made, old, support, task.codes, pool, rate=RATE) == made  # the rate that such cards were made for
    for classifier, calibration, rate, why in (
        (made, old, 0.3, "of an older version"),
        (plain, None, 0.3, "is not calibrated: run"),
        (plain, None, RATE, "is not calibrated: run"),
        (plain, card, RATE, "is not calibrated for this method and its settings: run"),
    ):
        with pytest.raises(UserError, match=f"--unknown {rate} needs a calibrated network and this one .*{why}"):
            adapted(classifier, calibration, support, task.codes, pool, rate=rate)


def test_rates_as_people_write_them():
    assert [checked_rate(value) for value in (None, "off", "0.05", 0.2)] == [None, 0.0, 0.05, 0.2]
    for odd in ("0", "0.6", "5%", "nan", "-0.1", "auto"):
        with pytest.raises(UserError, match="give off, or a share of known pictures up to"):
            checked_rate(odd)


def test_ways_that_do_not_fit_are_left_out():
    result = calibrate([(TABLE.features, TABLE.labels)], "protonet", episodes=4)
    assert result["familiarity"]["way"] == [3, 5]
    few = TABLE.labels < 3
    with pytest.raises(UserError, match="need 4 or more: extract pictures of more classes"):
        calibrate([(TABLE.features[few], TABLE.labels[few])])


@pytest.mark.parametrize("episodes", [0, -3, 2.5, None])
def test_episodes_are_a_whole_number(episodes):
    with pytest.raises(UserError, match=f"episodes is {episodes}: it must be a whole number from 1 to"):
        calibrate([(TABLE.features, TABLE.labels)], episodes=episodes)


def test_a_small_class_is_named_with_what_can_be_done():
    enough = (TABLE.labels != 7) | (torch.arange(len(TABLE.labels)) % 2 == 0)  # half of its 40 rows
    assert calibrate([(TABLE.features[enough], TABLE.labels[enough])], "protonet", ways=(3,), episodes=2)
    few = enough & (torch.arange(len(TABLE.labels)) != 7 * 40)
    with pytest.raises(UserError, match="class 7 has 19 rows and a task takes 20 per class: extract more") as caught:
        calibrate([(TABLE.features[few], TABLE.labels[few])])
    assert "--" not in str(caught.value), "there are no options for it"


def test_the_command_fills_a_card_and_touches_nothing_else(tmp_path, capsys):
    file, card, notes = (tmp_path / name for name in ("val.safetensors", "mine.json", "notes.json"))
    save_features(file, Features(TABLE.features, TABLE.labels, metadata={"weights": "ab" * 8, "dataset": "clouds"}))
    command([file], card, episodes=4)
    result = json.loads(card.read_text())
    assert cards.calibration_of(card, "ab" * 8) == result["calibration"]
    for odd in ({"nearest": -1}, {"nearest": 2.5}, {"shift": 9}, {"shift": "much"}, {"even": -1}, {"even": None}):
        task = result["calibration"]["task"] | odd
        notes.write_text(json.dumps({**result, "calibration": {**result["calibration"], "task": task}}))
        with pytest.raises(UserError, match="is incomplete"):
            cards.calibration_of(notes, "ab" * 8)
    assert result["calibration"]["settings"] == described(make_estimator("bapa", {}))["settings"]
    assert f"temperature {result['calibration']['temperature']:.3f}" in capsys.readouterr().out
    card.write_text(json.dumps({**result, "licence": "mine", "calibration": None}))
    command([file], card, method="protonet", episodes=4)
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
            command([words[0]], words[1])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_command_takes_folders_of_pictures(tmp_path, paint, model, capsys):
    for kind in range(4):
        for place in range(20):
            paint(
                tmp_path / "birds" / f"kind {kind}" / f"{place}.png",
                ["red", "green", "blue"][kind % 3],
                100 * kind + place,
            )
    with pytest.raises(UserError, match="name the network that embeds them with --model"):
        command([tmp_path / "birds"], tmp_path / "card.json", episodes=2)
    paint(tmp_path / "birds" / "unknown" / "0.png", "red", 7)
    command([tmp_path / "birds"], tmp_path / "card.json", str(model), episodes=2)
    assert "note: the folder 'birds/unknown' was left out" in capsys.readouterr().err
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["weights"] == networks.load(model)[1]["weights"]
    assert card["calibration"]["features"] == "birds"
    assert cards.calibration_of(tmp_path / "card.json", card["weights"]) == card["calibration"]
