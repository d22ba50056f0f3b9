"""The loop that CIPA, SemiPN, soft k-means and PT+MAP share: unlabelled rows pull the class prototypes.

With class sums s_c of K_c support rows, unlabelled rows u_j and soft assignments z_cj, one step is

    p̃_c = (s_c + Σ_j z_cj u_j) / (K_c + Σ_j z_cj),    p_c ← σ p̃_c + (1 − σ) p_c .

The papers differ in how rows are prepared and in z (`ASSIGN`). Prototypes never leave the span of the
episode's rows, so after one Gram matrix no D-dimensional work is left ("Gram form"): a prototype is kept as
p = a·s + Σ_j A_j u_j together with V = p·u and t = p·s. A step changes all four by the same rule, and
‖p‖² = a·t + Σ_j A_j V_j. With n_c = K_c + Σ_j z_cj, B = s·u and G = u·u:

    a ← (1−σ)a + σ/n        A ← (1−σ)A + σz/n
    V ← (1−σ)V + σ(B + zG)/n      t ← (1−σ)t + σ(‖s‖² + z·B)/n .

Three forms give the same answers (a law in the tests): `prototype_path` in feature space, the one to read and to plot,
also for large episodes; the Gram form over batched episodes, `gram_form` in torch for any device and its compiled twin
in `native` for the CPU; and `row_learner`, one task with any number of rows.
Axes: E episodes, W classes, S support rows, U unlabelled rows (the queries, unless there are others), Q, D.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.methods.common import TINY, shares, transport_plan
from protoadapt.core.methods.normalize import prepared_rows

SMALL = 256
"""Up to this many rows, or the rows' dimension if that is more, the Gram matrix is the cheaper form."""


@dataclass(frozen=True)
class Adaptation:
    """One member of the family: preparation, assignment and steps. Settings are checked by the methods."""

    rule: str  # a key of ASSIGN
    scale: float  # τ, or the factor of the squared distance
    n_iter: int
    sigma: float = 1.0
    center: str = "none"  # which mean is subtracted: each set's own, that of all rows, the support's
    l2: bool = False  # unit length after centring
    query_center: str = "none"  # semi-supervised only: "unlabeled" centres the queries by the unlabelled mean
    class_prior: Sequence[float] | Tensor | str | None = None  # (W), Sinkhorn's column shares; None: equal


def large(episodes: Episodes) -> bool:
    """Whether the unlabelled rows are too many for a Gram matrix."""
    return adapting_index(episodes).shape[1] > max(episodes.rows.shape[1], SMALL)


def adapting_index(episodes: Episodes) -> Tensor:
    """(E, U): the rows that prototypes adapt to: the queries, unless there are unlabelled rows beside them."""
    return episodes.query_index if episodes.unlabeled_index is None else episodes.unlabeled_index


def adapt(episodes: Episodes, how: Adaptation) -> Tensor:
    """(E, Q, W): the queries' class probabilities at the adapted prototypes."""
    from protoadapt.core.methods import native  # here: numba is slow to load, and `predict` needs no loop

    if episodes.unlabeled_index is not None and how.rule == "sinkhorn":
        raise UserError("PT+MAP transports the queries themselves and has no semi-supervised form: use cipa or bapa")
    if how.rule == "cosine" and not how.l2:
        episodes = episodes.each_row(_rescaled)
    check_contrast(
        float(episodes.each_row(_lengths).rows.max()) if _raw_distances(how) else 0.0, how, episodes.rows.dtype
    )
    if large(episodes):
        *_, prototypes = prototype_path(episodes, how)
        answer = _assign(_prepared_queries(episodes, how), prototypes, how)
    elif native.usable(episodes.rows):
        return native.adapt(episodes, how)
    else:
        answer = gram_form(episodes, how)
    return answer / answer.sum(-1, keepdim=True).clamp_min(TINY)  # a transport plan's rows sum to 1 only nearly


def prototype_path(episodes: Episodes, how: Adaptation) -> Iterator[Tensor]:
    """The n_iter + 1 positions (E, W, D) of the prototypes, in feature space."""
    support, unlabeled = prepare(episodes, how)
    membership = episodes.membership
    shots, sums = membership.sum(1)[..., None], membership.mT @ support
    prototypes = sums / shots.clamp_min(TINY)
    yield prototypes
    for _ in range(how.n_iter):
        z = _assign(unlabeled, prototypes, how).mT  # (E, W, U)
        estimate = (sums + z @ unlabeled) / (shots + z.sum(-1, keepdim=True)).clamp_min(TINY)
        prototypes = how.sigma * estimate + (1 - how.sigma) * prototypes
        yield prototypes


def _raw_distances(how: Adaptation) -> bool:
    return how.rule == "euclid" and not how.l2


def check_contrast(longest: float, how: Adaptation, dtype: torch.dtype) -> None:
    """Raises UserError where rows of at most this length are too short for their squared distances to tell classes
    apart: the probabilities would differ by rounding errors alone. A small τ is the user's own choice."""
    if _raw_distances(how) and 0 < 4 * max(how.scale, 1) * longest**2 < 1e4 * torch.finfo(dtype).eps:
        raise UserError(
            f"the features are at most {longest:.3g} long, so their squared distances times tau = {how.scale:g} are no "
            f"more than rounding errors: scale the features up, raise tau, or set metric=cosine"
        )


def _lengths(rows: Tensor) -> Tensor:
    return rows.norm(dim=1)


def _rescaled(rows: Tensor) -> Tensor:
    """Rows times the power of two that brings the largest entry near 1. Cosines do not depend on it, but the products
    of very small or large rows leave the range of floats."""
    largest = float(rows.abs().max()) if rows.numel() else 1.0
    if largest == 0 or 1e-3 < largest < 1e3:
        return rows
    return rows * 2.0 ** -max(-120, min(120, round(math.log2(largest))))


def prepare(episodes: Episodes, how: Adaptation) -> tuple[Tensor, Tensor]:
    """Support and unlabelled rows, centred and brought to unit length as asked."""
    support, unlabeled = episodes.support, episodes.rows[adapting_index(episodes)]
    support_mean, unlabeled_mean = _means(support, unlabeled, how.center)
    return prepared_rows(support, support_mean, how.l2), prepared_rows(unlabeled, unlabeled_mean, how.l2)


def _prepared_queries(episodes: Episodes, how: Adaptation) -> Tensor:
    """Queries as they are predicted. Beside unlabelled rows they never see their own mean (inductive)."""
    if episodes.unlabeled is None:
        return prepare(episodes, how)[1]
    center = how.center if how.query_center == "unlabeled" else "none"
    return prepared_rows(episodes.query, _means(episodes.support, episodes.unlabeled, center)[1], how.l2)


def _means(support: Tensor, unlabeled: Tensor, center: str) -> tuple[Tensor, Tensor]:
    """What is taken off the support and off the unlabelled rows, each (E, 1, D)."""
    if center == "none":
        zero = torch.zeros_like(support[:, :1])
        return zero, zero
    if center == "joint":
        joint = torch.cat([support, unlabeled], 1).mean(1, keepdim=True)
        return joint, joint
    mean = support.mean(1, keepdim=True)
    return mean, mean if center == "support" else unlabeled.mean(1, keepdim=True)


def gram_form(episodes: Episodes, how: Adaptation) -> Tensor:
    support, u = prepare(episodes, how)
    membership = episodes.membership
    shots, s = membership.sum(1)[..., None], membership.mT @ support  # (E, W, 1), (E, W, D)
    B, G, s2 = s @ u.mT, u @ u.mT, s.square().sum(-1, keepdim=True)  # (E, W, U), (E, U, U), (E, W, 1)
    u2 = G.diagonal(dim1=1, dim2=2)
    keep, a = 1 - how.sigma, 1 / shots.clamp_min(TINY)
    A, V, t = torch.zeros_like(B), a * B, a * s2
    for _ in range(how.n_iter):
        z = ASSIGN[how.rule](V, _squared_norm(a, A, V, t), u2, how)
        rate = how.sigma / (shots + z.sum(-1, keepdim=True)).clamp_min(TINY)
        a, A = keep * a + rate, keep * A + rate * z
        V, t = keep * V + rate * (B + z @ G), keep * t + rate * (s2 + (z * B).sum(-1, keepdim=True))
    p2 = _squared_norm(a, A, V, t)
    if episodes.unlabeled_index is None:
        return ASSIGN[how.rule](V, p2, u2, how).mT
    q = _prepared_queries(episodes, how)
    return ASSIGN[how.rule](a * (s @ q.mT) + A @ (u @ q.mT), p2, q.square().sum(-1), how).mT


def _squared_norm(a: Tensor, A: Tensor, V: Tensor, t: Tensor) -> Tensor:
    return (a * t + (A * V).sum(-1, keepdim=True)).clamp_min(0)


def _assign(rows: Tensor, prototypes: Tensor, how: Adaptation) -> Tensor:
    p2 = prototypes.square().sum(-1, keepdim=True)
    return ASSIGN[how.rule](prototypes @ rows.mT, p2, rows.square().sum(-1), how).mT


# Assignments z (E, W, U) from V = p·u (E, W, U), ‖p‖² (E, W, 1) and ‖u‖² (E, U).


def cosine(V: Tensor, p2: Tensor, u2: Tensor, how: Adaptation) -> Tensor:
    return (how.scale * V / (p2.sqrt() * u2.sqrt()[:, None]).clamp_min(TINY)).softmax(1)


def euclid(V: Tensor, p2: Tensor, u2: Tensor, how: Adaptation) -> Tensor:
    return (how.scale * (2 * V - p2)).softmax(1)  # ‖u‖² is the same for every class


def sinkhorn(V: Tensor, p2: Tensor, u2: Tensor, how: Adaptation) -> Tensor:
    """The transport plan of exp(−λ‖u−p‖²) whose rows sum to 1 and columns to the class sizes."""
    n_way, n_rows = V.shape[1:]
    kernel = torch.exp(-how.scale * (u2[:, None] - 2 * V + p2).clamp_min(0))
    kernel = kernel / kernel.sum((1, 2), keepdim=True).clamp_min(TINY)
    return transport_plan(kernel, shares(how.class_prior, n_way, V)[:, None] * n_rows)


ASSIGN = {"cosine": cosine, "euclid": euclid, "sinkhorn": sinkhorn}
