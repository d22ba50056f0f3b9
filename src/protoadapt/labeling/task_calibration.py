"""What a task's own pictures say about its calibration: how sure its names are, and when a picture is unknown.

A threshold or a temperature that fits one collection of pictures does not fit another: in a collection of textures even
pictures of one class are little alike, in one of drawings all pictures are. Four statistics of the unlabelled pictures
tell these apart, and none needs a label:

    q  the upper quartile of familiarity: how alike pictures of a class are (of foreign pictures, which are the less
       familiar ones, it takes little notice);
    m  log of the mean margin: by how much a picture is closer to the labelled pictures of its class than to others;
    c  logit of the consistency: how often the three nearest pictures of a picture have its label;
    s  logit of the mean confidence before any temperature.

With x = (1, log W, 1/K, log W / K) for W classes of K labelled pictures (harmonic mean), a card holds linear models
that were fitted on many tasks of several collections (`calibration`): the threshold that a given share of the known
pictures falls below from (x, q), and the logit of the accuracy from (x, m, c, s). Statistics of n pictures are mixed
with those usual at x, which count USUAL pictures.

Familiarity itself gains by the unlabelled pictures (`surrounded`). Where a class has one example, that may be an odd
one; the pictures around it say better where the class is. And foreign pictures are among the least familiar ones, so
that what a picture shares with the mean of those speaks against it.

Where classes have two labelled pictures or more, each is named from the others (leave-one-out). This is the accuracy
itself, seen on few pictures, so the model's accuracy counts PRIOR of them. The temperature is the one at which the mean
confidence of the unlabelled pictures equals the accuracy.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.row_learner import CORRECTED
from protoadapt.labeling.classifier import Classifier, Rows

SAMPLE = 1000
"""Unlabelled pictures that are measured, at most."""
QUARTILE, NEIGHBOURS = 0.75, 3
USUAL, PRIOR = 10.0, 15.0
LEAST_MARGIN = 0.005
RATE = 0.1
"""Share of known pictures that are called unknown. Most folders hold few foreign pictures or none, and there every
alarm is false."""
NEAREST, ROUNDS, SHIFT, CONTRAST, EVEN = 10, 2, 0.75, 2, 0.5
"""Of `surrounded`."""
NEVER = -2.0
"""A threshold that no familiarity is below."""
HOTTEST = 6.0  # |log temperature|


class Statistics(NamedTuple):
    """What a task shows of itself."""

    x: np.ndarray  # (4): 1, log W, 1/K, log W / K
    pictures: int  # n
    seen: np.ndarray  # (4): q, m, c, s of the unlabelled pictures
    tried: int  # labelled pictures that were named from the others
    right: int  # of those


def surrounded(
    classifier: Classifier,
    labels: np.ndarray,
    unlabeled: Rows,
    corrected: np.ndarray | None = None,
    nearest: int = NEAREST,
    shift: float = SHIFT,
    contrast: int = CONTRAST,
    even: float = EVEN,
) -> Classifier:
    """The classifier with a familiarity that unlabelled rows (n, D) have a say in.

    The mean m of a class's K labelled rows becomes (K m + Σ_i c_i u_i) / (K + Σ_i c_i) with its `nearest` rows u_i,
    which count as far as they resemble m: c_i = max(0, m · u_i). In a second round they are those nearest to the new
    mean. Means are then scaled to length ½, so that a class of diverse examples is as familiar as others. From all of
    them, `shift` times a mean of all n rows is subtracted, which counts n / (n + USUAL). In it all rows count alike at
    first, and in each of `contrast` more rounds by their rank in familiarity: the least familiar row 1, the most
    familiar one 0. Where most rows are of one class, their mean is near that class and speaks against its own pictures;
    so `shift` is multiplied by (V/W)^even, where V = n²/Σ_c n_c² is the effective number of classes among the rows, n_c
    of which are nearest to the mean of class c: W where they are equally many. Rows are at least as familiar as
    −½ − shift. labels (S), corrected (S) as in `statistics`. Cards of earlier versions have even 0, or contrast 0,
    which leaves lengths and ranks out; with 0, 0.0 and 0 nothing is changed.
    """
    rows = unit(classifier.prepare(unlabeled))
    counts = np.ones(len(labels)) if corrected is None else np.where(corrected, CORRECTED, 1.0)
    weight = torch.from_numpy(np.bincount(labels, counts, len(classifier.classes))).float()[:, None]
    means = classifier.means
    for _ in range(ROUNDS):
        cosine, near = (means @ rows.T).topk(min(nearest, len(rows)), 1)
        part = torch.zeros(len(means), len(rows)).scatter(1, near, cosine.clamp_min(0))
        means = (weight * classifier.means + part @ rows) / (weight + part.sum(1, keepdim=True))
    if contrast:
        means = unit(means) / 2
    resemblance, closest = (means @ rows.T).max(0)
    if even and len(rows):
        share = closest.bincount(minlength=len(means)) / len(rows)
        shift *= float(1 / share.square().sum() / len(means)) ** even
    common = shift * rows.sum(0) / (len(rows) + USUAL)
    for _ in range(contrast):
        rank = (resemblance - rows @ common).argsort().argsort()
        count = (len(rows) - 0.5 - rank) * 2 / len(rows)  # 1 on average
        common = shift * (count @ rows) / (len(rows) + USUAL)
    return replace(classifier, means=means - common)


def statistics(
    classifier: Classifier,
    support: np.ndarray,
    labels: np.ndarray,
    unlabeled: Rows,
    corrected: np.ndarray | None = None,
) -> Statistics:
    """Measures a fitted task.

    support (S, D), labels (S): labelled rows; unlabeled (n, D): a sample of the others. corrected (S): labelled rows
    that do not represent their class, and so are left out here.
    """
    if corrected is not None and corrected.any():
        support, labels = support[~corrected], labels[~corrected]
    way, shots = len(classifier.classes), np.bincount(labels, minlength=len(classifier.classes))
    rows = unit(classifier.prepare(support)).numpy()
    per_class = np.maximum(shots, 1)
    shared = float((1 / per_class).mean())
    x = np.array([1, np.log(way), shared, np.log(way) * shared])
    sums = np.zeros((way, rows.shape[1]), rows.dtype)
    np.add.at(sums, labels, rows)
    cosines, place = rows @ (sums / per_class[:, None]).T, np.arange(len(rows))
    several = shots[labels] > 1
    own = (cosines[place, labels] * shots[labels] - 1) / np.maximum(shots[labels] - 1, 1)
    cosines[place, labels] = -np.inf
    right = (own > cosines.max(1)) & several
    seen, n = np.zeros(4), len(unlabeled)
    if n > 1:
        seen = _seen(classifier, unit(classifier.prepare(unlabeled)).numpy(), unlabeled)
    return Statistics(x, n if n > 1 else 0, seen, int(several.sum()), int(right.sum()))


def _seen(classifier: Classifier, rows: np.ndarray, unlabeled: Rows) -> np.ndarray:
    """q, m, c and s of prepared rows (n, D)."""
    log_p = classifier.log_probability(unlabeled) * classifier.temperature
    label, place = log_p.argmax(1), np.arange(len(rows))
    cosines = rows @ classifier.means.numpy().T
    quartile = np.quantile(cosines.max(1), QUARTILE)
    own = cosines[place, label]
    cosines[place, label] = -np.inf
    margin = max(float((own - cosines.max(1)).mean()), LEAST_MARGIN)
    similarity = torch.from_numpy(rows @ rows.T).fill_diagonal_(-np.inf)
    nearest = similarity.topk(min(NEIGHBOURS, len(rows) - 1), 1).indices.numpy()
    same = np.clip((label[nearest] == label[:, None]).mean(), 0.05, 0.98)
    sure = np.clip(float(torch.from_numpy(log_p).softmax(1).amax(1).mean()), 0.02, 0.98)
    return np.array([quartile, np.log(margin), np.log(same / (1 - same)), np.log(sure / (1 - sure))])


def settled(seen: Statistics, usual: np.ndarray) -> np.ndarray:
    """(4): the statistics, mixed with those usual at x; usual (4, 4). Older cards lack the last column."""
    return (seen.pictures * seen.seen[: usual.shape[1]] + USUAL * seen.x @ usual) / (seen.pictures + USUAL)


def threshold_of(task: Mapping[str, Any], seen: Statistics, rate: float) -> float:
    """The familiarity that a share `rate` of the known pictures is below; between fitted rates it is interpolated."""
    q = settled(seen, np.array(task["usual"]))[0]
    at = [float(np.append(seen.x, q) @ np.array(coefficients)) for coefficients in task["thresholds"]]
    return float(np.clip(np.interp(rate, task["rates"], np.maximum.accumulate(at)), -1, 1))


def accuracy_of(task: Mapping[str, Any], seen: Statistics) -> float:
    """The share of known pictures that are named rightly, as far as the task shows it."""
    others = settled(seen, np.array(task["usual"]))[1:]
    expected = 1 / (1 + np.exp(-np.append(seen.x, others) @ np.array(task["accuracy"])))
    witnessed = min(seen.right + task["gain"] * seen.tried, seen.tried)
    return float((PRIOR * expected + witnessed) / (PRIOR + seen.tried))


def temperature_at(log_p: np.ndarray, accuracy: float) -> float:
    """The temperature at which the mean confidence of log-probabilities (n, W) is a given accuracy, by bisection."""
    rows, low, high = torch.from_numpy(log_p), -HOTTEST, HOTTEST
    for _ in range(40):
        middle = (low + high) / 2
        surer = float((rows / np.exp(middle)).softmax(1).amax(1).mean()) > accuracy
        low, high = (middle, high) if surer else (low, middle)
    return float(np.exp((low + high) / 2))


def temperature_of(task: Mapping[str, Any], usual: float, seen: Statistics, log_p: np.ndarray) -> float:
    """The task's temperature; that of few pictures is mixed with the usual one. log_p (n, W) of the same pictures."""
    if not seen.pictures:
        return usual
    way = log_p.shape[1]
    own = temperature_at(log_p, min(max(accuracy_of(task, seen), 1 / way + 0.01), 0.995))
    return float(np.exp((seen.pictures * np.log(own) + USUAL * np.log(usual)) / (seen.pictures + USUAL)))


def checked_rate(value: str | float | None) -> float | None:
    """The share of known pictures that may be called unknown: 0 for "off", None where nothing was said.

    None means RATE with a calibrated network, and nothing with another, which refuses a stated share (`adapted`).
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


def adapted(
    classifier: Classifier,
    calibration: Mapping[str, Any] | None,
    support: np.ndarray,
    labels: np.ndarray,
    unlabeled: Rows,
    corrected: np.ndarray | None = None,
    rate: float | None = None,
) -> Classifier:
    """The classifier with the temperature and the threshold of its own task.

    calibration: of the network's card; one of version 0.1.0 holds a threshold at RATE only. The other arguments as in
    `statistics`; rate as in `checked_rate`.
    """
    task = None if calibration is None or classifier.threshold is None else calibration.get("task")
    if task is not None:
        unlabeled = classifier.powered(unlabeled)  # once for all that follows
        around = {key: task.get(key, 0) for key in ("nearest", "shift", "contrast", "even")}  # older cards lack some
        classifier = surrounded(classifier, labels, unlabeled, corrected, **around)
        seen = statistics(classifier, support, labels, unlabeled, corrected)
        log_p = classifier.log_probability(unlabeled) * classifier.temperature
        temperature = temperature_of(task, classifier.temperature, seen, log_p)
        threshold = NEVER if rate == 0 else threshold_of(task, seen, rate or RATE)
        return replace(classifier, temperature=temperature, threshold=threshold)
    if rate and (classifier.threshold is None or rate != RATE):
        why = "has a calibration of an older version"
        if classifier.threshold is None:
            why = "is not calibrated" + (" for this method and its settings" if calibration else "")
        raise UserError(
            f"--unknown {rate} needs a calibrated network and this one {why}: run protoadapt calibrate, or leave out "
            f"--unknown"
        )
    return replace(classifier, threshold=NEVER) if rate == 0 and classifier.threshold is not None else classifier
