"""PT+MAP: power transform, then Sinkhorn and maximum a posteriori centres (Hu, Gripon & Pateux, ICANN 2021)."""

import numpy as np

from .common import (
    adapted_means,
    class_means,
    column_totals,
    power_transform,
    resolve_power,
    rows,
    sinkhorn,
    squared_distance,
    unit,
)


def transport(query, centres, columns, lam, eps, max_rounds):
    """The plan (Q,W): exp(−λ‖q−μ‖²), divided by its total as the authors do (it moves only the first stop test)."""
    plan = np.exp(-lam * squared_distance(query, centres))
    return sinkhorn(plan / plan.sum(), columns, eps, max_rounds)


def pt_map(
    support,
    support_labels,
    query,
    n_way,
    *,
    lam=10.0,
    n_iter=20,
    step=0.2,
    class_prior=None,
    eps=1e-6,
    max_rounds=1000,
    power="strict",
    beta=0.5,
):
    """Assumes the class sizes: equal, or as ``class_prior`` (W,) says. Inside the loop the plan is used as Sinkhorn
    returns it (columns exact); the answer is one more plan at the final centres, rows normalised."""
    support, query = rows(support), rows(query)
    power = resolve_power(power, support, query)
    support, query = power_transform(support, power, beta), power_transform(query, power, beta)
    support, query = unit(support - support.mean(axis=0)), unit(query - query.mean(axis=0))

    columns = column_totals(len(query), n_way, class_prior)
    centres = class_means(support, support_labels, n_way)
    for _ in range(n_iter):
        plan = transport(query, centres, columns, lam, eps, max_rounds)
        estimate = adapted_means(support, support_labels, query, plan, n_way)
        centres = centres + step * (estimate - centres)

    plan = transport(query, centres, columns, lam, eps, max_rounds)
    return plan / plan.sum(axis=1, keepdims=True)
