"""BAPA: Balance-Agnostic Prototype Adaptation. Our own, beside the paper's CIPA.

CIPA centres the queries by their own mean and lets every row pull as much as any other: both quietly assume that all
classes are among the queries, and about equally often. BAPA asks the rows how far to believe that. With N unlabelled
rows q, C classes, rows of unit length after the power transform, m_S the mean of the support's class means, S_c the sum
and K_c the number of class c's support rows s, M = C²/Σ_c 1/K_c, q̄ the mean of the unlabelled rows:

    0  α = N/(N + k_s) · min(1, V (1/M + 1/N) / ‖q̄ − m_S‖²)³,   V = ½ mean ‖q − s‖²

and then n_iter times

    1  μ = α Σ_q w_q q / Σ_q w_q + (1 − α) m_S;   x ← unit(x − μ) for all rows              (start: w = 1)
    2  z_c = e_c/(r + Σ_c e_c),  e_c = exp(λ (2 q·p_c − ‖p_c‖²) + ℓ_c);  n_c = Σ_q z_qc, n̄ = mean_c n_c  (start: ℓ = 0)
    3  p_c ← (1−σ) p_c + σ (S_c + R_c + Σ_q h_qc q) / (K_c + k + Σ_q h_qc),   h = z²/max_c z   (start: S_c/(K_c + k)),
       R_c = ρ Σ_s (y_sc − z_sc) s,   z_s = softmax as in 2 with ℓ = 0
    4  g = max(0, 1 − θ² / mean_c (n_c/n̄ − 1)²), θ² = 0.018/√r + 0.3/n̄;   f_c = (n_c/n̄ + ε)/(1 + ε)
    5  ℓ_c = g log f_c;   w_q = Σ_c z_qc/(1 + g (f_c − 1)) / Σ_c z_qc;
       in the last 45 % of the steps, where g = 0:   ℓ_c ← ℓ_c + n̄/(n̄ + 1) log(n̄/n_c)

with k = κ r, ε = r/5, r = mean_c 1/√K_c, ρ = 1. Unlabelled rows take part in the last T steps only,

    6  T = n_iter · min(1, 40 J²/(K̄ − 1) + 5u),   K̄ = C/Σ_c 1/K_c,   u = mean_c (n_c/n̄ − 1)²/(C − 1) at the start,
       J = max(0, mean s·s′ in classes − mean s·s′ between classes + 0.1/√P),   P pairs s, s′ of one class

with the labelled rows about the first centre and K̄ over the classes that have any: before those steps h = 0, ℓ = 0 and
w = 1; where T is not whole, the first of them counts by its fraction. The answer is 1 and 2 once more, with softmax:
every row gets a class.

α (0) is how far unlabelled rows may choose the centre: two means of rows that are alike differ by V (1/M + 1/N) on
average, and a mean that lies further off is of other classes than the support's, or mostly of one of them. The centre
(1) counts a row less if its class is large, so it does not follow the balance. r in 2: a row that is nearer to the
centre than to any prototype may be of no class, or of one that its neighbours do not show; as if a class without name
had its prototype at the centre, it pulls and counts less. r falls as class means get surer and prototypes longer. h
(3): a row pulls its likeliest class as far as it is sure, and the others less; k pseudo-rows at the origin hold back
classes that few rows support, fewer the surer the class means are: their standard error falls with √K. R (3) is the
gradient of the support's log-likelihood: a labelled row that its class no longer claims draws the class back and pushes
the others off, so that many unsure rows cannot carry a prototype away from its labels. The support was not drawn with
the queries' class sizes, hence ℓ = 0. g (4) is a James–Stein factor: near 1 when sizes differ by more than θ, 0 when
they differ less, and then they say nothing. θ² is how much the estimated sizes of equal classes differ: by confusions
that never average out, and by chance. ε keeps a class that no row seems to be of from being lost at once. Sizes that
differ no more than those of equal classes once they have settled are taken to be equal: ℓ is then adjusted until they
are, as a round of Sinkhorn's iteration per step would; n̄/(n̄ + 1) keeps a single row from being spread over all
classes.

T (6): where labelled rows of a class are hardly more alike than others (J), classes overlap, and unlabelled rows carry
prototypes and sizes away from what several labelled rows say better, the more of these there are (K̄). Then most steps
are of labelled rows alone, which R moves to where they are told apart. 0.1/√P is about the error of J, so that few
pairs seldom decide; u, larger the more unequal the classes look at the start, lets unlabelled rows of few classes take
part in more steps, as they show where these lie. With one labelled row per class T is n_iter.

Told the classes' shares π_c of the unlabelled rows (`class_prior`), 4, 5 and the r in 2 are left out. Instead

    2′ ℓ_c ← ℓ_c + log(N π_c/n_c) before each 2, twice: rounds of Sinkhorn's iteration;   w_q = Σ_c z_qc/(C π_c),

T = n_iter, ρ = 4 and 7σ/5 takes the place of σ, as no estimate of the sizes can be misled, so that the answer has
nearly the sizes it was told, and the centre is that of classes that are equally frequent.

With few labelled rows, what is known least is the centre. Where the mean b of the base classes' rows is known, it can
count as k_b labelled rows, `base_rows` at most and fewer where it lies far from m_S: k_b = V/(‖m_S − b‖² − V/M).
(M m_S + k_b b)/(M + k_b) then takes the place of m_S and M + k_b that of M in 0 and 1.

Where the covariance Σ of base classes' rows within their classes is known, `whiten` makes directions in which rows of
one class differ much count less: x ← L⁻¹x before 0, with L Lᵀ = 0.9 I + 0.1 Σ/σ̄² and σ̄² the mean of Σ's diagonal.
Cosines are smaller then, and sizes are estimated better: 4λ/3, 4κ/3 and 3θ/4 take the places of λ, κ and θ. What rows
have in common besides their class, which is what misleads unlabelled rows, is mostly gone: T = n_iter.

Three forms give the same answers (a law in the tests): `feature_form` to read, `gram_form` in torch for any device, and
its compiled twin in `native_bapa`; `row_learner.bapa_steps` is the loop for one task with any number of rows. Axes: E
episodes, W = C classes, S support rows, U = N unlabelled rows (the queries, unless there are others), Q, D.
"""

from math import inf

import torch
from torch import Tensor
from torch.nn.functional import pad

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.features import BASE_BETA
from protoadapt.core.methods.adaptation import adapting_index, large
from protoadapt.core.methods.bapa_equations import (
    BapaSettings,
    assigned,
    beside_base,
    class_doubt,
    class_sizes,
    first_settled,
    held_by,
    in_every_step,
    label_pulls,
    likeness,
    of_classes,
    pulls,
    rows_of_base,
    step_size,
    steps_of_rows,
    takes_part,
    told,
    trust,
)
from protoadapt.core.methods.common import TINY, class_means
from protoadapt.core.methods.normalize import inverse_length, powered, prepared_rows
from protoadapt.core.methods.settings import (
    BaseRows,
    ClassShares,
    DistanceScale,
    Exponent,
    Power,
    PseudoRows,
    Steps,
    StepSize,
    SupportWeight,
    Whiten,
    checked,
)

WHITENED = 0.1, 4 / 3
"""The share of Σ in L Lᵀ, and the factor of λ, κ and 1/θ for whitened rows; from validation classes."""


@checked
def bapa(
    episodes: Episodes,
    *,
    n_iter: Steps = 12,
    sigma: StepSize = 0.25,
    lam: DistanceScale = 10.0,
    kappa: PseudoRows = 3.0,
    k_s: SupportWeight = 10.0,
    beta: Exponent = 0.5,
    power: Power = "auto",
    class_prior: ClassShares = None,
    base_rows: BaseRows = 0.0,
    whiten: Whiten = False,
) -> Tensor:
    """Needs no knowledge of the class sizes: many queries or one, mixed or of one class. Returns (E, Q, W).

    Where they are known, `class_prior` says so, and the answer keeps to it: "equal", or W shares. Where the episodes
    have unlabelled rows, those take the queries' place and the queries are answered one by one. `base_rows`, such as
    10, uses `episodes.base_power_mean`, and `whiten` uses `episodes.base_covariance`: both are for episodes only, no
    settings of the classifier.

    >>> bapa(episodes).argmax(-1)    # (E, Q) predicted classes    # doctest: +SKIP
    """
    from protoadapt.core.methods import native, native_bapa  # here: numba is slow to load

    episodes = powered(episodes, beta, power)
    if base_rows:
        episodes = from_base(episodes, beta, power)
    prior = told(class_prior, episodes.n_way, episodes.rows)
    how = BapaSettings(n_iter, step_size(sigma, prior), lam, kappa, k_s, prior, base_rows)
    if whiten:
        episodes, how = whitened(episodes), for_whitened(how)
    if large(episodes):
        return feature_form(episodes, how)
    if native.usable(episodes.rows):
        return native_bapa.adapt(episodes, how)
    return gram_form(episodes, how)


def from_base(episodes: Episodes, beta: float, power: str) -> Episodes:
    """Powered episodes with the base classes' mean as origin, which every form takes it to be."""
    if episodes.base_power_mean is None or beta != BASE_BETA or power == "off":
        raise UserError(
            f"base_rows needs the mean of the base classes' features after a power transform with beta = {BASE_BETA}: "
            f"give it with --base FILE (in Python base_power_mean; bpa leaves none) and leave beta and power as they "
            f"are, or leave out base_rows"
        )
    if not bool(episodes.base_power_mean.isfinite().all()):
        raise UserError("base_power_mean has entries that are not finite: compute it again, or leave out base_rows")
    return episodes.each_row(torch.sub, other=episodes.base_power_mean)


def whitened(episodes: Episodes) -> Episodes:
    """Powered episodes with L⁻¹x in place of every row x."""
    if episodes.base_covariance is None:
        raise UserError(
            "whiten needs the covariance of the base classes' features, which is missing: give it with --base FILE "
            "(in Python base_covariance; bpa leaves none), or leave out whiten"
        )
    if not 0 < float(episodes.base_covariance.diagonal().mean()) < inf:
        raise UserError(
            "whiten needs base classes whose rows differ: give --base a file with several different rows per class, or "
            "leave out whiten"
        )
    return episodes.each_row(_whitened_rows, covariance=episodes.base_covariance)


def _whitened_rows(rows: Tensor, covariance: Tensor) -> Tensor:
    share, identity = WHITENED[0], torch.eye(len(covariance)).to(covariance)
    mixed = (1 - share) * identity + share * covariance / covariance.diagonal().mean()
    factor, wrong = torch.linalg.cholesky_ex(mixed)
    if wrong:
        raise UserError("base_covariance is not a covariance: some variances are negative; compute it again")
    return rows @ torch.linalg.solve_triangular(factor, identity, upper=False).mT


def for_whitened(how: BapaSettings) -> BapaSettings:
    """The same settings for whitened rows."""
    more = WHITENED[1]
    chance = how.chance[0] / more**2, how.chance[1] / more**2
    return how._replace(lam=more * how.lam, kappa=more * how.kappa, chance=chance, whitened=True)


def feature_form(episodes: Episodes, how: BapaSettings) -> Tensor:
    """The equations in feature space, the form to read; also for episodes too large for a Gram matrix."""
    support, unlabeled = episodes.support, episodes.rows[adapting_index(episodes)]
    y, n_rows = episodes.membership.mT, unlabeled.shape[1]  # (E, W, S)
    shots = y.sum(-1, keepdim=True)
    known = (shots > 0).to(y)
    support_mean = class_means(support, episodes.membership).sum(1, keepdim=True) / known.sum(1, keepdim=True)
    mean, share = unlabeled.mean(1, keepdim=True), (y / shots.clamp_min(1)).sum(1) / known.sum(1)  # q̄; (E, S) in m_S
    squares = (share * support.square().sum(-1)).sum(1) + unlabeled.square().sum(-1).mean(1)
    spread = squares[:, None, None] / 2 - (mean * support_mean).sum(-1, keepdim=True)  # V, multiplied out
    k_b = rows_of_base(support_mean.square().sum(-1, keepdim=True), spread, shots, how.base_rows)
    support_mean = support_mean * beside_base(shots, k_b)
    apart2 = (mean - support_mean).square().sum(-1, keepdim=True)
    alpha = trust(apart2, spread, shots, n_rows, how.k_s, k_b)  # 0
    doubt = class_doubt(shots)
    held, size_term = held_by(shots, how.kappa), torch.zeros_like(shots)  # K_c + k, ℓ

    def about(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """1: the centre (E, 1, D) for weights w (E, 1, U), and support and unlabelled rows about it."""
        center = alpha * (w @ unlabeled) / w.sum(-1, keepdim=True) + (1 - alpha) * support_mean
        return center, prepared_rows(support, center, True), prepared_rows(unlabeled, center, True)

    def gaussian(rows: Tensor) -> Tensor:
        """λ(2 q·p − ‖p‖²), (E, W, rows)."""
        return how.lam * (2 * p @ rows.mT - p.square().sum(-1, keepdim=True))

    center, s, q = about(torch.ones_like(unlabeled[..., 0])[:, None])
    sums = y @ s
    alike = likeness(sums.square().sum((1, 2)), sums.sum(1).square().sum(-1), shots)
    p = sums / held
    for step in range(how.n_iter):
        z, size_term = assigned(gaussian(q), size_term, how.prior, doubt)  # 2
        n = z.sum(-1, keepdim=True)
        if step == 0:
            T = steps_of_rows(alike, n, how.n_iter, in_every_step(how))  # 6
        part = takes_part(step, T, how.n_iter)
        h, t = part * pulls(z, 1), label_pulls(y, gaussian(s), known, how.prior)
        p = (1 - how.sigma) * p + how.sigma * (t @ s + h @ q) / (held + h.sum(-1, keepdim=True))  # 3
        settled = step >= first_settled(how.n_iter)
        size_term, weight = class_sizes(n, size_term, doubt, how.prior, settled, how.chance, part)  # 4, 5
        center, s, q = about(of_classes(weight, z))
    z, size_term = assigned(gaussian(q), size_term, how.prior)
    if episodes.unlabeled_index is None:
        return z.mT
    return (gaussian(prepared_rows(episodes.query, center, True)) + size_term).softmax(1).mT


def gram_form(episodes: Episodes, how: BapaSettings) -> Tensor:
    """In torch, for any device.

    All vectors are mixtures of the N' = S + U rows, so one Gram matrix G is the only D-dimensional work: with μ = m·X
    and d_i = 1/‖x_i − μ‖ the row unit(x_i − μ) is the mixture d_i (e_i − m), and (x_i − μ)·(x_j − μ) =
    G_ij − (Gm)_i − (Gm)_j + m·Gm. Prototypes are kept as mixtures A (E, W, N').
    """
    helping = adapting_index(episodes)
    X = episodes.rows[torch.cat([episodes.support_index, helping], 1)]
    G = X @ X.mT
    square = G.diagonal(dim1=1, dim2=2)[:, None]
    y = episodes.membership.mT  # (E, W, S)
    n_support, n_rows = y.shape[-1], helping.shape[1]
    shots = y.sum(-1, keepdim=True)
    known = (shots > 0).to(y)
    share = (y / shots.clamp_min(TINY)).sum(1, keepdim=True)  # of each support row in m_S
    from_support = pad(share / share.sum(-1, keepdim=True), (0, n_rows))

    def from_unlabeled(w: Tensor) -> Tensor:
        """The mean of the unlabelled rows with weights w (E, 1, U), as a mixture (E, 1, N')."""
        return pad(w / w.sum(-1, keepdim=True).clamp_min(TINY), (n_support, 0))

    def center(w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """1: m, Gm and d = 1/‖x − μ‖, each (E, 1, N'), for weights w (E, 1, U) of the unlabelled rows."""
        m = alpha * from_unlabeled(w) + (1 - alpha) * from_support
        Gm = m @ G
        return m, Gm, inverse_length(square, Gm, (m * Gm).sum(-1, keepdim=True))

    def mixture(T: Tensor, m: Tensor, d: Tensor) -> Tensor:
        """Σ_i T_i unit(x_i − μ), T (E, W, N'), as a mixture of the rows."""
        return T * d - (T * d).sum(-1, keepdim=True) * m

    def gaussian(A: Tensor, AG: Tensor, m: Tensor, inner: Tensor, d: Tensor) -> Tensor:
        """λ(2 x·p − ‖p‖²) for rows x = unit(x − μ) with inner = p·x before that."""
        along = d * (inner - (AG * m).sum(-1, keepdim=True))
        return how.lam * (2 * along - (A * AG).sum(-1, keepdim=True))

    w, size_term = X.new_ones(len(X), 1, n_rows), X.new_zeros(len(X), episodes.n_way, 1)
    mean = from_unlabeled(w)
    # V = ½ mean ‖q − s‖² = ½ mean ‖q‖² + ½ mean ‖s‖² − q̄·m_S
    spread = (square / 2 * (mean + from_support) - from_support @ G * mean).sum(-1, keepdim=True)
    k_b = rows_of_base((from_support @ G * from_support).sum(-1, keepdim=True), spread, shots, how.base_rows)
    from_support = from_support * beside_base(shots, k_b)
    apart = mean - from_support
    alpha = trust((apart @ G * apart).sum(-1, keepdim=True), spread, shots, n_rows, how.k_s, k_b)  # 0
    m, Gm, d = center(w)
    doubt, held = class_doubt(shots), held_by(shots, how.kappa)
    A = mixture(pad(y, (0, n_rows)), m, d) / held
    for step in range(how.n_iter):
        AG = A @ G
        of_support, of_rows = gaussian(A, AG, m, AG, d).split([n_support, n_rows], -1)
        z, size_term = assigned(of_rows, size_term, how.prior, doubt)  # 2
        n = z.sum(-1, keepdim=True)
        if step == 0:  # the prototypes are still class sums / held
            own, whole = (held.square() * A * AG).sum((1, 2)), ((held * A).sum(1) * (held * AG).sum(1)).sum(-1)
            alike = likeness(own, whole, shots)
            T = steps_of_rows(alike, n, how.n_iter, in_every_step(how))  # 6
        part = takes_part(step, T, how.n_iter)
        h = part * pulls(z, 1)
        pull = torch.cat([label_pulls(y, of_support, known, how.prior), h], -1)
        A = (1 - how.sigma) * A + how.sigma * mixture(pull, m, d) / (held + h.sum(-1, keepdim=True))  # 3
        settled = step >= first_settled(how.n_iter)
        size_term, weight = class_sizes(n, size_term, doubt, how.prior, settled, how.chance, part)  # 4, 5
        m, Gm, d = center(of_classes(weight, z))
    AG = A @ G
    z, size_term = assigned(gaussian(A, AG, m, AG, d)[..., n_support:], size_term, how.prior)
    if episodes.unlabeled_index is None:
        return z.mT
    query = episodes.query
    XQ = X @ query.mT  # (E, N', Q)
    length = inverse_length(query.square().sum(-1)[:, None], m @ XQ, (m * Gm).sum(-1, keepdim=True))
    return (gaussian(A, AG, m, A @ XQ, length) + size_term).softmax(1).mT
