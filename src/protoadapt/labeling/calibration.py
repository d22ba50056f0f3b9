"""Confidence: how far a probability can be trusted, and when a picture belongs to none of the classes.

Both are fitted on classes that training never saw, in tasks as users have them: among the unlabelled pictures are some
of classes without examples ("foreign" pictures). There are two separate questions.

*How certain?* A temperature T turns the probabilities p of a method into softmax(log p / T) (Guo et al., On Calibration
of Modern Neural Networks, 2017), so that about 80 % of the pictures with confidence 0.8 are named correctly.

*Any of the classes?* Probabilities do not tell: foreign pictures resemble each other, pull the nearest prototype to
their place, and end up with a high probability. The labelled pictures stay where they are. So the score is
*familiarity*, the largest mean cosine to the labelled pictures of a class, among rows about the centre of the fitted
method. (About the mean of all pictures it would tell more where all classes are equally frequent, and less than chance
where all pictures are of one class: those would then lie at the centre.) Its typical size depends on the number of
classes (a maximum over more of them, about another centre), hardly on the number of pictures per class. So a threshold
is fitted for several numbers of classes, and `classifier.familiarity_threshold` interpolates between them.

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
from protoadapt.core.episodes import Draw, Episodes, draw
from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.protocol import MOST_EPISODES, Protocol
from protoadapt.labeling.classifier import Classifier, described, make_estimator

TINY = 1e-30
SHOTS = (1, 5)
BINS = 15
KEEP = 0.9
"""Share of known pictures that are not called unknown. Most folders hold few foreign pictures or none, and there every
alarm is false: the best balanced accuracy would raise one for a quarter of all pictures."""


class EpisodeAnswers(NamedTuple):
    """A method's answers to the n queries of many episodes."""

    p: np.ndarray  # (n, W) probabilities
    y: np.ndarray  # (n) labels, −1: foreign
    familiarity: np.ndarray  # (n)


def calibrate(
    features: Tensor | np.ndarray,
    labels: Tensor | np.ndarray,
    method: str = "bapa",
    *,
    ways: Sequence[int] = (3, 5, 10, 20),
    episodes: int = 100,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Fits the confidence temperature and the unknown-class thresholds of a network, for its model card.

    features (N, D), labels (N): of classes that the network was not trained on. method: of `label`, at its default
    settings. ways: numbers of classes per episode, each with 1 and with 5 shots, which all count alike; those that need
    more classes than there are are left out. on_progress: called with the number of these combinations done.

    Returns the `calibration` of a model card: `temperature`; `ece` and `ece_before`, the expected calibration error of
    known pictures with it and without; `auroc` of the largest probability as a score of known against foreign pictures,
    for comparison; `familiarity`: for each number of classes what `threshold_at` gives; method, settings, shots,
    episodes.
    """
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    rows, codes = checked(features, labels)
    classes, sizes = np.unique(codes[codes >= 0], return_counts=True)
    ways = [way for way in ways if way + n_foreign(way) <= len(classes)]
    if not ways:
        raise UserError(f"the features have {len(classes)} classes: tasks with foreign pictures need 4 or more")
    if sizes.min() < (least := max(SHOTS) + Protocol.query):
        raise UserError(
            f"class {classes[sizes.argmin()]} has {sizes.min()} rows and a task takes {least} per class: extract "
            f"more pictures of it, or leave the class out of the features"
        )
    cells: dict[int, list[EpisodeAnswers]] = {}
    for done, (way, shot) in enumerate((way, shot) for way in ways for shot in SHOTS):
        cells.setdefault(way, []).append(episode_answers(rows, codes, method, way, shot, episodes, seed=0))
        on_progress(done + 1)
    every = [cell for group in cells.values() for cell in group]
    temperature = fit_temperature([(c.p[c.y >= 0], c.y[c.y >= 0]) for c in every])
    before = np.concatenate([c.p.max(1) for c in every])
    confidence = np.concatenate([tempered(c.p, temperature).max(1) for c in every])
    right = np.concatenate([c.p.argmax(1) == c.y for c in every])
    known = np.concatenate([c.y >= 0 for c in every])
    thresholds = [
        threshold_at(np.concatenate([c.familiarity for c in group]), np.concatenate([c.y >= 0 for c in group]))
        for group in cells.values()
    ]
    return {
        "temperature": round(temperature, 4),
        "ece": round(calibration_error(confidence[known], right[known]), 4),
        "ece_before": round(calibration_error(before[known], right[known]), 4),
        "auroc": round(float(roc_auc_score(known, confidence)), 4),
        "familiarity": {"way": list(ways), **{key: [round(t[key], 4) for t in thresholds] for key in thresholds[0]}},
        "method": method,
        "settings": described(make_estimator(method, {}))["settings"],
        "shots": list(SHOTS),
        "episodes": episodes,
    }


def n_foreign(way: int) -> int:
    """Foreign classes of an episode with `way` classes: about 30 % of its queries are of those."""
    return max(1, round(0.4 * way))


def foreign_episodes(
    rows: Tensor, labels: np.ndarray, way: int, shot: int, episodes: int, seed: int
) -> Iterator[tuple[Episodes, np.ndarray]]:
    """Blocks of episodes of `way` classes with foreign queries, and the labels of all queries (E, Q), −1 for foreign.

    Episodes of more classes are drawn, and the last classes lose their support.
    """
    memo: dict = {}
    kept = way * shot
    for block in draw(labels, Protocol(way=way + n_foreign(way), shot=shot), seed, episodes):
        known = np.where(block.query_labels < way, block.query_labels, -1)
        named = Draw(block.support[:, :kept], block.support_labels[:, :kept], block.query, known)
        yield named.episodes(rows, way, memo=memo), known


def episode_answers(
    rows: Tensor, labels: np.ndarray, method: str, way: int, shot: int, episodes: int, seed: int
) -> EpisodeAnswers:
    """The answers of `label` in episodes with foreign queries."""
    parts, names = [], list(map(str, range(way)))
    for block, y in foreign_episodes(rows, labels, way, shot, episodes, seed):
        for e, known in enumerate(y):
            support, query = (rows[index[e]].numpy() for index in (block.support_index, block.query_index))
            codes = np.concatenate([block.support_labels[e], np.full(len(query), -1)])
            fitted = make_estimator(method, {}).fit(np.concatenate([support, query]), codes)
            classifier = Classifier.of(fitted, names, {}, support, codes[: len(support)])
            p = fitted.predict_proba(query).astype(np.float64)
            parts.append((p, known, classifier.familiarity(query)))
    return EpisodeAnswers(*(np.concatenate(part) for part in zip(*parts)))


def tempered(p: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (n, W) at a temperature: softmax(log p / T)."""
    return torch.from_numpy(np.log(np.maximum(p, TINY)) / temperature).softmax(1).numpy()


def fit_temperature(groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """T with the least mean negative log-likelihood of labels y (n) under p (n, W), averaged over the groups (p, y).

    The loss is convex in 1/T, so a line search finds its minimum.
    """
    scores = [(torch.from_numpy(np.log(np.maximum(p, TINY))), torch.from_numpy(y)) for p, y in groups]

    def loss(log_t: float) -> float:
        scale = float(np.exp(-log_t))
        return sum(float(torch.nn.functional.cross_entropy(scale * s, y)) for s, y in scores) / len(scores)

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-5}).x))


def threshold_at(score: np.ndarray, known: np.ndarray, keep: float = KEEP) -> dict[str, float]:
    """The threshold that a share of the known pictures pass, what it keeps of them and finds of the others, the AUROC.

    score, known (n): familiarity, and whether a picture is of one of the classes.
    """
    threshold = float(np.quantile(score[known], 1 - keep))
    kept, found = float((score[known] >= threshold).mean()), float((score[~known] < threshold).mean())
    return {"threshold": threshold, "kept": kept, "found": found, "auroc": float(roc_auc_score(known, score))}


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error (Naeini et al., 2015): |accuracy − confidence| in 15 equal bins, weighted by rows."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right, BINS) - np.bincount(bins, confidence, BINS)
    return float(np.abs(gaps).sum() / len(confidence))
