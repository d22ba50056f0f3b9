"""How far a confidence can be believed, and when a picture is of no class that was named.

Learned on classes that training never saw, in tasks as people have them: among the unlabelled pictures are some of
classes nobody named ("foreign"). Two separate questions:

*How sure?* A temperature T turns a method's probabilities p into softmax(log p / T) (Guo et al., On Calibration of
Modern Neural Networks, 2017), so that of the pictures that are 80 % sure about 80 % are right.

*Known at all?* Probabilities do not tell: foreign pictures are alike among themselves, pull the nearest prototype to
their place, and end up sure of it. The labelled pictures stay where they are. So the sign is *familiarity*, the largest
mean cosine to the labelled pictures of a class, among rows about the centre that the method ends with. (About the mean
of all pictures it would tell more where every class is among them as often, and less than chance where all of them are
of one class: those would then lie at the centre.) Its usual size depends on the number of classes (a maximum over more
of them, about another centre), hardly on the number of pictures a class; so there is a threshold for several numbers of
classes, and `familiarity_threshold` goes between them.

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
from protoadapt.labeling.classifier import Classifier, estimator, familiarity

TINY = 1e-30
SHOTS = (1, 5)
BINS = 15
KEEP = 0.9
"""Known pictures that are not called unknown. Most folders hold few foreign pictures or none, and there every alarm is
a false one: the best mean of both shares would raise one for a quarter of all pictures."""


class Answers(NamedTuple):
    """A method's answers to the queries of many episodes."""

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
    """What a model card says of a method's confidence, from a feature table of validation classes.

    temperature      minimises the negative log-likelihood of the known pictures
    ece, ece_before  expected calibration error of the known pictures, with the temperature and without
    auroc            of the largest probability as a sign that a picture is known, for comparison
    familiarity      for each number of classes: the threshold that nine of ten known pictures pass, the shares of
                     known pictures kept and of foreign ones found, and the AUROC
    Every number of classes with every shot counts alike; those that the table has too few classes for are left out.
    """
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    rows, wanted = checked(features, labels)
    classes, sizes = np.unique(wanted[wanted >= 0], return_counts=True)
    ways = [way for way in ways if way + foreign(way) <= len(classes)]
    if not ways:
        raise UserError(
            f"the features have {len(classes)} classes: for tasks with foreign pictures 4 or more are needed"
        )
    if sizes.min() < (least := max(SHOTS) + Protocol.query):
        raise UserError(
            f"class {classes[sizes.argmin()]} has {sizes.min()} rows, and a task takes {least} of a class: extract "
            f"more pictures of it, or leave the class out of the features"
        )
    cells: dict[int, list[Answers]] = {}
    for done, (way, shot) in enumerate((way, shot) for way in ways for shot in SHOTS):
        cells.setdefault(way, []).append(answers(rows, wanted, method, way, shot, episodes, seed=0))
        on_progress(done + 1)
    every = [cell for group in cells.values() for cell in group]
    temperature = fitted_temperature([(c.p[c.y >= 0], c.y[c.y >= 0]) for c in every])
    before = np.concatenate([c.p.max(1) for c in every])
    sure = np.concatenate([tempered(c.p, temperature).max(1) for c in every])
    right = np.concatenate([c.p.argmax(1) == c.y for c in every])
    known = np.concatenate([c.y >= 0 for c in every])
    found = [
        threshold_at(np.concatenate([c.familiarity for c in group]), np.concatenate([c.y >= 0 for c in group]))
        for group in cells.values()
    ]
    return {
        "temperature": round(temperature, 4),
        "ece": round(calibration_error(sure[known], right[known]), 4),
        "ece_before": round(calibration_error(before[known], right[known]), 4),
        "auroc": round(float(roc_auc_score(known, sure)), 4),
        "familiarity": {"way": list(ways), **{key: [round(f[key], 4) for f in found] for key in found[0]}},
        "method": method,
        "shots": list(SHOTS),
        "episodes": episodes,
    }


def foreign(way: int) -> int:
    """Classes of an episode that nobody named, beside `way` that were: some 30 % of its queries."""
    return max(1, round(0.4 * way))


def with_foreigners(
    rows: Tensor, labels: np.ndarray, way: int, shot: int, episodes: int, seed: int
) -> Iterator[tuple[Episodes, np.ndarray]]:
    """Blocks of episodes of `way` classes with foreign queries among the others, and all queries' labels (E, Q), −1 for
    a foreign one. They are drawn as episodes of more classes, and the last ones lose their support."""
    memo: dict = {}
    kept = way * shot
    for block in draw(labels, Protocol(way=way + foreign(way), shot=shot), seed, episodes):
        known = np.where(block.query_labels < way, block.query_labels, -1)
        named = Draw(block.support[:, :kept], block.support_labels[:, :kept], block.query, known)
        yield named.episodes(rows, way, memo=memo), known


def answers(rows: Tensor, labels: np.ndarray, method: str, way: int, shot: int, episodes: int, seed: int) -> Answers:
    """The answers of `label` in episodes with foreign queries."""
    parts, names = [], list(map(str, range(way)))
    for block, y in with_foreigners(rows, labels, way, shot, episodes, seed):
        for e, known in enumerate(y):
            given, asked = (rows[index[e]].numpy() for index in (block.support_index, block.query_index))
            codes = np.concatenate([block.support_labels[e], np.full(len(asked), -1)])
            fitted = estimator(method, {}).fit(np.concatenate([given, asked]), codes)
            classifier = Classifier.of(fitted, names, {}, given, codes[: len(given)])
            close = familiarity(classifier.calibrate(asked), classifier.means)
            parts.append((fitted.predict_proba(asked).astype(np.float64), known, close.numpy()))
    return Answers(*(np.concatenate(part) for part in zip(*parts)))


def tempered(p: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (n, W) at a temperature: softmax(log p / T)."""
    return torch.from_numpy(np.log(np.maximum(p, TINY)) / temperature).softmax(1).numpy()


def fitted_temperature(groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """T with the least mean negative log-likelihood of labels y (n) under p (n, W), averaged over the groups (p, y).

    It is convex in 1/T, so a line search finds it.
    """
    scores = [(torch.from_numpy(np.log(np.maximum(p, TINY))), torch.from_numpy(y)) for p, y in groups]

    def loss(log_t: float) -> float:
        scale = float(np.exp(-log_t))
        return sum(float(torch.nn.functional.cross_entropy(scale * s, y)) for s, y in scores) / len(scores)

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-5}).x))


def threshold_at(score: np.ndarray, known: np.ndarray, keep: float = KEEP) -> dict[str, float]:
    """The threshold that a share of the known pictures pass; what it keeps of them, finds of the others; the AUROC."""
    threshold = np.quantile(score[known], 1 - keep)
    told = {
        "threshold": threshold,
        "kept": (score[known] >= threshold).mean(),
        "found": (score[~known] < threshold).mean(),
    }
    return {key: float(value) for key, value in told.items()} | {"auroc": float(roc_auc_score(known, score))}


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """ECE (Naeini et al., 2015): |accuracy − confidence| in 15 equal bins of confidence, weighted by their rows."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right, BINS) - np.bincount(bins, sure, BINS)
    return float(np.abs(gaps).sum() / len(sure))
