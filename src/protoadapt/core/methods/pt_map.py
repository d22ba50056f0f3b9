"""PT+MAP. Hu, Gripon, Pateux: Leveraging the Feature Distribution in Transfer-based Few-Shot Learning (ICANN 2021).

Rows are prepared as in CIPA. Assignments are Sinkhorn's transport plan, whose class sizes are fixed beforehand, and
class centres move towards the assigned rows in small steps. With N unlabelled rows q and class shares π, from
p_c = S_c/K_c, n_iter times

    z_qc = softmax_c(−λ ‖q − p_c‖² + ℓ_c),   ℓ such that Σ_q z_qc = N π_c       Sinkhorn's iteration, from ℓ = 0
    p_c ← (1 − σ) p_c + σ (S_c + Σ_q z_qc q) / (K_c + N π_c)                    σ: the setting `step`

and the answer is z once more.
"""

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods import settings
from protoadapt.core.methods.common import powered, transductive_only
from protoadapt.core.methods.family import Rule, adapt


@settings.checked
def pt_map(
    episodes: Episodes,
    *,
    n_iter: settings.Steps = 20,
    step: settings.StepSize = 0.2,
    lam: settings.TransportScale = 10.0,
    beta: settings.Exponent = 0.5,
    power: settings.Power = "strict",
    class_prior: settings.ClassPrior = None,
) -> Tensor:
    """Centres adapted by optimal transport with fixed class sizes. Returns (E, Q, W).

    The class sizes are an assumption: equal ones unless `class_prior` (W shares) says otherwise. On imbalanced queries
    that assumption is wrong and costs many points. `PTMAPClassifier` has power="auto" by default.
    """
    transductive_only(episodes, "PT+MAP")
    return adapt(powered(episodes, beta, power), transport_rule(n_iter, step, lam, class_prior))


def transport_rule(n_iter: int, step: float, lam: float, class_prior: settings.Shares) -> Rule:
    """Every assignment is a transport plan: Sinkhorn's iteration is run to its end in each step."""
    return Rule(
        similarity="euclid",
        scale=lam,
        n_iter=n_iter,
        sigma=step,
        center="separate",
        l2=True,
        sizes="transport",
        class_prior=class_prior,
    )
