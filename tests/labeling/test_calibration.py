"""Familiarity and its threshold: against loops, and on data whose answer is known; the command `calibrate`."""

import numpy as np
import pytest
import torch

from protoadapt import UserError
from protoadapt.core.arrays import checked_rows
from protoadapt.core.features import synthetic_features
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.familiarity import (
    NEVER,
    answer_task,
    answered_tasks,
    calibrate,
    check_calibration,
    checked_rate,
    draw_task,
    familiar_means,
    threshold_of,
    with_threshold,
)
from protoadapt.labeling.label_methods import ESTIMATORS, make_estimator

TABLE = synthetic_features(classes=12, rows=40, dim=32, spread=0.6)


def test_familiarity_against_loops():
    """About the centre that a fit of support and queries ends with, which is what `label` has."""
    rows, labels = checked_rows(TABLE.features, TABLE.labels)
    task = draw_task(labels, 3, 2, 1, np.random.default_rng(1), per_class=6)
    result = answer_task(rows.numpy(), task, 3)
    x = (rows.double() + 1e-6).sqrt()
    x = x / x.norm(dim=1, keepdim=True)
    support, query = x[task.support], x[task.unlabeled]
    given = np.r_[task.codes, np.full(len(query), -1)]
    fitted = ESTIMATORS["bapa"]().fit(rows[np.r_[task.support, task.unlabeled]].numpy(), given)
    center = torch.from_numpy(fitted.center_)

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
    for _ in range(3):  # what all have in common: every row alike, then twice the less a row counts the more familiar
        common = 0.75 * (effective / 3) ** 0.5 * sum(c * u for c, u in zip(counts, pool)) / (len(pool) + 10)
        familiar = [max(float(u @ mean) for mean in means) - float(u @ common) for u in pool]
        below = [sum(other < one for other in familiar) for one in familiar]
        counts = [2 - (2 * rank + 1) / len(pool) for rank in below]
    best = [max(float(u @ (mean - common)) for mean in means) for u in pool]
    np.testing.assert_allclose(result.familiarity, best, atol=1e-5)
    assert result.seen.quartile == pytest.approx(np.quantile(best, 0.75), abs=1e-5)
    np.testing.assert_allclose(result.seen.x, [1, np.log(3), 0.5, np.log(3) / 2])


def called(tasks, limits):
    """Per task, the share of known pictures below its limit."""
    return np.array([(task.familiarity[task.known] < limit).mean() for task, limit in zip(tasks, limits)])


def test_a_threshold_follows_the_pictures_at_hand():
    """Two collections whose classes are tight and wide: a task of either keeps its own share of known pictures."""
    tables = [synthetic_features(classes=12, rows=40, dim=32, spread=spread, seed=1) for spread in (0.3, 1.2)]
    result = calibrate([(table.features, table.labels) for table in tables], ways=(4,), episodes=12)
    for table in tables:
        tasks = list(answered_tasks(*checked_rows(table.features, table.labels), (4,), 10, seed=5))
        pure, limits = np.array([task.known.all() for task in tasks]), {}
        for rate, off in ((0.1, 0.06), (0.3, 0.15)):
            limits[rate] = [threshold_of(result, task.seen, rate) for task in tasks]
            share = called(tasks, limits[rate])
            assert share[pure].mean() == pytest.approx(rate, abs=off)
            assert share[~pure].mean() < share[pure].mean(), "foreign pictures are the less familiar ones"
        assert np.all(np.array(limits[0.1]) <= limits[0.3])


@pytest.mark.parametrize("method", ["bapa", "cipa", "pt_map"])
def test_a_classifier_has_the_threshold_of_its_task(method):
    rows, labels = checked_rows(TABLE.features, TABLE.labels)
    task = draw_task(labels, 3, 2, 1, np.random.default_rng(1), per_class=20)
    support, pool = rows[task.support].numpy(), rows[task.unlabeled].numpy()
    fitted = make_estimator(method, {}).fit(np.concatenate([support, pool]), np.r_[task.codes, np.full(len(pool), -1)])
    card = calibrate([(TABLE.features, TABLE.labels)], ways=(3,), episodes=4)
    made = Classifier.of(fitted, list("abc"), {}, support, task.codes)
    own = with_threshold(made, card, task.codes, pool)
    unknown, foreign = own.answer(pool).unknown, task.y < 0
    assert unknown[foreign].mean() > 0.8
    assert unknown[~foreign].mean() < 0.2
    assert with_threshold(made, card, task.codes, pool, rate=0.3).threshold > own.threshold
    off = with_threshold(made, card, task.codes, pool, rate=0.0)
    assert (off.threshold, off.answer(pool).unknown.any()) == (NEVER, False)
    assert np.isfinite(with_threshold(made, card, task.codes, pool[:0]).threshold), "no picture: what is usual"
    cosine = torch.cosine_similarity(familiar_means(made, task.codes, pool[:0]), made.means)
    torch.testing.assert_close(cosine, torch.ones(3))


def test_what_a_card_lacks_is_said():
    card = {"usual": [0.0] * 4, "rates": [0.1, 0.2], "thresholds": [[0.1] * 5, [0.2] * 5]}
    check_calibration(card, 0.2, "mine")
    check_calibration(None, None, "mine")
    with pytest.raises(UserError, match=r"--unknown 0.2 needs a calibrated network .* run protoadapt calibrate, or"):
        check_calibration(None, 0.2, "mine")
    lies = [{"rates": [0.2, 0.1]}, {"rates": [0.1]}, {"thresholds": [[0.1] * 5, [0.1] * 4]}, {"usual": [10**400] * 4}]
    lies += [{"usual": []}, {"usual": None}, {"rates": [], "thresholds": []}, {"usual": ["a"] * 4}]
    for lie in ("hot", {"usual": [0.0] * 4}, [1], *(card | lie for lie in lies)):
        with pytest.raises(UserError, match="the card of 'mine' is incomplete: run protoadapt calibrate again"):
            check_calibration(lie, None, "mine")


def test_rates_as_people_write_them():
    assert [checked_rate(value) for value in (None, "off", "0.05", 0.2)] == [None, 0.0, 0.05, 0.2]
    for odd in ("0", "0.6", "5%", "nan", "-0.1", "auto"):
        with pytest.raises(UserError, match="give off, or a share of known pictures up to"):
            checked_rate(odd)


def test_collections_that_are_too_small_are_said():
    few = TABLE.labels < 3
    with pytest.raises(UserError, match=r"have 3 classes, .* need 4 classes of 20 rows: extract more pictures"):
        calibrate([(TABLE.features[few], TABLE.labels[few])])
    for episodes in (0, 2.5):
        with pytest.raises(UserError, match=f"episodes is {episodes}: it must be a whole number from 1 to"):
            calibrate([(TABLE.features, TABLE.labels)], episodes=episodes)
    enough = (TABLE.labels != 7) | (torch.arange(len(TABLE.labels)) % 2 == 0)  # half of its 40 rows
    assert calibrate([(TABLE.features[enough], TABLE.labels[enough])], episodes=2), "ways that do not fit are left out"
    few = enough & (torch.arange(len(TABLE.labels)) != 7 * 40)
    with pytest.raises(
        UserError, match="class 7 has 19 rows, and tasks need 4 classes of 20 rows: extract more"
    ) as caught:
        calibrate([(TABLE.features[few], TABLE.labels[few])])
    assert "--" not in str(caught.value), "there are no options for it"
