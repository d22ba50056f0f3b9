"""The reference loops that solve something, against optimality conditions and other libraries' solvers."""

import numpy as np
import pytest
import torch

from .cases import episode, means, softened
from .common import one_hot, sinkhorn, unit
from .fine_tune import transductive_fine_tuning
from .pt_map import pt_map
from .tim import adm_step, alpha_tim, probabilities, tim_adm, tim_gd, tim_loss

# ---------------------------------------------------------------------------------------------- transport


def test_sinkhorn_is_the_entropic_optimum():
    """Right marginals and the form u_i K_ic v_c together characterise the optimum: no linear programme is needed."""
    kernel = np.exp(-5 * np.random.default_rng(0).random((12, 4)))
    columns = np.array([1.0, 2.0, 4.0, 5.0])
    plan = sinkhorn(kernel, columns, eps=1e-12, max_rounds=100000)
    np.testing.assert_allclose(plan.sum(axis=0), columns, atol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=1), 1.0, atol=1e-9)
    potential = np.log(plan / kernel)
    potential = potential - potential.mean(axis=0) - potential.mean(axis=1)[:, None] + potential.mean()
    np.testing.assert_allclose(potential, 0.0, atol=1e-10)


@pytest.mark.parametrize("prior", [None, [0.1, 0.1, 0.2, 0.3, 0.3]])
def test_pt_map_answers_have_the_assumed_class_sizes(prior):
    support, y, query, _, _ = episode(7, noise=1.5)
    p = pt_map(support, y, query, 5, class_prior=prior)
    np.testing.assert_allclose(p.sum(axis=0), 30 * np.array(prior or [0.2] * 5), atol=1e-3)


# ---------------------------------------------------------------------------------------------- gradient methods


@pytest.mark.parametrize("method", [tim_adm, tim_gd])
def test_tim_starts_at_the_prototypes_and_gains_information(method):
    support, y, query, _, _ = episode(8, noise=1.2, shot=2)
    q = torch.from_numpy(unit(query))
    start = probabilities(q, torch.from_numpy(means(unit(support), y, 5)), 15.0)
    np.testing.assert_allclose(method(support, y, query, 5, n_iter=0), start.numpy(), atol=1e-12)
    sure = torch.from_numpy(one_hot(y, 5))  # the support term at 0: what is left the queries alone determine
    answers = [torch.from_numpy(method(support, y, query, 5, n_iter=n)) for n in (0, 10, 150)]
    losses = [float(tim_loss(sure, sure, p, (0.1, 1.0, 0.1))) for p in answers]
    assert losses[0] > losses[1] > losses[2]


def test_tim_adm_step_is_a_scaled_gradient_step():
    """w' − w = −∇/(temp·denominator) for the loss c₁ Σ_S CE(y, P) + c₂ Σ_Q CE(R, P) with R held fixed."""
    support, y, query, _, _ = episode(8, noise=1.2, shot=2)
    s, q, labels = unit(support), unit(query), one_hot(y, 5)
    w = torch.from_numpy(means(s, y, 5)).requires_grad_()
    p_s, p_q = (probabilities(torch.from_numpy(x), w, 15.0) for x in (s, q))
    sharp = p_q.detach() ** 1.1
    r = sharp / sharp.sum(dim=0).sqrt()
    r = r / r.sum(dim=1, keepdim=True)
    c1, c2 = 0.1 / 1.1, 10 / 30
    loss = -c1 * (torch.from_numpy(labels) * p_s.log()).sum() - c2 * (r * p_q.log()).sum()
    (gradient,) = torch.autograd.grad(loss, [w])
    scale = 15.0 * (c1 * labels.sum(axis=0) + c2 * r.sum(dim=0).numpy())
    expected = w.detach().numpy() - gradient.numpy() / scale[:, None]
    np.testing.assert_allclose(adm_step(s, labels, q, w.detach().numpy(), 15.0, (0.1, 1.0, 0.1)), expected, atol=1e-12)


def test_alpha_tim_tends_to_tim_as_alpha_tends_to_one():
    support, y, query, _, _ = episode(8, noise=1.2)
    shannon = tim_gd(support, y, query, 5, n_iter=60, lr=1e-3, weights=(1.0, 1.0, 1.0))
    near = alpha_tim(support, y, query, 5, n_iter=60, lr=1e-3, alpha=1.0 + 1e-6)
    np.testing.assert_allclose(near, shannon, atol=1e-4)
    far = alpha_tim(support, y, query, 5, n_iter=60, lr=1e-3)
    np.testing.assert_array_equal(far, alpha_tim(support, y, query, 5, n_iter=60, lr=1e-3, alpha=2.0))
    assert np.abs(far - shannon).max() > 1e-3


def test_fine_tune_is_a_torch_linear_layer_under_one_adam():
    support, y, query, _, _ = episode(8, shot=2)
    head = torch.nn.Linear(24, 5, dtype=torch.float64)
    head.weight.data = torch.from_numpy(unit(means(support, y, 5)))
    head.bias.data.zero_()
    s, q = torch.from_numpy(unit(support)), torch.from_numpy(unit(query))
    np.testing.assert_allclose(
        transductive_fine_tuning(support, y, query, 5, n_epochs=0), softened(head(q).detach()), atol=1e-13
    )
    adam = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(25):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(head(s), torch.from_numpy(y)).backward()
        adam.step()
        adam.zero_grad()
        torch.distributions.Categorical(logits=head(q)).entropy().mean().backward()
        adam.step()
    np.testing.assert_allclose(
        transductive_fine_tuning(support, y, query, 5, lr=1e-2), softened(head(q).detach()), atol=1e-10
    )
