"""Confidence: how far a probability can be trusted, and when a picture belongs to none of the classes.

Both are fitted on classes that training never saw, best on several collections of different kinds, in tasks as users
have them: few or many unlabelled pictures, of equal or unequal class sizes, in half of the tasks with some of classes
without examples ("foreign" pictures). There are two separate questions.

*How certain?* A temperature T turns the probabilities p of a method into softmax(log p / T) (Guo et al., On Calibration
of Modern Neural Networks, 2017), so that about 80 % of the pictures with confidence 0.8 are named correctly.

*Any of the classes?* Probabilities do not tell: foreign pictures resemble each other, pull the nearest prototype to
their place, and end up with a high probability. The labelled pictures stay where they are. So the score is
*familiarity*, the largest cosine to the mean of a class's labelled pictures and the unlabelled ones around them, among
rows about the centre of the fitted method, less what a picture shares with the least familiar ones (`surrounded`).

What both depend on is not known before the pictures are there, so the card holds models of it (`task_calibration`).
For readers of version 0.1.0 it also holds one temperature, and thresholds by the number of classes.

All answers are those of the estimator and the `Classifier` that `label` itself uses.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from sklearn.metrics import roc_auc_score
from torch import Tensor

from protoadapt.core.arrays import checked
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.labeling.classifier import Classifier, described, make_estimator
from protoadapt.labeling.task_calibration import (
    CONTRAST,
    EVEN,
    NEAREST,
    RATE,
    SHIFT,
    Statistics,
    settled,
    statistics,
    surrounded,
    temperature_of,
    threshold_of,
)

TINY = 1e-30
SHOTS = (1, 3, 5)
SIZES = (4, 8, 15, 30)
"""Unlabelled pictures per class, as far as the data have them."""
RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
BINS = 15


class TaskAnswers(NamedTuple):
    """A method's answers to the n unlabelled pictures of a task."""

    way: int
    seen: Statistics
    log_p: np.ndarray  # (n, W)
    familiarity: np.ndarray  # (n)
    y: np.ndarray  # (n) labels, −1: foreign

    @property
    def known(self) -> np.ndarray:
        return self.y >= 0

    @property
    def right(self) -> np.ndarray:
        """Of the known pictures: whether they are named correctly."""
        return (self.log_p.argmax(1) == self.y)[self.known]


def calibrate(
    tables: Sequence[tuple[Tensor | np.ndarray, Tensor | np.ndarray]],
    method: str = "bapa",
    *,
    ways: Sequence[int] = (3, 5, 10, 20),
    episodes: int = 40,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Fits the confidence and the unknown class of a network, for its model card.

    Parameters
    ----------
    tables : features (N, D) and labels (N) of one or more collections, which count alike, of classes that the network
        was not trained on. With one collection, the calibration fits collections of that kind.
    method : of `label`, at its default settings.
    ways : numbers of classes per task, each with 1, 3 and 5 shots; those for which a collection has too few classes are
        left out there.
    episodes : tasks of each kind and collection.
    on_progress : called with the number of collections done.

    Returns
    -------
    The `calibration` of a model card: `task`, the models of `task_calibration`; `temperature` and
    `familiarity.threshold` for version 0.1.0; `ece` and `ece_before`, the expected calibration error of known pictures
    with the task's own temperature and without any; `auroc` of the largest probability as a score of known against
    foreign pictures, for comparison; `familiarity`: for each number of classes, what is kept of the known and found of
    the foreign pictures; method, settings, shots, episodes.

    Examples
    --------
    >>> calibrate([(birds, bird_labels), (textures, texture_labels)])["temperature"]    # doctest: +SKIP
    """
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    collections = []
    for done, (features, labels) in enumerate(tables):
        collections.append(list(answered_tasks(*checked(features, labels), method, ways, episodes)))
        on_progress(done + 1)
    return fit_calibration(collections) | {
        "method": method,
        "settings": described(make_estimator(method, {}))["settings"],
        "shots": list(SHOTS),
        "episodes": episodes,
    }


def fit_calibration(collections: Sequence[Sequence[TaskAnswers]]) -> dict[str, Any]:
    """`calibrate` from answered tasks; every collection counts the same."""
    usable = [[task for task in tasks if task.known.any()] for tasks in collections]
    tasks = [task for tasks in usable for task in tasks]
    weight = np.concatenate([np.full(len(tasks), 1 / len(tasks)) for tasks in usable])
    temperature = fit_temperature([(t.log_p[t.known], t.y[t.known]) for t in tasks], weight)
    models = _models(tasks, weight / weight.mean())
    measured: dict[int, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    before, after = [], []
    for task in tasks:
        seen = task.seen
        measured.setdefault(task.way, []).append((task.familiarity, task.known, threshold_of(models, seen, RATE)))
        own = temperature_of(models, temperature, seen, task.log_p)
        before.append(np.exp(task.log_p).max(1))
        after.append(tempered(task.log_p, own).max(1))
    known = np.concatenate([t.known for t in tasks])
    right = np.concatenate([t.right for t in tasks])
    confidence = np.concatenate(after)
    return {
        "temperature": round(temperature, 4),
        "task": models,
        "ece": round(calibration_error(confidence[known], right), 4),
        "ece_before": round(calibration_error(np.concatenate(before)[known], right), 4),
        "auroc": round(float(roc_auc_score(known, confidence)), 4),
        "familiarity": _by_way(measured),
    }


def _by_way(measured: dict[int, list[tuple[np.ndarray, np.ndarray, float]]]) -> dict[str, list[float]]:
    """Per number of classes: a threshold for all tasks, and what the tasks' own thresholds keep and find."""
    columns: dict[str, list[float]] = {key: [] for key in ("way", "threshold", "kept", "found", "auroc")}
    for way, tasks in sorted(measured.items()):
        score, known = (np.concatenate([task[i] for task in tasks]) for i in (0, 1))
        below = np.concatenate([scores < threshold for scores, _, threshold in tasks])
        foreign = [(score, known) for score, known, _ in tasks if not known.all()]
        found = float(below[~known].mean())
        auroc = float(np.mean([roc_auc_score(known, score) for score, known in foreign]))
        values = (way, np.quantile(score[known], RATE), 1 - float(below[known].mean()), found, auroc)
        for key, value in zip(columns, values):
            columns[key].append(value if key == "way" else round(float(value), 4))
    return columns


def _models(tasks: Sequence[TaskAnswers], weight: np.ndarray) -> dict[str, Any]:
    """The linear models of `task_calibration`, fitted on tasks with weights."""
    x, seen = (np.stack([getattr(t.seen, key) for t in tasks]) for key in ("x", "seen"))
    root = np.sqrt(weight)[:, None]
    usual = np.linalg.lstsq(root * x, root * seen, rcond=None)[0]
    mixed = np.stack([settled(task.seen, usual) for task in tasks])
    of_threshold, of_accuracy = np.c_[x, mixed[:, 0]], np.c_[x, mixed[:, 1:]]
    thresholds = []
    known = [np.sort(task.familiarity[task.known]) for task in tasks]
    for rate in RATES:
        target = np.array([np.quantile(scores, rate) for scores in known])
        line = np.linalg.lstsq(root * of_threshold, root[:, 0] * target, rcond=None)[0]
        # The line of the tasks' quantiles is shifted until that share of all pictures is below it.
        rest = np.concatenate([scores - shift for scores, shift in zip(known, of_threshold @ line)])
        share = np.concatenate([np.full(len(scores), w / len(scores)) for scores, w in zip(known, weight)])
        order = rest.argsort()
        place = np.searchsorted(share[order].cumsum() / share.sum(), rate)
        thresholds.append((line + np.eye(len(line))[0] * rest[order[place]]).round(5).tolist())
    accuracy = np.array([task.right.mean() for task in tasks])
    tried, right = (np.array([getattr(task.seen, key) for task in tasks]) for key in ("tried", "right"))
    several = tried > 0
    gain = np.average(accuracy[several] - right[several] / tried[several], weights=weight[several])
    return {
        "nearest": NEAREST,
        "shift": SHIFT,
        "contrast": CONTRAST,
        "even": EVEN,
        "usual": usual.round(5).tolist(),
        "rates": list(RATES),
        "thresholds": thresholds,
        "accuracy": logistic(of_accuracy, accuracy, weight).round(5).tolist(),
        "gain": round(float(gain), 4),
    }


def logistic(x: np.ndarray, y: np.ndarray, weight: np.ndarray, ridge: float = 1e-4) -> np.ndarray:
    """Coefficients (d) of shares y (n) in rows x (n, d): Newton's steps of weighted logistic regression."""
    found = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ found))
        curvature = (x * (weight * p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(found))
        found = found + np.linalg.solve(curvature, x.T @ (weight * (y - p)) - ridge * found)
    return found


def n_foreign(way: int) -> int:
    """Foreign classes of a task with `way` classes: about 30 % of the pictures are of those where sizes are equal."""
    return max(1, round(0.4 * way))


class Drawn(NamedTuple):
    """Rows of a task: S labelled ones of `way` classes, and n others, labelled −1 where their class is foreign."""

    support: np.ndarray  # (S)
    codes: np.ndarray  # (S)
    unlabeled: np.ndarray  # (n)
    y: np.ndarray  # (n)


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
    rows: Tensor, labels: np.ndarray, method: str, ways: Sequence[int], episodes: int, seed: int = 0
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
    table = rows.numpy()
    for way in ways:
        for shot in SHOTS:
            rng = np.random.default_rng([seed, way, shot])
            for episode in range(episodes):
                task = draw_task(labels, way, shot, n_foreign(way) * (episode % 2), rng)
                yield answer_task(table, task, method, way)


def answer_task(table: np.ndarray, task: Drawn, method: str, way: int) -> TaskAnswers:
    """The answers of `label` to a task; table (N, D)."""
    support, unlabeled = table[task.support], table[task.unlabeled]
    codes = np.concatenate([task.codes, np.full(len(unlabeled), -1)])
    fitted = make_estimator(method, {}).fit(np.concatenate([support, unlabeled]), codes)
    classifier = Classifier.of(fitted, list(map(str, range(way))), {}, support, task.codes)
    classifier = surrounded(classifier, task.codes, unlabeled)
    seen = statistics(classifier, support, task.codes, unlabeled)
    log_p = classifier.log_probability(unlabeled).astype(np.float64)
    return TaskAnswers(way, seen, log_p, classifier.familiarity(unlabeled), task.y)


def tempered(log_p: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (n, W) at a temperature: softmax(log p / T)."""
    return torch.from_numpy(log_p / temperature).softmax(1).numpy()


def fit_temperature(groups: Sequence[tuple[np.ndarray, np.ndarray]], weight: np.ndarray | None = None) -> float:
    """T with the least mean negative log-likelihood of labels y (n) at log p (n, W), averaged over groups (log p, y).

    weight: of the groups; None: equal. The loss is convex in 1/T, so a line search finds its minimum.
    """
    scores = [(torch.from_numpy(np.maximum(log_p, np.log(TINY))), torch.from_numpy(y)) for log_p, y in groups]
    weight = np.ones(len(scores)) if weight is None else weight

    def loss(log_t: float) -> float:
        scale = float(np.exp(-log_t))
        losses = [float(torch.nn.functional.cross_entropy(scale * s, y)) for s, y in scores]
        return float(np.average(losses, weights=weight))

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-5}).x))


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error (Naeini et al., 2015): |accuracy − confidence| in 15 equal bins, weighted by rows."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right, BINS) - np.bincount(bins, confidence, BINS)
    return float(np.abs(gaps).sum() / len(confidence))
