"""`suggest`, what to label next: the pictures whose labels would teach the most, in order, each with a reason.

Without any label, the most typical picture of each cluster (TypiClust: Hacohen, Dekel, Weinshall, Active Learning on a
Budget, 2022): with few labels, typical pictures teach more than unusual ones. Clusters are the groups that the pictures
fall into by themselves (`core.methods.unnamed`), the large ones divided by k-means, where more pictures are asked for.

With labels, k-means splits all other pictures into as many clusters as are asked for, each picture with the weight
(1 − margin)³, its margin being the difference of its two largest probabilities, and the picture nearest to each centre
is suggested: pictures in doubt, where these are many, and no two alike. Groups without a name count as classes there,
so that a group is not suggested picture by picture, and pictures that resemble none of the classes count nothing
(`benchmarks/trust.py` has the comparison).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from protoadapt.core.errors import count
from protoadapt.core.methods.common import unit
from protoadapt.core.methods.unnamed import kmeans
from protoadapt.core.prototype_model import as_numpy, power_transform, softmax
from protoadapt.labeling.classifier import Classifier
from protoadapt.labeling.outputs import UNLABELED

POOL = 4000
"""Unlabelled pictures that are considered, at most; a sample of more."""
_NEIGHBOURS = 20
"""Nearest pictures of the same cluster that typicality is measured by, as in the paper."""
_SHARPNESS = 3
"""Power of 1 − margin."""
_SURE = 0.99
"""Pictures of a larger margin are not suggested."""


class Suggestion(NamedTuple):
    """A picture to label."""

    row: int
    stands_for: int  # pictures of its cluster, itself included


def suggest(
    rows: np.ndarray,
    codes: np.ndarray,
    n: int,
    *,
    margin: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> list[Suggestion]:
    """The n pictures to label next, the most useful first; fewer if there is little left to learn.

    Parameters
    ----------
    rows : (N, D) features, centred and of unit length.
    codes : (N) integers, negative for unlabelled rows.
    n : number of pictures.
    margin : (N) difference of a classifier's two largest probabilities; None before there is a classifier.
    groups : (N) of `unnamed.first_groups`, before there is a classifier; None: k-means divides the rows.

    Returns
    -------
    list of Suggestion
        Unlabelled rows, none twice. Pictures that are certain (margin above 0.99) are left out.

    Examples
    --------
    >>> rows = np.array([[1, 0], [0.8, 0.6], [0, 1.0]])
    >>> suggest(rows, np.array([0, -1, -1]), 1, margin=np.array([1, 0.9, 0.1]))[0].row
    2
    """
    rng = np.random.default_rng(0)  # of the sample, where there are more than POOL rows
    pool = np.flatnonzero((codes < 0) if margin is None else (codes < 0) & (margin <= _SURE))
    if len(pool) > POOL:
        pool = np.sort(rng.choice(pool, POOL, replace=False))
    if min(n, len(pool)) < 1:
        return []
    u = torch.from_numpy(rows[pool]).float()
    weight = None if margin is None else torch.from_numpy((1 - margin[pool]) ** _SHARPNESS)
    clusters, centers = kmeans(u, n, weight) if groups is None else _divided(u, torch.from_numpy(groups[pool]), n)
    total = clusters.bincount(weight, minlength=len(centers))
    found = []
    for cluster in total.argsort(descending=True, stable=True).tolist():
        members = (clusters == cluster).nonzero()[:, 0]
        if len(members):
            own = u[members]
            far = _untypical(own) if weight is None else (own - centers[cluster]).norm(dim=1)
            found.append(Suggestion(int(pool[members[far.argmin()]]), len(members)))
    return found[:n]


def _divided(u: torch.Tensor, groups: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Clusters of rows u (N, D) and their centres, as `kmeans` returns them: the groups, of which rows in none are one,
    divided until there are n, the one of the largest parts first."""
    _, groups, sizes = groups.unique(return_inverse=True, return_counts=True)
    parts = torch.ones_like(sizes)
    while parts.sum() < n:
        parts[(sizes / parts).argmax()] += 1
    clusters, centers = torch.empty_like(groups, dtype=torch.int32), u[:0]
    for group, n_parts in enumerate(parts.tolist()):
        members = groups == group
        own, of_own = kmeans(u[members], n_parts)
        clusters[members] = own + len(centers)
        centers = torch.cat([centers, of_own])
    return clusters, centers


def _untypical(u: torch.Tensor) -> torch.Tensor:
    """TypiClust: of the rows of a cluster (m, D) the summed distance to their nearest ones, at most 20."""
    k = min(_NEIGHBOURS, len(u) - 1)
    return torch.cdist(u, u).topk(k + 1, largest=False).values.sum(1)  # one of them is the row itself


def centred(rows: np.ndarray) -> np.ndarray:
    """(N, D): features as they come from a network, about their mean and of unit length, as for `suggest` while fewer
    than two classes have an example, and so no classifier prepares the rows."""
    flat = power_transform(torch.from_numpy(rows).float(), 0.5, "auto")
    return unit(flat - flat.mean(0)).numpy()


def next_pictures(
    classifier: Classifier, support: np.ndarray, features: np.ndarray, records: Sequence[Mapping[str, Any]], n: int
) -> list[dict[str, Any]]:
    """What labels.json holds as `next`: the n pictures to label next, in order.

    Parameters
    ----------
    classifier : fitted on the support.
    support, features : (S, D) labelled and (m, D) other rows.
    records : m records of the latter, as in `pictures` of labels.json. Those that a person called unknown are left out.
    n : number of pictures.

    Returns
    -------
    list of dict
        `file`, `label` and `runner_up`, the two likeliest classes or groups, `stands_for` (see `Suggestion`), and
        `reason`, a few words for people.
    """
    asked = np.array([place for place, record in enumerate(records) if not record.get("no_class")], int)
    rows = np.concatenate([support, features[asked]]).astype(np.float32)
    codes = np.repeat([0, UNLABELED], [len(support), len(asked)])
    logits = as_numpy(classifier.logits(features[asked]))
    second, first = np.sort(softmax(logits / classifier.temperature), 1)[:, -2:].T
    named = logits.argmax(1) < len(classifier.classes)
    strays = named & np.array([records[place]["unknown"] for place in asked], bool)
    margin = np.concatenate([np.ones(len(support)), np.where(strays, 1, first - second)])
    found = suggest(centred(rows), codes, n, margin=margin)
    names, best = classifier.classes + classifier.groups, np.argsort(-logits, 1, kind="stable")[:, :2]
    likely = [[names[place] for place in best[one.row - len(support)]] for one in found]
    return [next_record(one, records[asked[one.row - len(support)]]["file"], two) for one, two in zip(found, likely)]


def next_record(suggestion: Suggestion, file: str, likely: Sequence[str] = ()) -> dict[str, Any]:
    """One entry of `next`. likely: the two likeliest classes of an uncertain picture."""
    others = suggestion.stands_for - 1
    why = " or ".join(likely) or "typical of its group"
    like = f"; {count(others, 'similar picture')} without a label" if others else ""
    record = {"file": file, "stands_for": suggestion.stands_for, "reason": why + like}
    return record | dict(zip(("label", "runner_up"), likely))
