"""Unknown pictures: how familiar a picture is, and below which familiarity it may belong to none of the classes.

Probabilities do not tell: foreign pictures resemble each other, pull the nearest prototype to their place, and end up
with a high probability. The labelled pictures stay where they are. So the score is *familiarity*, the largest product
of a row, about the centre of the fitted method, with one vector per class (`familiar_means`).

A threshold that fits one collection of pictures does not fit another: in a collection of textures even pictures of one
class are little alike, in one of drawings all pictures are. The upper quartile q of the familiarity of the unlabelled
pictures tells these apart without any label; of foreign pictures, the less familiar ones, it takes little notice. With
x = (1, log W, 1/K, log W / K) for W classes of K labelled pictures (harmonic mean), a model card holds one linear model
in (x, q) per share of known pictures, which gives the threshold that this share falls below, and what q usually is at
x, which counts _USUAL pictures.

`calibrate` fits both for the model card of a network: on classes that training never saw, best of several collections
of different kinds, in tasks as users have them: few or many unlabelled pictures, of equal or unequal class sizes, and
in half of the tasks some of classes without examples ("foreign" pictures). All answers are those of the estimator and
the classifier that `label` itself uses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.arrays import checked_rows
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.methods.common import unit
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.core.prototype_model import as_numpy
from protoadapt.labeling import DEFAULT_METHOD
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.label_methods import make_estimator

SAMPLE = 1000
"""Unlabelled pictures that are measured, at most."""
RATE = 0.1
"""Share of known pictures that are called unknown. Most folders hold few foreign pictures or none, and there every
alarm is false."""
QUARTILE, _USUAL = 0.75, 10.0
_NEAREST, _ROUNDS, SHIFT, RANKINGS = 10, 2, 0.75, 2
"""Of `familiar_means`."""
NEVER = -2.0
"""A threshold that no familiarity is below."""
SHOTS = (1, 3, 5)
_SIZES = (4, 8, 15, 30)
"""Unlabelled pictures per class, as far as the data have them."""
RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


class Seen(NamedTuple):
    """What a task shows of itself."""

    x: np.ndarray  # (4): 1, log W, 1/K, log W / K
    pictures: int  # n unlabelled ones that were measured; 0 where there are fewer than two
    quartile: float  # q


def familiar_means(classifier: Classifier, labels: np.ndarray, unlabeled: np.ndarray) -> Tensor:
    """(W, D): what familiarity is measured by: the mean of each class's labelled rows, and what unlabelled rows add.

    Where a class has one example, that may be an odd one; the pictures around it say better where the class is. The
    mean m of a class's K labelled rows becomes (K m + Σ_i c_i u_i) / (K + Σ_i c_i) with its _NEAREST rows u_i, which
    count as far as they resemble m: c_i = max(0, m · u_i). In a second round they are those nearest to the new mean.
    Means are then scaled to length ½, so that a class of diverse examples is as familiar as others.

    Foreign pictures are among the least familiar ones, so what a picture has in common with those speaks against it:
    from all means, SHIFT times a mean of all n rows is subtracted, which counts n / (n + _USUAL). In it all rows count
    alike at first, and in each of RANKINGS more rounds by their rank in familiarity: the least familiar row 1, the most
    familiar one 0. Where most rows are of one class, their mean is near that class and speaks against its own pictures;
    so the shift is multiplied by √(V/W), where V = n²/Σ_c n_c² is the effective number of classes among the rows, n_c
    of which are nearest to the mean of class c. labels (S): of the labelled rows; unlabeled (n, D).
    """
    rows = unit(classifier.prepare(unlabeled))
    weight = torch.from_numpy(np.bincount(labels, minlength=len(classifier.classes))).float()[:, None]
    means = classifier.means
    for _ in range(_ROUNDS):
        cosine, near = (means @ rows.T).topk(min(_NEAREST, len(rows)), 1)
        part = torch.zeros(len(means), len(rows)).scatter(1, near, cosine.clamp_min(0))
        means = (weight * classifier.means + part @ rows) / (weight + part.sum(1, keepdim=True))
    means, shift = unit(means) / 2, SHIFT
    resemblance, closest = (means @ rows.T).max(0)
    if len(rows):
        share = closest.bincount(minlength=len(means)) / len(rows)
        shift *= float(1 / share.square().sum() / len(means)) ** 0.5
    common = shift * rows.sum(0) / (len(rows) + _USUAL)
    for _ in range(RANKINGS):
        rank = (resemblance - rows @ common).argsort().argsort()
        count = (len(rows) - 0.5 - rank) * 2 / len(rows)  # 1 on average
        common = shift * (count @ rows) / (len(rows) + _USUAL)
    return means - common


def seen_of(classifier: Classifier, labels: np.ndarray, unlabeled: np.ndarray) -> Seen:
    """Measures a task. labels (S): classes of the labelled rows; unlabeled (n, D): a sample of the others."""
    way = len(classifier.classes)
    shots = np.bincount(labels, minlength=way)
    inverse = float((1 / np.maximum(shots, 1)).mean())
    x = np.array([1, np.log(way), inverse, np.log(way) * inverse])
    if len(unlabeled) < 2:
        return Seen(x, 0, 0.0)
    return Seen(x, len(unlabeled), float(np.quantile(as_numpy(classifier.scores(unlabeled)[1]), QUARTILE)))


def usual_mixed(seen: Seen, usual: np.ndarray) -> float:
    """The quartile of a task, mixed with the one usual at its x by `usual` (4)."""
    return float((seen.pictures * seen.quartile + _USUAL * seen.x @ usual) / (seen.pictures + _USUAL))


def threshold_of(calibration: Mapping[str, Any], seen: Seen, rate: float) -> float:
    """The familiarity that a share `rate` of the known pictures is below; between fitted rates it is interpolated."""
    columns = np.append(seen.x, usual_mixed(seen, np.array(calibration["usual"])))
    at = [float(columns @ np.array(line)) for line in calibration["thresholds"]]
    return float(np.clip(np.interp(rate, calibration["rates"], np.maximum.accumulate(at)), -1, 1))


def checked_rate(value: str | float | None) -> float | None:
    """The share of known pictures that may be called unknown: 0 for "off", None where nothing was said.

    None means RATE with a calibrated network, and nothing with another, which refuses a stated share.
    """
    if value is None or value == "off":
        return None if value is None else 0.0
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 0.5:
        raise UserError(f"--unknown is {value!r}: give off, or a share of known pictures up to 0.5, such as {RATE}")
    return rate


def check_calibration(calibration: Any, rate: float | None, model: str) -> None:
    """Raises UserError where a card's calibration is damaged, or missing for a stated rate."""
    if calibration is None:
        if rate:
            raise UserError(
                f"--unknown {rate} needs a calibrated network and this one is not calibrated: run protoadapt "
                f"calibrate, or leave out --unknown"
            )
        return
    try:
        usual, rates, lines = (np.array(calibration[key], float) for key in ("usual", "rates", "thresholds"))
        fine = (
            usual.shape == (4,) and lines.shape == (len(rates), 5) and bool(np.abs([*usual, *lines.flat]).max() < 1e3)
        )
        fine = fine and bool((np.diff([0, *rates, 1]) >= 0).all()) and len({*rates}) == len(rates) > 0
    except (LookupError, TypeError, ValueError, OverflowError):
        fine = False
    if not fine:
        raise UserError(
            f"the calibration in the card of {model!r} is incomplete: run protoadapt calibrate again, or set it to null"
        )


def with_threshold(
    classifier: Classifier,
    calibration: Mapping[str, Any],
    labels: np.ndarray,
    unlabeled: np.ndarray,
    rate: float | None = None,
) -> Classifier:
    """The classifier with the threshold of its own task.

    calibration: of the network's card (`check_calibration`); rate as in `checked_rate`; others as in `seen_of`.
    """
    own = replace(classifier, means=familiar_means(classifier, labels, unlabeled))
    seen = seen_of(own, labels, unlabeled)
    return replace(own, threshold=NEVER if rate == 0 else threshold_of(calibration, seen, rate or RATE))


class Drawn(NamedTuple):
    """Rows of a task: S labelled ones of `way` classes, and n others, labelled −1 where their class is foreign."""

    support: np.ndarray  # (S)
    codes: np.ndarray  # (S)
    unlabeled: np.ndarray  # (n)
    y: np.ndarray  # (n)


class TaskAnswers(NamedTuple):
    """What a fitted classifier says of the n unlabelled pictures of a task."""

    seen: Seen
    familiarity: np.ndarray  # (n)
    known: np.ndarray  # (n): whether a picture is of one of the classes


def calibrate(
    tables: Sequence[tuple[Tensor | np.ndarray, Tensor | np.ndarray]],
    *,
    ways: Sequence[int] = (3, 5, 10, 20),
    episodes: int = 40,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Fits when a picture is unknown, for the model card of the network that made these features.

    Parameters
    ----------
    tables : features (N, D) and labels (N) of one or more collections, which count alike, of classes that the network
        was not trained on. With one collection, the calibration fits collections of that kind.
    ways : numbers of classes per task, each with 1, 3 and 5 shots; those for which a collection has too few classes are
        left out there.
    episodes : tasks of each kind and collection.
    on_progress : called with the number of collections done.

    Returns
    -------
    The `calibration` of a model card: `usual`, `rates` and `thresholds`, the linear models of `familiarity`.

    Examples
    --------
    >>> calibrate([(birds, bird_labels), (textures, texture_labels)])["rates"]    # doctest: +SKIP
    """
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    collections = []
    for done, (features, labels) in enumerate(tables):
        collections.append(list(answered_tasks(*checked_rows(features, labels), ways, episodes)))
        on_progress(done + 1)
    return fit_thresholds(collections)


def fit_thresholds(collections: Sequence[Sequence[TaskAnswers]]) -> dict[str, Any]:
    """`calibrate` from answered tasks; every collection counts the same."""
    kept = [[task for task in tasks if task.known.any()] for tasks in collections]
    tasks = [task for tasks in kept for task in tasks]
    weight = np.concatenate([np.full(len(tasks), 1 / len(tasks)) for tasks in kept])
    root = np.sqrt(weight / weight.mean())
    x = np.stack([task.seen.x for task in tasks])
    usual = np.linalg.lstsq(root[:, None] * x, root * [task.seen.quartile for task in tasks], rcond=None)[0]
    columns = np.c_[x, [usual_mixed(task.seen, usual) for task in tasks]]
    known, lines = [np.sort(task.familiarity[task.known]) for task in tasks], []
    for rate in RATES:
        target = np.array([np.quantile(scores, rate) for scores in known])
        line = np.linalg.lstsq(root[:, None] * columns, root * target, rcond=None)[0]
        # The line of the tasks' quantiles is shifted until that share of all pictures is below it.
        rest = np.concatenate([scores - shift for scores, shift in zip(known, columns @ line)])
        share = np.concatenate([np.full(len(scores), w / len(scores)) for scores, w in zip(known, weight)])
        order = rest.argsort()
        place = np.searchsorted(share[order].cumsum() / share.sum(), rate)
        lines.append((line + np.eye(len(line))[0] * rest[order[place]]).round(5).tolist())
    return {"usual": usual.round(5).tolist(), "rates": list(RATES), "thresholds": lines}


def n_foreign(way: int) -> int:
    """Foreign classes of a task with `way` classes: about 30 % of the pictures are of those where sizes are equal."""
    return max(1, round(0.4 * way))


def draw_task(
    labels: np.ndarray, way: int, shot: int, foreign: int, rng: np.random.Generator, per_class: int | None = None
) -> Drawn:
    """A random task. labels (N), −1: none. foreign: number of classes without examples.

    per_class: unlabelled rows of each class; None: one of _SIZES, and in half of the tasks unequal (Dirichlet(1)).
    """
    classes = rng.permutation(np.unique(labels[labels >= 0]))[: way + foreign]
    per = int(rng.choice(_SIZES)) if per_class is None else per_class
    sizes = np.full(way + foreign, per)
    if per_class is None and rng.random() < 0.5:
        sizes[:way] = rng.multinomial(per * way, rng.dirichlet(np.ones(way)))
    rows = [rng.permutation(np.flatnonzero(labels == label)) for label in classes]
    others = [row[shot : shot + size] for row, size in zip(rows, sizes)]
    y = [np.full(len(part), code if code < way else -1) for code, part in enumerate(others)]
    support = np.concatenate([row[:shot] for row in rows[:way]])
    return Drawn(support, np.repeat(np.arange(way), shot), np.concatenate(others), np.concatenate(y))


def answered_tasks(
    rows: Tensor, labels: np.ndarray, ways: Sequence[int], episodes: int, seed: int = 0
) -> Iterator[TaskAnswers]:
    """Tasks of all kinds, drawn from a collection of rows (N, D) with labels (N) and answered as `label` does."""
    classes, sizes = np.unique(labels[labels >= 0], return_counts=True)
    ways = [way for way in ways if way + n_foreign(way) <= len(classes)]
    least = max(SHOTS) + Protocol.query
    if not ways or sizes.min() < least:
        raise UserError(
            f"the features have {len(classes)} classes, class {classes[sizes.argmin()]} has {sizes.min()} rows, and "
            f"tasks need 4 classes of {least} rows: extract more pictures, or leave small classes out of the features"
        )
    for way in ways:
        for shot in SHOTS:
            rng = np.random.default_rng([seed, way, shot])
            for episode in range(episodes):
                task = draw_task(labels, way, shot, n_foreign(way) * (episode % 2), rng)
                yield answer_task(rows.numpy(), task, way)


def answer_task(table: np.ndarray, task: Drawn, way: int) -> TaskAnswers:
    """The answers of `label` to a task; table (N, D)."""
    support, unlabeled = table[task.support], table[task.unlabeled]
    codes = np.concatenate([task.codes, np.full(len(unlabeled), -1)])
    fitted = make_estimator(DEFAULT_METHOD, {}).fit(np.concatenate([support, unlabeled]), codes)
    classifier = Classifier.of(fitted, list(map(str, range(way))), {}, support, task.codes)
    classifier = replace(classifier, means=familiar_means(classifier, task.codes, unlabeled))
    seen = seen_of(classifier, task.codes, unlabeled)
    return TaskAnswers(seen, as_numpy(classifier.scores(unlabeled)[1]), task.y >= 0)
