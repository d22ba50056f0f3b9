"""BAPA: Balance-Agnostic Prototype Adaptation. Our own, beside the paper's CIPA, for queries of any class sizes.

CIPA centres the queries by their own mean: it quietly assumes that all classes are among them, about equally often.
BAPA estimates the class sizes, by a mixture model of the unlabelled rows.

**Model.** Rows have unit length after the power transform, are taken about a centre μ and brought to unit length again.
Class c is a Gaussian N(p_c, I/2λ) with p_c ~ N(0, I/2λk); the shares of the classes among the unlabelled rows are drawn
from a Dirichlet(a), with any a of a short geometric grid A as likely as the others. Beside the C classes stands one
without a name, with its prototype at the centre and the mass r, for rows of none of them.

C classes; unlabelled rows x_q and K_c labelled rows x_s of class c, with the sum S°_c; the same rows about μ,
q = unit(x_q − μ) and s = unit(x_s − μ), with the labelled sum S_c; n_c = Σ_q z_qc, n̄ = mean_c n_c,
r = mean_c K_c^(−½), k = κ r. From μ = mean_c S°_c/K_c, p_c = S_c/(K_c + k) and ℓ = 0, n_iter times

    l_c = λ (2 q·p_c − ‖p_c‖²) + ℓ_c
    z_qc = exp l_c / (r + Σ_c′ exp l_c′)
    p_c ← (1 − σ) p_c + σ (S_c + R_c + Σ_q z_qc q) / (K_c + k + n_c),   R_c = Σ_s (y_sc − softmax_c(l − ℓ)_s) s
    ℓ_c ← Σ_{a∈A} P(a|n) (ψ(n_c + a) − ψ(n̄ + a)),   P(a|n) ∝ DirichletMultinomial(n|a)
    μ ← mean_c (o S°_c + Σ_q z_qc x_q) / (o K_c + n_c)

but where Σ_c ((n_c − n̄)² + 1) < (C − 1) n̄, in place of the line of ℓ, and with r = 0 in the next step's z,

    ℓ_c ← ℓ_c + log(C n̄ π_c / n_c),   π_c = 1/C           added to the ℓ of the step before

and the answer is softmax_c(l) at the last p, ℓ and μ. A class without labelled rows starts at the centre with K_c = 0;
it takes no part in the means μ and r.

**Why each term.** μ, the mean of the class means, does not follow the balance: many rows of one class do not draw it to
themselves. r: a row that is nearer to the centre than to any prototype may be of no class, or of one that its
neighbours do not show, so it counts less; r and the k pseudo-rows, which shrink a prototype to the centre, fall as
class means get surer: their standard error falls with √K. p is the mean of its posterior, reached in damped steps. R is
the gradient of the labels' log-likelihood: a labelled row that its class no longer claims draws the class back and
pushes the others off; labelled rows were not drawn with the queries' class sizes, hence without ℓ. ℓ is the expected
logarithm of a class's share, with the concentration averaged out, so that no strength of imbalance has to be assumed.
Drawing n̄ rows of each class makes Σ_c (n_c − n̄)² (C − 1) n̄ in the mean. Sizes that differ less, and by so much that
a row more or fewer in each class makes no difference, are taken to be equal, and a round of Sinkhorn's iteration per
step brings them there. Few rows never say that classes are equal.

**Class sizes given** (`class_prior`): the second form of ℓ, with the shares π_c, in every step, and no class without a
name (r = 0 in z; k stays κ r). Run to its end in each step, this iteration is PT+MAP's transport.

`family` is the loop; o and A are its SUPPORT_WEIGHT and CONCENTRATIONS.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods import settings
from protoadapt.core.methods.common import powered
from protoadapt.core.methods.family import Rule, adapt

N_ITER, SIGMA, LAM, KAPPA = 8, 0.4, 11.0, 2.0
"""The defaults, chosen on validation classes. `BAPAClassifier` and the slow loop of the tests take them from here."""


@settings.checked
def bapa(
    episodes: Episodes,
    *,
    n_iter: settings.Steps = N_ITER,
    sigma: settings.StepSize = SIGMA,
    lam: settings.DistanceScale = LAM,
    kappa: settings.PseudoRows = KAPPA,
    beta: settings.Exponent = 0.5,
    power: settings.Power = "auto",
    class_prior: settings.ClassPrior = None,
) -> Tensor:
    """Needs no knowledge of the class sizes: many queries or one, mixed or of one class. Returns (E, Q, W).

    Where they are known, `class_prior` says so, and the answer keeps to it: "equal", or W shares. Where the episodes
    have unlabelled rows, those take the queries' place and the queries are answered one by one.

    >>> bapa(episodes).argmax(-1)    # (E, Q) predicted classes    # doctest: +SKIP
    """
    return adapt(powered(episodes, beta, power), mixture_rule(n_iter, sigma, lam, kappa, class_prior))


def mixture_rule(n_iter: int, sigma: float, lam: float, kappa: float, class_prior: settings.Shares) -> Rule:
    """BAPA's choices."""
    return Rule(
        similarity="euclid",
        scale=lam,
        n_iter=n_iter,
        sigma=sigma,
        center="classes",
        l2=True,
        sizes="estimated" if class_prior is None else "given",
        class_prior=class_prior,
        kappa=kappa,
    )
