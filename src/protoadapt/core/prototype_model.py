"""How a row of features is compared with prototypes: power transform, centre, unit length, logits, the best classes.

Written once for numpy and torch, with the names that both have: torch where classifiers are fitted, in episodes, on
GPUs and in exported graphs; numpy where a fitted classifier only answers, as loading torch takes longer than that. So
this module does not import torch.

Axes: W classes, D dimensions, n rows.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError

Array = Any
"""A numpy array or a torch tensor."""
TINY = 1e-12
ROUNDING = 1e-6
"""A centred row no longer than this share of its length before centring is *at the centre*: what is left is rounding,
not a direction, and becomes zero. Where lengths come from inner products instead of differences (`methods.twin`), their
squares are rounded too, and in float32 the share is 2e-3."""
OFFSET = 1e-6
"""What the power transform adds to features of at least 0."""
HAS_NAME, STRAY = -1, -2
"""In place of the number of a group: a row of a class with a name, and one of no class."""
BLOCK_NUMBERS = 2**21
"""Numbers in a block of rows and its class probabilities together: 8 MB in float32."""


def library(x: Array) -> Any:
    """The module numpy or torch, whichever x is of."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def as_numpy(x: Array) -> np.ndarray:
    """The same numbers as a numpy array."""
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def like(x: Array, other: Array) -> Array:
    """x with the type and on the device of `other`."""
    return x.astype(other.dtype, copy=False) if isinstance(x, np.ndarray) else x.to(other)


def _may_branch(x: Array) -> bool:
    """Whether values may decide what is computed: not in a graph that is being exported."""
    return isinstance(x, np.ndarray) or not sys.modules["torch"].compiler.is_exporting()


def unit(x: Array) -> Array:
    """x/‖x‖ along the last axis, whatever the scale of x; a zero row stays zero."""
    xp = library(x)
    length = xp.linalg.vector_norm(x, axis=-1, keepdims=True)
    # The squares of tiny entries may be zero: scale them up first.
    if _may_branch(x) and bool((length < TINY).any()):
        largest = xp.clip(xp.amax(xp.abs(x), axis=-1, keepdims=True), xp.finfo(x.dtype).tiny, None)
        x = xp.where(length < TINY, x / largest, x)
        length = xp.linalg.vector_norm(x, axis=-1, keepdims=True)
    return x / xp.clip(length, TINY, None)


def power_transform(rows: Array, beta: float, power: str) -> Array:
    """Each entry of rows (n, D) raised to the power β, then rows of unit length.

    "strict" takes (x + 1e-6)^β and refuses negative features; "auto" takes −|x|^β for those; "off" returns the rows
    unchanged.
    """
    if power == "off":
        return rows
    xp = library(rows)
    if _may_branch(rows):  # an exported graph takes the general form
        if 0 in rows.shape or (lowest := rows.min()) >= 0:
            raised = rows + OFFSET
            raised **= beta  # in place: another table in memory takes longer than its arithmetic
            return unit(raised)
        if power == "strict":
            raise UserError(
                f"the power transform needs non-negative features but the lowest is {float(lowest):.3g}: use features "
                f"after a ReLU, or set power=auto"
            )
    return unit(xp.where(rows < 0, -(xp.abs(rows) ** beta), (xp.clip(rows, 0, None) + OFFSET) ** beta))


def about(rows: Array, center: Array, l2: bool) -> tuple[Array, Array]:
    """u = rows − center, of unit length if `l2`, and the factors (…, n, 1) with rows = factor·u + center.

    A row at the centre becomes zero.
    """
    xp = library(rows)
    centred = rows - like(center, rows)
    if not l2:
        return centred, xp.ones_like(centred[..., :1])
    length, floor = (xp.linalg.vector_norm(x, axis=-1, keepdims=True) for x in (centred, rows))
    return centred / xp.where(length > ROUNDING * floor, length, xp.inf), length


def prepared_rows(rows: Array, center: Array, l2: bool) -> Array:
    """rows − center, of unit length if `l2`; a row at the centre becomes zero."""
    return about(rows, center, l2)[0]


class Answers(NamedTuple):
    """The answers to n rows."""

    best: np.ndarray  # (n, 2): the two likeliest classes
    probability: np.ndarray  # (n, 2): their probabilities
    density: np.ndarray  # (n): log Σ_c exp l_c
    group: np.ndarray  # (n): HAS_NAME, STRAY or the number of its group from 0

    @property
    def unknown(self) -> np.ndarray:
        """(n): whether it may belong to none of the classes."""
        return self.group != HAS_NAME

    def at(self, places: Any) -> "Answers":
        """The answers to some of the rows."""
        return Answers(*(part[places] for part in self))

    @classmethod
    def joined(cls, blocks: Iterable["Answers"]) -> "Answers":
        """The answers to the rows of all blocks, of which there is one at least."""
        return cls(*map(np.concatenate, zip(*blocks)))


@dataclass(frozen=True)
class PrototypeModel:
    """What answers a power-transformed row x: u = x − center, of unit length if `l2`, then softmax over the classes of
    scale·cos(u, p_c) + bias_c (similarity "cosine") or −scale·‖u − p_c‖² + bias_c ("euclid").

    Of a batch of episodes all tensors have the axis of the episodes first, and `center` (E, 1, D).
    """

    center: Array  # (D)
    prototypes: Array  # (W, D)
    bias: Array  # (W)
    similarity: str
    scale: float
    l2: bool

    def prepare(self, x: Array) -> Array:
        """u of rows x (n, D)."""
        return prepared_rows(x, self.center, self.l2)

    def scores(self, u: Array) -> Array:
        """(W, n): the logits of prepared rows u (n, D)."""
        xp = library(u)
        p = like(self.prototypes, u)
        bias = like(self.bias, u)[..., None]
        if self.similarity == "cosine":
            return self.scale * (unit(p) @ (u if self.l2 else unit(u)).mT) + bias
        # −λ‖u − p‖² without λ‖u‖², which is the same for every class
        return self.scale * (2 * p @ u.mT - xp.square(p).sum(-1)[..., None]) + bias


def slack(scores: Array) -> Array:
    """(…, 1): scores that differ by less tie; 6e-6 in float32 and 2e-12 in float64, relative to the largest finite
    score of a row or to 1."""
    xp = library(scores)
    size = xp.amax(xp.where(xp.isinf(scores), 0, xp.abs(scores)), axis=-1, keepdims=True)
    return xp.finfo(scores.dtype).eps ** 0.75 * xp.clip(size, 1, None)


def two_best(scores: Array) -> tuple[Array, Array]:
    """The two likeliest classes of each row of logits (n, W), best first, and their probabilities: (n, 2), or (n, 1)
    where there is one class.

    Of classes that tie to within rounding the first is taken, so that a row's label does not depend on its block.
    """
    xp = library(scores)
    n, way = scores.shape
    rows, classes = (xp.arange(count, device=scores.device) for count in (n, way))
    best, rest = [], scores
    for _ in range(min(2, way)):
        tied = rest >= xp.amax(rest, axis=1, keepdims=True) - slack(rest)
        best.append(xp.argmax(xp.where(tied, 1, 0), axis=1, keepdims=True))
        rest = xp.where(classes == best[-1], -xp.inf, rest)
    chosen = xp.concat(best, axis=1)
    return chosen, softmax(scores)[rows[:, None], chosen]


def decide(logits: Array, n_classes: int, temperature: float, threshold: float) -> Answers:
    """The answers to rows by their logits (n, C); the columns after the classes are groups.

    Probabilities say which class a row is of if it is of one; whether it is, `group` says. Rows whose density is below
    the threshold are strays, but for those of a group.
    """
    xp, density = library(logits), log_density(logits)
    best, probability = two_best(logits[:, :n_classes] / temperature)
    group = xp.clip(xp.argmax(logits, axis=1) - n_classes, HAS_NAME, None)
    group = xp.where((group == HAS_NAME) & (density < threshold), STRAY, group)
    return Answers(*map(as_numpy, (best, probability, density, group)))


def log_density(logits: Array) -> Array:
    """(n): log Σ_c exp l_c of logits (n, W), how near a row is to any class (`methods.unnamed`)."""
    xp, most = library(logits), library(logits).amax(logits, axis=1)
    return most + xp.log(xp.exp(logits - most[:, None]).sum(1))


def softmax(scores: Array) -> Array:
    """exp(scores) scaled so that rows (n, W) sum to 1."""
    if not isinstance(scores, np.ndarray):
        return scores.softmax(1)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def block_size(n_way: int, dim: int) -> int:
    """How many rows make a block."""
    return max(256, BLOCK_NUMBERS // (n_way + dim))
