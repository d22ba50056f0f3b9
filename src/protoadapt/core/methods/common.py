"""What several methods share: means, distances, transport, preparation of rows, choices among rows that tie.

Axes as in `episodes`: E, W, S, Q, D; N rows of an episode.
"""

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.settings import Shares
from protoadapt.core.prototype_model import TINY as TINY
from protoadapt.core.prototype_model import power_transform, prepared_rows, slack
from protoadapt.core.prototype_model import unit as unit


def class_means(rows: Tensor, membership: Tensor) -> Tensor:
    """(E, W, D): mean of each class's rows (E, S, D), weighted by membership (E, S, W)."""
    return membership.transpose(1, 2) @ rows / membership.sum(1)[..., None].clamp_min(TINY)


def sq_distances(x: Tensor, y: Tensor) -> Tensor:
    """(E, X, Y) squared Euclidean distances between x (E, X, D) and y (E, Y, D), never negative."""
    cross = x @ y.transpose(1, 2)
    return (x.square().sum(-1)[:, :, None] - 2 * cross + y.square().sum(-1)[:, None, :]).clamp_min(0)


def transductive_only(episodes: Episodes, name: str) -> None:
    """Refuses unlabelled rows, for methods whose paper learns from the queries themselves."""
    if episodes.unlabeled_index is not None:
        raise UserError(
            f"{name} learns from the queries and has no semi-supervised form, but the episodes have unlabelled rows: "
            f"use cipa, bapa or semi_protonet, or leave the unlabelled rows out"
        )


def shares(class_prior: Shares, n_way: int, like: Tensor) -> Tensor:
    """(W): class_prior scaled to sum 1; equal shares where it is None or "equal"."""
    equal = class_prior is None or isinstance(class_prior, str)
    prior = like.new_ones(n_way) if equal else torch.as_tensor(class_prior, dtype=like.dtype, device=like.device)
    if prior.shape != (n_way,) or not bool((prior > 0).all()):
        raise UserError(f"class_prior is {prior.tolist()}: it must be {n_way} positive shares, one per class")
    return prior / prior.sum()


def powered(episodes: Episodes, beta: float, power: str) -> Episodes:
    """The same episodes over the power-transformed table.

    The power transform is Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-based Few-Shot Learning
    (ICANN 2021). It works row by row, so it is applied once to the whole table of features.
    """
    return episodes.each_row(power_transform, beta=beta, power=power)


def of_base(episodes: Episodes, field: str, name: str) -> Tensor:
    """The base classes' "mean" or "covariance". Raises UserError where it is missing."""
    found = getattr(episodes, f"base_{field}")
    if found is None:
        raise UserError(
            f"{name} needs the {field} of the base classes' features, which is missing: give it with --base FILE (for "
            f"your own pictures, features of other pictures by the same network; in Python base_{field}), or leave "
            f"{name} out"
        )
    return found


def cl2n(episodes: Episodes, name: str) -> Episodes:
    """Rows centred by the mean of the BASE features, then of unit length (SimpleShot's CL2N)."""
    return episodes.each_row(prepared_rows, center=of_base(episodes, "mean", name), l2=True)


# ------------------------------------------------------------------------------------------ choices that may tie
# Duplicate and all-zero rows tie exactly on paper and to within rounding on a machine, so scores count as tied when
# they differ by less than a slack well above rounding and well below any real difference. What ties shares, or is
# taken together: no choice depends on the order of rows or classes.


def tied_argmax(scores: Tensor) -> Tensor:
    """Rows (…, W) that sum to 1: the best class, or equal shares of those that tie."""
    best = (scores >= scores.amax(-1, keepdim=True) - slack(scores)).to(scores.dtype)
    return best / best.sum(-1, keepdim=True)


def neighbours(distance: Tensor, k: int) -> Tensor:
    """(E, N, N): row i has 1 at its k nearest other rows; rows tied at the k-th place share what is left of k."""
    itself = torch.eye(distance.shape[1], dtype=torch.bool, device=distance.device)
    k = min(k, distance.shape[1] - 1)
    if k < 1:
        return torch.zeros_like(distance)
    distance = distance.masked_fill(itself, torch.inf)
    last = distance.topk(k, largest=False).values[..., -1:]
    width = slack(last)
    nearer = (distance < last - width).to(distance.dtype)
    tied = ((distance - last).abs() <= width).to(distance.dtype)
    return nearer + tied * (k - nearer.sum(-1, keepdim=True)) / tied.sum(-1, keepdim=True)
