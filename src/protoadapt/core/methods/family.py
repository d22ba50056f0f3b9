"""The prototype family: ProtoNet, SemiPN, soft k-means, CIPA, BAPA and PT+MAP are one loop and differ by a `Rule`.

Every class c has a prototype p_c, which starts at the mean of its K_c labelled rows. Unlabelled rows x are calibrated
to u = x − μ, of unit length if the rule says so. A step assigns them softly to the classes and moves the prototypes:

    z = softmax_c(similarity(u, p_c) + ℓ_c),   n_c = Σ z_c
    p_c ← (1 − σ) p_c + σ (S_c + Σ z_c u) / (K_c + k + n_c)          S_c: the sum of the class's labelled rows
    ℓ, μ ← as the rule says, from n_c and Σ z_c x

and the answer is z once more. CIPA is just this; what BAPA and PT+MAP add to it stands in their files. `learn` is that
loop, over rows held in any way (`rows`); `adapt` runs it on episodes, for which `twin` is the same loop compiled for
the CPU.

Axes: E episodes or none, W classes, n rows of a block, D. What belongs to rows has the classes first: (…, W, n).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, shares
from protoadapt.core.methods.rows import Holder, kept
from protoadapt.core.methods.settings import Shares
from protoadapt.core.prototype_model import PrototypeModel, like

SINKHORN_ROUNDS = 1000
SINKHORN_STOP = 1e-6
CONCENTRATIONS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""A: the concentrations of the Dirichlet that class shares are drawn from, each as likely before rows are seen."""
SUPPORT_WEIGHT = 4.0
"""o: what a labelled row counts in a moving centre, in unlabelled rows."""


Labelled = tuple[Tensor, Tensor]
"""Rows x (…, n, D) and their classes y (…, W, n), one-hot."""
Calibrated = tuple[Tensor, Tensor]
"""u (…, n, D) and the factors (…, n, 1) with x = factor·u + μ."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The choices of one method. Settings are checked by the methods (`settings`)."""

    similarity: str  # "cosine": τ·cos(u, p); "euclid": λ(2u·p − ‖p‖²), which is −λ‖u − p‖² but for what classes share
    scale: float  # τ or λ
    n_iter: int
    sigma: float = 1.0  # σ, the step
    # μ: 0 ("none"); each set's own mean ("separate"), that of all rows ("joint") or the support's; or that of the class
    # means, renewed in each step ("classes"), where labelled rows that their class does not claim draw it and push
    # others off (R)
    center: str = "none"
    l2: bool = False  # calibrated rows have unit length
    # Semi-supervised only: "unlabeled" calibrates the queries about μ, else about 0; about "classes" in any case.
    query_center: str = "none"
    # ℓ: 0; of class sizes that are "estimated", beside a class without a name at the centre, with the mass r; of sizes
    # that are "given", by a round of Sinkhorn's iteration per step; or by all its rounds, from ℓ = 0: the "transport",
    # about a μ that stays
    sizes: str = "none"
    class_prior: Shares = None  # the given shares; None: equal
    kappa: float = 0.0  # κ: k = κ r rows at the centre hold each prototype, r = mean_c K_c^(−½)

    @property
    def queries_are_centred(self) -> bool:
        """Whether queries beside unlabelled rows are calibrated about μ."""
        return self.query_center == "unlabeled" or self.center == "classes"


def learn(
    rule: Rule, labelled: Labelled, rows: Holder, shots: Tensor, starts: Labelled | None = None
) -> Iterator[PrototypeModel]:
    """The n_iter + 1 models before, between and after the steps; the last one answers.

    rows: blocks of unlabelled rows; shots (…, W, 1): K; starts: rows that only the first prototypes take for labelled
    (`unnamed`). Sums are kept in the type of `shots`.
    """
    x, y = labelled
    no_rows = torch.zeros_like(shots)  # n of none, (…, W, 1)
    no_sum = shots.new_zeros(*shots.shape[:-1], x.shape[-1])  # their sum, (…, W, D)
    known = (shots > 0).to(shots)  # means over the classes are of those that have labelled rows
    r = (known * shots.clamp_min(1).rsqrt()).sum(-2, keepdim=True) / known.sum(-2, keepdim=True)
    labelled_mass = shots + rule.kappa * r  # K + k
    nameless_mass = r if rule.sizes == "estimated" else torch.zeros_like(r)  # mass of the class without a name
    prior = shares(rule.class_prior, shots.shape[-2], shots)[:, None]  # π
    moves = rule.center == "classes"
    class_sums = no_sum + y @ x  # S°

    def mean_of_classes(n: Tensor, total: Tensor) -> Tensor:
        """A centre that does not follow the classes' sizes; total: Σ z x."""
        means = (SUPPORT_WEIGHT * class_sums + total) / (SUPPORT_WEIGHT * shots + n).clamp_min(TINY)
        return (known * means).sum(-2, keepdim=True) / known.sum(-2, keepdim=True)

    centers = (mean_of_classes(no_rows, no_sum),) * 2 if moves else _fixed_centers(rule.center, class_sums, shots, rows)
    model = PrototypeModel(centers[0], no_sum, no_rows[..., 0], rule.similarity, rule.scale, rule.l2)
    own = no_sum + y @ model.prepare(x)  # S
    begun, begun_mass = own, labelled_mass
    if starts:
        begun = own + starts[1] @ model.prepare(starts[0])
        begun_mass = labelled_mass + starts[1].sum(-1, keepdim=True)
    model = replace(model, center=centers[1], prototypes=begun / begun_mass.clamp_min(TINY))
    for step in range(rule.n_iter + 1):
        if moves or step == 0:
            calibrated = rows.about(model.center, rule.l2)
            calibrated = calibrated if moves else kept(calibrated)
        if rule.sizes == "transport":
            model = transported(model, calibrated, prior)
        yield model
        if step == rule.n_iter:
            return
        one_pass = partial(_one_pass, model=model, nameless_mass=nameless_mass, moves=moves)
        start = (no_rows, no_sum, no_sum if moves else no_rows)  # without the third sum where the centre stays
        n, pull, offset = calibrated.sums(one_pass, start)
        if rule.sizes == "transport":  # whose last round ends with the columns: a plan has the sizes given
            scale = n.sum(-2, keepdim=True) * prior / n.clamp_min(TINY)
            n, pull = scale * n, scale * pull
        if moves:
            own = no_sum + _with_pull(x, y, model)  # S + R
        estimate = (own + pull) / (labelled_mass + n).clamp_min(TINY)
        prototypes = (1 - rule.sigma) * model.prototypes + rule.sigma * estimate
        center = mean_of_classes(n, offset + n * model.center) if moves else model.center
        bias = model.bias
        if rule.sizes in ("given", "estimated"):
            bias, nameless_mass = next_bias(rule.sizes == "given", n, bias, prior, r)
        model = replace(model, center=center, prototypes=prototypes, bias=bias)


def _one_pass(block: Calibrated, model: PrototypeModel, nameless_mass: Tensor, moves: bool) -> tuple[Tensor, ...]:
    """n, Σ z u and, where the centre moves, Σ z (x − μ), of a block."""
    u, factor = block
    z = assigned(model.scores(u), nameless_mass)
    n = z.sum(-1, keepdim=True)
    return n, z @ u, (z * like(factor, z).mT) @ u if moves else torch.zeros_like(n)


def assigned(logits: Tensor, nameless_mass: Tensor) -> Tensor:
    """z = exp l_c / (r + Σ exp l) (…, W, n): softmax, but for the rows that belong to the class without a name."""
    return logits.softmax(-2) * (logits.logsumexp(-2, keepdim=True) - nameless_mass.to(logits).log()).sigmoid()


def _with_pull(x: Tensor, y: Tensor, model: PrototypeModel) -> Tensor:
    """S + R (…, W, D) of labelled rows, R = Σ (y − z) u: each row once more as far as its class does not claim it.
    Labelled rows say nothing of the class sizes, hence without ℓ."""
    u = model.prepare(x)
    z = replace(model, bias=torch.zeros_like(model.bias)).scores(u).softmax(-2)
    return (2 * y - z) @ u


def _fixed_centers(center: str, class_sums: Tensor, shots: Tensor, rows: Holder) -> tuple[Tensor, Tensor]:
    """What is taken off labelled rows and off the others, each (…, 1, D). Where there are no others, they are centred
    like the support."""
    total = class_sums.sum(-2, keepdim=True)
    count = shots.sum(-2, keepdim=True)
    if center == "none":
        return torch.zeros_like(total), torch.zeros_like(total)
    mean = total / count
    if center == "support":
        return mean, mean
    more, n = rows.sums(
        lambda x: (x.sum(-2, keepdim=True), torch.full_like(count, x.shape[-2])),
        (torch.zeros_like(total), torch.zeros_like(count)),
    )
    if center == "joint":
        return (total + more) / (count + n), (total + more) / (count + n)
    return mean, torch.where(n > 0, more / n.clamp_min(1), mean)


def transported(model: PrototypeModel, rows: Holder, prior: Tensor) -> PrototypeModel:
    """The model after Sinkhorn's iteration from ℓ = 0 to its end: softmax_c(l) is a transport plan then.

    Each episode stops by itself, when no row sum of its plan moved by more than SINKHORN_STOP in a round. A round
    changes z by a factor per class, scaled per row to sum 1 again: so z is computed once, and the factors of the last
    three rounds say how the row sums moved.
    """
    model = replace(model, bias=torch.zeros_like(model.bias))
    z = kept(rows.each(lambda block: model.scores(block[0]).to(prior).softmax(-2)))
    size = torch.ones_like(model.bias)[..., None]
    grown, zeros = size.repeat_interleave(3, -1), (0 * size, 0 * size[..., :1, :])
    running = torch.ones_like(zeros[1], dtype=torch.bool)
    for step in range(SINKHORN_ROUNDS):
        n, moved = z.sums(partial(_plan, grown=grown), zeros)
        running = running & ((moved > 0) | (step < 2))
        if step % 8 == 0 and not running.any():  # asking waits for the device; what has stopped stays as it is
            break
        change = torch.where(running & (n > 0), n.sum(-2, keepdim=True) * prior / n.clamp_min(TINY), 1)
        grown = torch.cat([grown[..., :1] * change, grown[..., :2]], -1)
    return replace(model, bias=grown[..., 0].log())


def _plan(z: Tensor, grown: Tensor) -> tuple[Tensor, Tensor]:
    """Of a block's z: n after it grew by the factors grown (…, W, 3), the last ones first, and how many row sums moved
    in the last round."""
    now, before, first = (grown.mT @ z).clamp_min(TINY**2).split(1, -2)
    moved = (now / before - before / first).abs() > SINKHORN_STOP
    return (grown[..., :1] * z / now).sum(-1, keepdim=True), moved.sum(-1, keepdim=True)


def next_bias(given: bool, n: Tensor, bias: Tensor, prior: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """ℓ (…, W) and the mass of the class without a name (…, 1, 1) after a step with sizes n (…, W, 1).

    Where sizes are given, or found equal, a round of Sinkhorn's iteration (Cuturi, 2013) adds log(N π_c / n_c), and
    every row is of a class; elsewhere they are estimated.
    """
    total = n.sum(-2, keepdim=True)
    nearer = bias + torch.where(total > 0, total * prior / n.clamp_min(TINY), 1).clamp_min(TINY).log()[..., 0]
    if given:
        return nearer, torch.zeros_like(r)
    equal = sizes_are_equal(n)
    return torch.where(equal[..., 0], nearer, log_shares(n)[..., 0]), torch.where(equal, 0, r)


def log_shares(n: Tensor) -> Tensor:
    """ℓ (…, W, 1) of estimated sizes: Σ_a P(a | n) (ψ(n_c + a) − ψ(n̄ + a)), the expected logarithm of a class's share
    beside that of a class of mean size, with the concentration a of the shares' Dirichlet averaged out over A.
    P(a | n) is proportional to the Dirichlet-multinomial probability of n."""
    a, evidence = size_evidence(n)
    mean = n.mean(-2, keepdim=True)
    return (evidence.softmax(0) * ((n + a).digamma() - (mean + a).digamma())).sum(0)


def size_evidence(n: Tensor) -> tuple[Tensor, Tensor]:
    """The concentrations a of A (5, …, 1, 1), and log DirichletMultinomial(n | a) (5, …, 1, 1) of sizes n (…, W, 1)."""
    a = n.new_tensor(CONCENTRATIONS).view(-1, *[1] * n.ndim)
    n_way = n.shape[-2]
    evidence = ((n + a).lgamma() - a.lgamma()).sum(-2, keepdim=True)
    return a, evidence + (n_way * a).lgamma() - (n.sum(-2, keepdim=True) + n_way * a).lgamma()


def sizes_are_equal(n: Tensor) -> Tensor:
    """(…, 1, 1): whether sizes n (…, W, 1), each of them a row off, differ no more than drawing rows makes equal
    classes differ."""
    mean = n.mean(-2, keepdim=True)
    return ((n - mean).square() + 1).sum(-2, keepdim=True) < (n.shape[-2] - 1) * mean


def adapt(episodes: Episodes, rule: Rule) -> Tensor:
    """(E, Q, W): the queries' class probabilities at the adapted prototypes."""
    from protoadapt.core.methods import twin  # slow to load, and to name pictures it takes no episodes

    return twin.adapt_compiled(episodes, rule) if twin.takes(episodes) else in_feature_space(episodes, rule)


def prototype_path(episodes: Episodes, rule: Rule) -> Iterator[PrototypeModel]:
    """`learn` on the rows of episodes, in torch on any device."""
    y = episodes.membership.mT
    rows = episodes.query if episodes.unlabeled is None else episodes.unlabeled
    return learn(rule, (episodes.support, y), Holder([rows]), y.sum(-1, keepdim=True))


def in_feature_space(episodes: Episodes, rule: Rule) -> Tensor:
    """(E, Q, W), without the twin. Beside unlabelled rows queries never see their own mean (inductive)."""
    *_, model = prototype_path(episodes, rule)
    if episodes.unlabeled_index is not None and not rule.queries_are_centred:
        model = replace(model, center=torch.zeros_like(model.center))
    return model.scores(model.prepare(episodes.query)).softmax(-2).mT
