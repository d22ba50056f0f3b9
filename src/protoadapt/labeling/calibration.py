"""`calibrate`: fits when a picture is unknown (`familiarity`), for the model card of a network.

On classes that training never saw, best of several collections of different kinds, in tasks as users have them: few or
many unlabelled pictures, of equal or unequal class sizes, in half of the tasks with some of classes without examples
("foreign" pictures). All answers are those of the estimator and the classifier that `label` itself uses.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from protoadapt.core.arrays import checked_rows
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.core.prototype_model import as_numpy
from protoadapt.labeling.classifier import METHOD, Classifier
from protoadapt.labeling.familiarity import Seen, familiar_means, seen_of, usual_mixed
from protoadapt.labeling.label_methods import make_estimator

SHOTS = (1, 3, 5)
SIZES = (4, 8, 15, 30)
"""Unlabelled pictures per class, as far as the data have them."""
RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


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

    per_class: unlabelled rows of each class; None: one of SIZES, and in half of the tasks unequal (Dirichlet(1)).
    """
    classes = rng.permutation(np.unique(labels[labels >= 0]))[: way + foreign]
    per = int(rng.choice(SIZES)) if per_class is None else per_class
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
    if not ways:
        raise UserError(
            f"the features have {len(classes)} classes and tasks with foreign pictures need 4 or more: extract "
            f"pictures of more classes"
        )
    if sizes.min() < (least := max(SHOTS) + Protocol.query):
        raise UserError(
            f"class {classes[sizes.argmin()]} has {sizes.min()} rows and a task takes {least} per class: extract "
            f"more pictures of it, or leave the class out of the features"
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
    fitted = make_estimator(METHOD, {}).fit(np.concatenate([support, unlabeled]), codes)
    classifier = Classifier.of(fitted, list(map(str, range(way))), {}, support, task.codes)
    classifier = replace(classifier, means=familiar_means(classifier, task.codes, unlabeled))
    seen = seen_of(classifier, task.codes, unlabeled)
    return TaskAnswers(seen, as_numpy(classifier.scores(unlabeled)[1]), task.y >= 0)
