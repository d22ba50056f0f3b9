"""Transductive Information Maximization, for imbalanced queries too."""

import numpy as np
import torch

from .common import class_means, one_hot, rows, softmax, squared_distance, step_down, unit

# Transductive Information Maximization (Boudiaf et al., NeurIPS 2020): TIM-GD and TIM-ADM.


def adm_step(s, y, q, w, temp, weights):
    """One alternating update of w (W,D) from unit support rows s, their one-hot labels y and unit queries q.

    Settled from the authors' code: R comes from P at the old w, and the update of w uses P_S and P_Q at that same old w
    (P only beside w − z, R only as the label and in the denominator); a full step.
    """
    ce, marginal, conditional = weights
    c1, c2 = ce / (1 + conditional), len(s) / len(q)
    p_s = softmax(-0.5 * temp * squared_distance(s, w))
    p_q = softmax(-0.5 * temp * squared_distance(q, w))

    sharp = p_q ** (1 + conditional)
    r = sharp / sharp.sum(axis=0) ** (marginal / (marginal + 1))
    r = r / r.sum(axis=1, keepdims=True)

    new = np.empty_like(w)
    for c in range(len(w)):
        from_support = y[:, c] @ s + p_s[:, c] @ (w[c] - s)
        from_query = r[:, c] @ q + p_q[:, c] @ (w[c] - q)
        new[c] = (c1 * from_support + c2 * from_query) / (c1 * y[:, c].sum() + c2 * r[:, c].sum())
    return new


def tim_adm(support, support_labels, query, n_way, *, n_iter=150, temp=15.0, weights=(0.1, 1.0, 0.1)):
    """``weights`` are those of CE, H(Y) and H(Y|X). No stop test; the softmax at the final w."""
    s, q = unit(rows(support)), unit(rows(query))
    y = one_hot(support_labels, n_way)
    w = class_means(s, support_labels, n_way)
    for _ in range(n_iter):
        w = adm_step(s, y, q, w, temp, weights)
    return softmax(-0.5 * temp * squared_distance(q, w))


def probabilities(x, w, temp):
    """softmax of temp·(−½‖x − w_c‖²), in torch so that a loss of it can be differentiated."""
    return torch.softmax(-0.5 * temp * ((x[:, None, :] - w[None, :, :]) ** 2).sum(dim=2), dim=1)


def descend(loss, support, support_labels, query, n_way, n_iter, lr, temp):
    """Adam on the prototypes w, started at the means of the unit support rows; the softmax at the final w."""
    s, q = torch.from_numpy(unit(rows(support))), torch.from_numpy(unit(rows(query)))
    y = torch.from_numpy(one_hot(support_labels, n_way))
    w = torch.from_numpy(class_means(s.numpy(), support_labels, n_way)).requires_grad_()
    adam = torch.optim.Adam([w], lr)
    for _ in range(n_iter):
        step_down(adam, loss(probabilities(s, w, temp), y, probabilities(q, w, temp)))
    return probabilities(q, w, temp).detach().numpy()


def cross_entropy(p_s, y):
    return -(y * torch.log(p_s + 1e-12)).sum(dim=1).mean()


def tim_loss(p_s, y, p_q, weights):
    """Means over rows, natural logarithms; the marginal is the mean of the queries' probabilities."""
    marginal = p_q.mean(dim=0)
    h_y = -(marginal * torch.log(marginal + 1e-12)).sum()
    h_y_given_x = -(p_q * torch.log(p_q + 1e-12)).sum(dim=1).mean()
    return weights[0] * cross_entropy(p_s, y) - weights[1] * h_y + weights[2] * h_y_given_x


def tim_gd(support, support_labels, query, n_way, *, n_iter=1000, lr=1e-4, temp=15.0, weights=(0.1, 1.0, 0.1)):
    def loss(p_s, y, p_q):
        return tim_loss(p_s, y, p_q, weights)

    return descend(loss, support, support_labels, query, n_way, n_iter, lr, temp)


# α-TIM for imbalanced queries (Veilleux et al., NeurIPS 2021).


def alpha_entropy(p, alpha):
    """(1 − Σ p^α)/(α − 1) along the last axis."""
    return (1 - (p**alpha).sum(dim=-1)) / (alpha - 1)


def alpha_tim(
    support, support_labels, query, n_way, *, alpha=None, n_iter=1000, lr=1e-4, temp=15.0, weights=(1.0, 1.0, 1.0)
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
