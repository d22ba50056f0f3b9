"""α-TIM for imbalanced queries (Veilleux et al., NeurIPS 2021)."""

from .tim import cross_entropy, descend


def alpha_entropy(p, alpha):
    """(1 − Σ p^α)/(α − 1) along the last axis."""
    return (1 - (p**alpha).sum(dim=-1)) / (alpha - 1)


def alpha_tim(
    support,
    support_labels,
    query,
    n_way,
    *,
    unlabeled=None,
    base_mean=None,
    alpha=None,
    n_iter=1000,
    lr=1e-4,
    temp=15.0,
    weights=(1.0, 1.0, 1.0),
):
    """TIM-GD with α-entropies for H(Y) and H(Y|X); the cross-entropy stays Shannon's (the authors' configuration)."""
    if alpha is None:
        shot = len(support) / n_way
        alpha = 2.0 if shot < 2 else 5.0 if shot < 5 else 7.0

    def loss(p_s, y, p_q):
        h_y = alpha_entropy(p_q.mean(dim=0), alpha)
        h_y_given_x = alpha_entropy(p_q + 1e-12, alpha).mean()
        return weights[0] * cross_entropy(p_s, y) - weights[1] * h_y + weights[2] * h_y_given_x

    return descend(loss, support, support_labels, query, n_way, n_iter, lr, temp)
