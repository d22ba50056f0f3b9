"""The loop of `family` compiled for the CPU: one episode at a time, all of it in cache. This file only spells it out.

The centre and the prototypes never leave the span of the episode's rows x, so after one Gram matrix G = x xᵀ no
D-dimensional work is left: they are kept as mixtures M of the rows, and V = M G holds their products with all rows.
With the mixture m of a moving centre and f_j = 1/‖x_j − μ‖ a calibrated row is u_j = f_j (x_j − Σ m x), so

    p·u_j = f_j (V_j − V·m),   ‖x_j − μ‖² = G_jj − 2 (G m)_j + m·G m,   p ← (1−σ) p + σ Σ_j t_j u_j / (K + k + n):
    M ← (1−σ) M + σ (t f − (Σ t f) m) / (K + k + n) .

Rows are those that pull (the queries, or unlabelled rows beside them), then the labelled ones, then queries that are
only answered, then zeros up to a multiple of LANES; each about its first centre, so that little is lost to rounding.
`kernels` is its arithmetic.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.common import TINY, shares
from protoadapt.core.methods.family import CONCENTRATIONS, SINKHORN_ROUNDS, SINKHORN_STOP, SUPPORT_WEIGHT, Rule
from protoadapt.core.methods.kernels import add_weighted, aligned, compiled, digamma, dot, fast_exp, gram_tiles
from protoadapt.core.methods.settings import CENTERS
from protoadapt.core.prototype_model import ROUNDING
from protoadapt.core.threads import thread_pool

_SMALL = 256  # up to so many rows, or the rows' dimension if that is more, the Gram matrix is the cheaper form
PLACES = (*CENTERS, "classes")
SIZES = ("none", "given", "estimated", "transport")
SEPARATE, JOINT, MOVING = map(PLACES.index, ("separate", "joint", "classes"))
GIVEN, ESTIMATED, TRANSPORT = map(SIZES.index, ("given", "estimated", "transport"))
LANES = 16  # numbers in a vector; mixtures and the Gram matrix are as wide as a multiple of it


class _Choices(NamedTuple):
    """A `Rule` as the compiled loop takes it."""

    center: int  # of PLACES
    cosine: bool
    l2: bool
    queries_are_centred: bool  # that are only answered
    sizes: int  # of SIZES
    n_iter: int
    scale: np.floating
    sigma: np.floating
    kappa: np.floating
    prior: np.ndarray  # (W)


def _choices(rule: Rule, n_way: int, rows: Tensor) -> _Choices:
    """Of plain types, whatever the caller wrote: sigma=1 and sigma=1.0 must not be compiled twice."""
    prior = shares(rule.class_prior, n_way, rows).numpy()
    scale, sigma, kappa = np.array([rule.scale, rule.sigma, rule.kappa], prior.dtype)
    return _Choices(
        center=PLACES.index(rule.center),
        cosine=rule.similarity == "cosine",
        l2=bool(rule.l2),
        queries_are_centred=rule.queries_are_centred,
        sizes=SIZES.index(rule.sizes),
        n_iter=int(rule.n_iter),
        scale=scale,
        sigma=sigma,
        kappa=kappa,
        prior=prior,
    )


def takes(episodes: Episodes) -> bool:
    """Whether these episodes are for this loop: on the CPU, with rows that pull, not too many for a Gram matrix."""
    rows = episodes.rows
    helping = episodes.query_index if episodes.unlabeled_index is None else episodes.unlabeled_index
    plain = rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)
    return plain and 0 < helping.shape[1] <= max(rows.shape[1], _SMALL)


def adapt_compiled(episodes: Episodes, rule: Rule) -> Tensor:
    """(E, Q, W), as `family.adapt`; episodes are spread over torch's threads (the loop drops the GIL)."""
    rows, n_way = episodes.rows.contiguous(), episodes.n_way
    pulling, apart = episodes.unlabeled_index, episodes.query_index
    if pulling is None:
        pulling, apart = apart, apart[:, :0]
    index = torch.cat([pulling, episodes.support_index, apart], 1).numpy()
    labels = episodes.support_labels.contiguous().numpy()
    out = torch.empty(*episodes.query_index.shape, n_way, dtype=rows.dtype).numpy()
    choices = _choices(rule, n_way, rows)
    threads = max(1, min(torch.get_num_threads(), len(out) // 16))
    ends = np.linspace(0, len(out), 2 * threads + 1).astype(int)

    def part(bounds: tuple[int, int]) -> None:
        some = slice(*bounds)
        _adapt(rows.numpy(), index[some], labels[some], pulling.shape[1], choices, out[some])

    with thread_pool(threads) as pool:  # whoever is done takes the next piece: other threads draw episodes
        list(pool.map(part, pairwise(ends)))
    return torch.from_numpy(out)


@compiled
def _adapt(rows, index, labels, n_rows, choices, out):
    n_query, n_way = out.shape[1:]
    n_all, asked = index.shape[1], n_rows + labels.shape[1]
    answered = asked if n_all > asked else 0
    width = (n_all + LANES - 1) // LANES * LANES
    x = aligned((n_all + 3) // 4 * 4, rows.shape[1], rows)
    gram = aligned(width, width, rows)
    length2 = np.zeros(width, rows.dtype)
    for e in range(len(out)):
        shots = np.bincount(labels[e], minlength=n_way).astype(rows.dtype)
        s_mean, u_mean = _first_centers(
            rows, index[e, n_rows:asked], labels[e], index[e, :n_rows], choices.center, shots
        )
        apart_mean = u_mean if choices.queries_are_centred else u_mean * 0
        for j in range(n_all):
            row = rows[index[e, j]]
            mean = u_mean if j < n_rows else s_mean if j < asked else apart_mean
            length2[j] = dot(row, row)
            for d in range(len(row)):
                x[j, d] = row[d] - mean[d]
        gram_tiles(x, gram, 0 if choices.n_iter else n_rows)
        if not choices.l2:
            length2[:] = 0  # no row is at the centre, however near it is
        z = _steps(gram, length2, labels[e], shots, n_rows, len(x), choices)
        out[e] = z[:, answered : answered + n_query].T


@compiled
def _first_centers(rows, s_index, s_labels, u_index, center, shots):
    """What is taken off the labelled rows and off those that pull; of a moving centre, where it starts."""
    s_mean, u_mean = np.zeros(rows.shape[1], rows.dtype), np.zeros(rows.shape[1], rows.dtype)
    n_support, n_rows, known = len(s_index), len(u_index), (shots > 0).sum()
    for i in range(n_support if center else 0):
        weight = 1 / (known * shots[s_labels[i]]) if center == MOVING else 1 / n_support
        _add(s_mean, rows.dtype.type(weight), rows[s_index[i]])
    for j in range(n_rows if center in (SEPARATE, JOINT) else 0):
        _add(u_mean, rows.dtype.type(1), rows[u_index[j]])
    if center == SEPARATE:
        return s_mean, u_mean / rows.dtype.type(n_rows)
    if center == JOINT:
        s_mean = ((n_support * s_mean + u_mean) / (n_support + n_rows)).astype(rows.dtype)
    return s_mean, s_mean


@compiled
def _add(total, weight, row):
    for d in range(len(total)):
        total[d] += weight * row[d]


@compiled
def _steps(gram, length2, labels, shots, n_rows, n_used, choices):
    """The loop. Returns z (W, ·) of all rows at the end."""
    sizes, cosine, n_iter, sigma, prior = choices.sizes, choices.cosine, choices.n_iter, choices.sigma, choices.prior
    n_way = len(shots)
    width = len(gram)
    real = gram.dtype.type
    moves = choices.center == MOVING
    tiny = real(TINY)
    known = (shots > 0).sum()
    asked = n_rows + len(labels)
    r = (real(1) / np.sqrt(shots[shots > 0])).sum() / real(known)
    labelled_mass = shots + choices.kappa * r
    nameless_mass = r if sizes == ESTIMATED else real(0)
    M = aligned(n_way + 2, width, gram)  # of the prototypes, the centre's m, and one to make them even in number
    V = aligned(n_way + 2, width, gram)
    m = M[n_way]
    t = aligned(n_way, width, gram)
    z = aligned(n_way, width, gram)
    n = np.zeros(n_way, gram.dtype)
    bias = np.zeros(n_way, gram.dtype)
    inverse_length = np.empty(width, gram.dtype)
    inverse_factor = inverse_length if choices.l2 else np.ones(width, gram.dtype)
    _lengths(gram, length2, m, V[n_way], inverse_length)
    for i in range(len(labels)):
        t[labels[i], n_rows + i] = 1
    for c in range(n_way):
        _mix(M[c], t[c], inverse_factor, m, real(0), real(1) / max(labelled_mass[c], tiny))
    for step in range(n_iter + 1):
        V[:] = 0
        add_weighted(M[: (n_way + moves + 1) // 2 * 2], gram, n_used, V)
        if moves:
            _lengths(gram, length2, m, V[n_way], inverse_length)
        for c in range(n_way):
            along, pm = inverse_length if cosine else inverse_factor, dot(V[c], m) if moves else real(0)
            _logits(V[c], along, pm, max(dot(M[c], V[c]), real(0)), cosine, choices.scale, z[c])
            for j in range(width if sizes in (GIVEN, ESTIMATED) else 0):
                z[c, j] += bias[c] if j < n_rows or j >= asked else real(0)  # labelled rows: without ℓ
        _softmax(z, n_rows, nameless_mass if step < n_iter else real(0))  # the answer names every row
        if sizes == TRANSPORT:
            _transport(z, n_rows, prior)
        if step == n_iter:
            break
        for c in range(n_way):
            n[c] = z[c, :n_rows].sum()
            weight = real(n_rows) * prior[c] / max(n[c], tiny) if sizes == TRANSPORT else real(1)
            n[c] *= weight
            for j in range(n_rows):
                t[c, j] = weight * z[c, j]
            for i in range(len(labels) if moves else 0):
                t[c, n_rows + i] = real(2 * (labels[i] == c)) - z[c, n_rows + i]
            _mix(M[c], t[c], inverse_factor, m, real(1) - sigma, sigma / max(labelled_mass[c] + n[c], tiny))
        if moves:
            _mean_of_classes(z, labels, shots, n, n_rows, known, m)
        if sizes in (GIVEN, ESTIMATED):
            total = n.sum()
            spread = ((n - total / n_way) ** 2 + 1).sum()
            nameless_mass = real(0)
            if sizes == GIVEN or spread < (n_way - 1) * total / n_way:
                for c in range(n_way):
                    bias[c] += real(math.log(total * prior[c] / max(n[c], tiny)))
            else:
                _log_shares(n, bias)
                nameless_mass = r
    return z


@compiled
def _mean_of_classes(z, labels, shots, n, n_rows, known, m):
    """The centre as a mixture of the rows."""
    m[:] = 0
    for c in range(len(z)):
        share = 1 / (known * max(SUPPORT_WEIGHT * shots[c] + n[c], TINY))
        for j in range(n_rows if shots[c] > 0 else 0):
            m[j] += share * z[c, j]
        for i in range(len(labels)):
            m[n_rows + i] += share * SUPPORT_WEIGHT * (labels[i] == c)


@compiled
def _lengths(gram, length2, m, Gm, inverse_length):
    """1/‖x − μ‖ of every row, or 0 for a row at the centre; length2: ‖x‖² before any centring."""
    real, mm = gram.dtype.type, dot(m, Gm)
    rounding = real(1e-12 if real(16777217) != real(16777216) else 4e-6)  # of lengths from products
    for j in range(len(inverse_length)):
        left = gram[j, j] - real(2) * Gm[j] + mm
        least = max(real(ROUNDING**2) * length2[j], rounding * (gram[j, j] + mm) if mm > 0 else real(0))
        inverse_length[j] = real(1) / real(math.sqrt(left)) if left > least else real(0)


@compiled
def _mix(a, t, inverse_factor, m, keep, rate):
    """a ← keep·a + rate·Σ_j t_j u_j, as mixtures."""
    total = dot(t, inverse_factor)
    for j in range(len(a)):
        a[j] = keep * a[j] + rate * (t[j] * inverse_factor[j] - total * m[j])


@compiled
def _logits(inner, along, pm, p2, cosine, scale, out):
    """τ·cos(u, p) or λ(2u·p − ‖p‖²) for inner = x·p, pm = μ·p, and `along` 1/‖x − μ‖, or u's inverse factor."""
    real = inner.dtype.type
    slope = scale / max(real(math.sqrt(p2)), real(TINY)) if cosine else real(2) * scale
    shift = real(0) if cosine else scale * p2
    for j in range(len(out)):
        out[j] = slope * along[j] * (inner[j] - pm) - shift


@compiled
def _softmax(z, n_rows, nameless_mass):
    """Softmax (W, ·) over the classes, in place; the first n_rows share with a class of that mass at logit 0."""
    n_way, width = z.shape
    top, total = z[0].copy(), np.zeros(width, z.dtype)
    for c in range(1, n_way):
        for j in range(width):
            top[j] = max(top[j], z[c, j])
    for j in range(n_rows if nameless_mass > 0 else 0):
        top[j] = max(top[j], z.dtype.type(0))
        total[j] = nameless_mass * fast_exp(-top[j])
    for c in range(n_way):
        for j in range(width):
            z[c, j] = fast_exp(z[c, j] - top[j])
            total[j] += z[c, j]
    for c in range(n_way):
        for j in range(width):
            z[c, j] /= total[j]


@compiled
def _transport(z, n_rows, prior):
    """`family.transported`: Sinkhorn's iteration to its end, in which z grows by a factor per class."""
    n_way, width = z.shape
    real, grown, now = z.dtype.type, np.ones(n_way, z.dtype), np.zeros(width, z.dtype)
    inverse, last = np.ones(width, z.dtype), np.ones(width, z.dtype)
    z[:, n_rows:] = 0
    for step in range(SINKHORN_ROUNDS + 1):
        now[:] = 0
        for c in range(n_way):
            for j in range(width):
                now[j] += grown[c] * z[c, j]
        moved = real(0)
        for j in range(width):
            ratio = now[j] * inverse[j]
            moved += real(abs(ratio - last[j]) > SINKHORN_STOP)
            last[j] = ratio
            inverse[j] = real(1) / max(now[j], real(1e-30))
        if step == SINKHORN_ROUNDS or (step > 1 and moved == 0):
            break
        for c in range(n_way):
            grown[c] = real(n_rows) * prior[c] / max(dot(z[c], inverse), real(1e-30))
    for c in range(n_way):
        for j in range(width):
            z[c, j] *= grown[c] * inverse[j]


@compiled
def _log_shares(n, bias):
    """`family.log_shares`, in float64."""
    n_way, total = len(n), 0.0
    for size in n:
        total += size
    evidence, shares = np.empty(len(CONCENTRATIONS)), np.empty((len(CONCENTRATIONS), n_way))
    for i, a in enumerate(CONCENTRATIONS):
        evidence[i] = math.lgamma(n_way * a) - math.lgamma(total + n_way * a)
        for c in range(n_way):
            evidence[i] += math.lgamma(n[c] + a) - math.lgamma(a)
            shares[i, c] = digamma(n[c] + a) - digamma(total / n_way + a)
    evidence = np.exp(evidence - evidence.max())
    for c in range(n_way):
        bias[c] = (evidence * shares[:, c]).sum() / evidence.sum()
