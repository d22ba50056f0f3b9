"""Unnamed classes: groups of unlabelled rows that belong to no class with a name, and how reliable the names are.

BAPA's mixture (`bapa`) can say by itself that a class is missing: a class without labelled rows is added wherever the
bound on the evidence rises by enough. W named classes with K_c labelled rows, n unlabelled rows, r and k as there;
u = unit(x − μ₀) about the fixed centre μ₀ = (mean of the labelled rows + mean of the unlabelled rows)/2.

**Bound.** For the answer z of a fit, up to what no answer changes,

    F(z) = λ Σ_c ‖Σ_s y_sc u_s + Σ_q z_qc u_q‖² / (K_c + k + n_c) + H(z) + log mean_{a∈A} DirichletMultinomial(n|a)

The first term is what is left of the likelihood of rows that lie about p_c with variance I/2λ once the prototype
p_c ~ N(0, I/2λk) is integrated out, by completing the square; rows have unit length. The second is the entropy of z,
the third the evidence of the class sizes with the concentration averaged out.

**Candidates.** Where a fit ends depends on where it begins. k-means splits the unlabelled rows into W + 16 clusters
once, and the ten rows nearest to each centre are a *seed*: they stand for labelled rows in the first prototype of one
more class, and are free from then on. All seeds of a round are one batch of fits, each from the beginning: a fit that
goes on from another one stays where that has ended.

**Choice.** An unnamed class may not live on the examples of a named one. What it takes of them, in classes' worths, is
share = Σ_s softmax_c(l − ℓ)_s / K_{y_s} for the new class c, and

    score = (F with it − F without it) · exp(−2 share)

The best seed is accepted if its score is above 12, and the next round begins. Fits are dear where classes are many, so
a round tries twelve of the seeds: those of the highest F for one glance, without a fit, at what a class there would
take. That is the softmax of the logits that the classes have after two steps and of those of one more class, with ℓ = 0
and the prototype of the seed's rows alone, (Σ u)/(10 + κ). After the last step a kind of junk has long been taken in by
a class that has grown for it.

**Rows of no class at all**, such as one stray, are no group. The density of a row under the fit is e = log Σ_c exp l_c.
Over the rows of named classes let m be its median and d = m − its 16 % quantile, one standard deviation of a Gaussian,
whatever lies far below. Rows with e < m − 2.25 d are strays.

**Reliability.** λ says that rows lie about their prototype with variance 1/2λ per direction. Along the C − 1 directions
between the prototypes, which alone decide on names, they are found to lie with v times that:

    v = 2λ Σ_qc z_qc ‖B (u_q − m_c)‖² / (n (C − 1)),   m_c = Σ_q z_qc u_q / n_c

about the centre of the fit, the rows of B an orthonormal basis of the differences of prototypes. Logits are that many
times too far apart, and further where prototypes hang on one example or few pictures: class probabilities are
softmax(l/T) over the named classes, with

    T = max(0.5, 1.5 v₀ (1 + r/2) (1 + 3 C/n)),   v₀ = (n v + 30 · 0.45)/(n + 30),   C/n at most 1

with C classes, unnamed ones too. All constants were chosen on ten collections of different kinds and read on eight.

**From nothing.** Without any labelled class the same growth stops too early, so groups are made the other way round.
k-means splits the rows, u = unit(x − mean), into as many clusters as a quarter of them, 100 at most, and as long as
there are two clusters whose union raises

    F₀ = λ₀ Σ_c ‖Σ_{i∈c} u_i‖² / (k₀ + n_c) + Σ_c n_c log n_c,   λ₀ = 16, k₀ = 8

those that raise it most are joined: F with each row in one class and the class sizes at their likeliest. Ten rounds of
k-means from there let rows change sides. λ₀ and k₀ were chosen on six collections; on six others the groups' adjusted
mutual information with the classes is 68.6, and that of k-means that was told their number 69.8.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from protoadapt.core.methods.common import TINY
from protoadapt.core.methods.family import Rule, learn, size_evidence
from protoadapt.core.methods.rows import Holder, sampled
from protoadapt.core.prototype_model import PrototypeModel, power_transform, prepared_rows

MORE_SEEDS, MOST_SEEDS, SEED_ROWS, TRIED_SEEDS, GLANCE_STEPS = 16, 64, 10, 12, 2
"""k-means has so many clusters more than there are classes, and at most so many; rows of a seed; seeds that are fitted
in a round, after a glance at all of them beside a fit of so many steps."""
MOST_GROUPS, LEAST_ROWS, LEAST_PER_CLASS = 6, 20, 4
"""Groups found at most; of fewer rows, or fewer per class, nothing is looked for: most seeds would hold many kinds."""
LEAST_SCORE, SHARE_WEIGHT = 12.0, 2.0
FAR = 2.25
"""A stray's density is so many deviations below the median, of LEAST_ROWS rows or more: of few, that is chance."""
FEWEST_ROWS, USUAL_ROWS, MOST_ROWS = 300, 40, 1000
"""Rows that groups are looked for in: so many per class, at least the first and at most the last number. The gain grows
with the rows, and the least score is that for about 40 per class."""
BATCH_NUMBERS = 2**24
"""Numbers of the rows of fits that run at once: 64 MB in float32."""
FIRST_SCALE, FIRST_MASS, FIRST_CLUSTERS = 16.0, 8.0, 100
"""λ₀, k₀ and the number of clusters that are joined, at most."""
FIRST_ROUNDS, FEWEST_IN_GROUP = 10, 3
"""Rounds of k-means at the end; fewer rows are no group."""


def sample_size(n_way: int) -> int:
    """Unlabelled rows that are looked at for unnamed classes beside so many named ones."""
    return min(MOST_ROWS, max(FEWEST_ROWS, USUAL_ROWS * n_way))


def discover(rule: Rule, x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
    """The seeds (G, m) of unnamed classes, as positions in `rows`, the most certain group first.

    x (S, D), y (W, S): labelled rows and their classes, one-hot; rows (n, D): unlabelled ones; powered, all of them.
    """
    if len(y) < 2 or len(rows) < max(LEAST_ROWS, LEAST_PER_CLASS * len(y)):
        return torch.empty(0, SEED_ROWS, dtype=torch.long, device=x.device)
    x, rows = _in_their_span(x, rows)
    center = (x.mean(0) + rows.mean(0)) / 2
    us, u = (prepared_rows(part, center, l2=True) for part in (x, rows))
    seeds = _seeds(u, len(y))
    found = seeds[:0]
    while len(found) < MOST_GROUPS and len(seeds):
        level = bound(rule, us, y, u, answer(fitted(rule, x, y, rows, rows[found]), rows))
        begun = fitted(replace(rule, n_iter=min(GLANCE_STEPS, rule.n_iter)), x, y, rows, rows[found])
        glances = [bound(rule, us, y, u, glance(rule, begun, rows, some)) for some in _batches(seeds, rows)]
        seeds = seeds[torch.cat(glances).argsort(descending=True)]
        tried = []
        for some in _batches(seeds[:TRIED_SEEDS], rows):
            together = torch.cat([found.expand(len(some), -1, -1), some[:, None]], 1)  # (B, G + 1, m)
            model = fitted(rule, x, y, rows, rows[together])
            gain = bound(rule, us, y, u, answer(model, rows)) - level
            tried.append(gain * (-SHARE_WEIGHT * share_of_examples(model, x, y)).exp())
        score, best = torch.cat(tried).max(0)
        if not score > LEAST_SCORE:
            break
        found = torch.cat([found, seeds[best, None]])
        seeds = torch.cat([seeds[:best], seeds[best + 1 :]])
    return found


def glance(rule: Rule, model: PrototypeModel, rows: Tensor, seeds: Tensor) -> Tensor:
    """z (B, C + 1, n) of a fit and one more class at each of the seeds (B, m), of a class's usual size."""
    u = model.prepare(rows)
    prototypes = u[seeds].sum(1) / (seeds.shape[1] + rule.kappa)
    more = rule.scale * (2 * prototypes @ u.mT - prototypes.square().sum(1, keepdim=True))
    logits = model.scores(u)
    return torch.cat([logits.expand(len(seeds), -1, -1), more[:, None]], 1).softmax(1)


def _batches(seeds: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
    return seeds.split(max(1, BATCH_NUMBERS // rows.numel()))


def fitted(rule: Rule, x: Tensor, y: Tensor, rows: Tensor, starts: Tensor) -> PrototypeModel:
    """The fit with one class more for each seed; starts (…, G, m, D): the rows of the seeds, a batch of them or not."""
    n_groups, size = starts.shape[-3:-1]
    labels, begun = with_groups(y, n_groups, size)
    shots = labels.double().sum(1, keepdim=True).expand(*starts.shape[:-3], -1, 1)
    *_, model = learn(rule, (x, labels), Holder([rows]), shots, (starts.flatten(-3, -2), begun))
    return model


def with_groups(y: Tensor, n_groups: int, size: int) -> tuple[Tensor, Tensor]:
    """One-hot classes of labelled rows (W + G, S), and of the rows of G seeds (W + G, G m), each of `size` rows."""
    begun = torch.eye(n_groups).repeat_interleave(size, 1).to(y)
    return pad(y, (0, 0, 0, n_groups)), pad(begun, (0, 0, len(y), 0))


def answer(model: PrototypeModel, rows: Tensor) -> Tensor:
    """z (…, C, n), at temperature 1."""
    return model.scores(model.prepare(rows)).softmax(-2)


def bound(rule: Rule, us: Tensor, y: Tensor, u: Tensor, z: Tensor) -> Tensor:
    """F (…) of answers z (…, C, n) to rows u (n, D); us (S, D), y (W, S): the labelled rows. All about μ₀."""
    shots, n = y.double().sum(1, keepdim=True), z.double().sum(-1, keepdim=True)
    k = rule.kappa * shots[shots > 0].rsqrt().mean()
    shots = pad(shots, (0, 0, 0, n.shape[-2] - len(y)))
    total = z @ u
    total[..., : len(y), :] += y @ us
    likelihood = (total.double().square() / (shots + k + n)).sum((-2, -1))
    entropy = -torch.special.xlogy(z, z).double().sum((-2, -1))
    _, sizes = size_evidence(n)
    return rule.scale * likelihood + entropy + sizes[..., 0, 0].logsumexp(0)


def share_of_examples(model: PrototypeModel, x: Tensor, y: Tensor) -> Tensor:
    """(…): how many classes' worths of labelled rows x (S, D) the last class takes; y (W, S)."""
    logits = model.scores(model.prepare(x)) - model.bias.to(x)[..., None]
    return logits.softmax(-2)[..., -1, :].double() @ (y.double() / y.double().sum(1, keepdim=True).clamp_min(1)).sum(0)


def temperature_and_threshold(model: PrototypeModel, rows: Tensor, y: Tensor) -> tuple[float, float]:
    """T, and the density that strays are below, from unlabelled rows (n, D); y (W, S): the labelled ones."""
    u, shots = model.prepare(rows), y.double().sum(1)
    logits, n = model.scores(u), len(rows)
    v = (n * spread(model, u, logits.softmax(0)) + 30 * 0.45) / (n + 30)
    r = float(shots[shots > 0].rsqrt().mean())
    temperature = max(0.5, 1.5 * v * (1 + r / 2) * (1 + 3 * min(1, len(logits) / max(n, 1))))
    density = logits.logsumexp(0)[logits.argmax(0) < len(y)].double()
    if len(density) < LEAST_ROWS:
        return temperature, -torch.inf
    low, middle = density.quantile(density.new_tensor([0.16, 0.5]))
    return temperature, float(middle - FAR * (middle - low))


def spread(model: PrototypeModel, u: Tensor, z: Tensor) -> float:
    """v of prepared rows u (n, D) and their answers z (C, n); 0.45, its usual value, where nothing can be measured."""
    n, p = z.sum(1, keepdim=True), model.prototypes.to(u)
    if len(u) == 0 or len(p) < 2:
        return 0.45
    between = torch.linalg.svd(p - p.mean(0), full_matrices=False).Vh[: len(p) - 1]
    at, means = u @ between.mT, (z @ u / n.clamp_min(TINY)) @ between.mT
    squares = at.square().sum(1) - 2 * means @ at.mT + means.square().sum(1, keepdim=True)
    return float(2 * model.scale * (z * squares).sum() / (len(u) * (len(p) - 1)))


def kmeans(rows: Tensor, n_clusters: int, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The clusters (n) of rows (n, D) and their centres (k, D); k ≤ n_clusters, as no two centres are the same row."""
    from sklearn.cluster import KMeans

    n_clusters = min(n_clusters, len(rows.unique(dim=0)))
    found = KMeans(n_clusters, n_init=1, max_iter=10, random_state=0).fit(rows.cpu().numpy(), sample_weight=weight)
    return torch.from_numpy(found.labels_).to(rows.device), torch.from_numpy(found.cluster_centers_).to(rows)


def first_groups(rows: np.ndarray) -> np.ndarray:
    """(N): the number of each row's group, from 0 by falling size, or −1 where it is in none; no row has a label.

    rows (N, D): raw features. The groups are those of a sample of at most MOST_ROWS rows.
    """
    x = power_transform(torch.from_numpy(rows).float(), 0.5, "auto")
    u = prepared_rows(x, x.mean(0), l2=True)
    some = torch.from_numpy(sampled([u.numpy()], MOST_ROWS, u[:0].numpy()))
    n_clusters = min(FIRST_CLUSTERS, len(some) // 4)
    if n_clusters == 0:
        return np.full(len(rows), -1)
    group, _ = kmeans(some, n_clusters)
    centers = _joined(*_sizes_and_sums(some, group))
    for _ in range(FIRST_ROUNDS):
        group = torch.cdist(u, centers).argmin(1)
        n, total = _sizes_and_sums(u, group)
        centers = total / n[:, None]
    _, group, n = group.unique(return_inverse=True, return_counts=True)
    number = n.argsort(descending=True, stable=True).argsort()
    return torch.where(n[group] < FEWEST_IN_GROUP, -1, number[group]).numpy()


def _sizes_and_sums(u: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """The sizes n (C) and sums (C, D) of the groups that have rows, among rows u (n, D)."""
    _, group, n = group.unique(return_inverse=True, return_counts=True)
    return n, u.new_zeros(len(n), u.shape[1]).index_add_(0, group, u)


def _joined(n: Tensor, total: Tensor) -> Tensor:
    """The centres (C, D) of groups of sizes n and sums `total`, after unions as long as one raises F₀."""
    n, total = n.double(), total.double()

    def bound(square: Tensor, n: Tensor) -> Tensor:
        return FIRST_SCALE * square / (FIRST_MASS + n) + torch.xlogy(n, n)

    while len(n) > 1:
        products = total @ total.mT
        square = products.diag()
        together = bound(square[:, None] + square + 2 * products, n[:, None] + n)
        own = bound(square, n)
        gain = (together - own[:, None] - own).fill_diagonal_(-torch.inf)
        best = int(gain.argmax())
        if gain.flatten()[best] <= 0:
            break
        one, other = divmod(best, len(n))
        n[one] += n[other]
        total[one] += total[other]
        rest = torch.arange(len(n)) != other
        n, total = n[rest], total[rest]
    return (total / n[:, None]).float()


def _seeds(u: Tensor, n_way: int) -> Tensor:
    """(B, m): of each cluster of the rows u (n, D) those nearest to its centre."""
    _, centers = kmeans(u, min(n_way + MORE_SEEDS, MOST_SEEDS, len(u) // 4))
    return torch.cdist(centers, u).topk(SEED_ROWS, largest=False).indices


def _in_their_span(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows in fewer dimensions where they are fewer: products of rows are all that is computed with."""
    together = torch.cat([x, rows])
    if len(together) < x.shape[1]:
        together = torch.linalg.qr(together.mT, mode="r").R.mT
    return together[: len(x)], together[len(x) :]
