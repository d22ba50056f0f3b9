"""Transductive fine-tuning (Dhillon et al., ICLR 2020), the head alone: the features stay as they are."""

import torch

from .common import class_means, rows, step_down, unit


def transductive_fine_tuning(support, support_labels, query, n_way, *, n_epochs=25, lr=5e-5):
    """A linear head on unit features, started at the unit class means and bias 0.

    Settled from the authors' code: the mean is taken over the raw rows, then made unit; one Adam serves both losses, so
    moments and step count are shared; each epoch is a step on the mean support cross-entropy, then one on the mean
    query entropy at the head that the first step left.
    """
    raw = rows(support)
    weight = torch.from_numpy(unit(class_means(raw, support_labels, n_way))).requires_grad_()
    bias = torch.zeros(n_way, dtype=torch.float64, requires_grad=True)
    s, q = torch.from_numpy(unit(raw)), torch.from_numpy(unit(rows(query)))
    y = torch.as_tensor(support_labels).long()

    def log_p(x):
        return torch.log_softmax(x @ weight.T + bias, dim=1)

    adam = torch.optim.Adam([weight, bias], lr)
    for _ in range(n_epochs):
        cross_entropy = -log_p(s)[torch.arange(len(y)), y].mean()
        step_down(adam, cross_entropy)
        entropy = -(log_p(q).exp() * log_p(q)).sum(dim=1).mean()
        step_down(adam, entropy)
    return log_p(q).exp().detach().numpy()
