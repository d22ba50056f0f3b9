"""What the laws do not say of LaplacianShot and TIM: when an episode stops, and priors."""

import pytest
import torch
from helpers.cases import clouds

from protoadapt.core.methods.common import class_means, unit
from protoadapt.core.methods.laplacian_shot import laplacian_shot
from protoadapt.core.methods.tim import tim_adm, tim_gd


def test_laplacian_shot_stops_each_episode_by_itself():
    episodes, _ = clouds(episodes=8, spread=1.0, queries=20)
    together, rounds = laplacian_shot(episodes), set()
    for e in range(8):
        alone = laplacian_shot(episodes[e : e + 1])
        torch.testing.assert_close(together[e : e + 1], alone, atol=1e-12, rtol=0)
        rounds.add(next(n for n in range(21) if torch.equal(laplacian_shot(episodes[e : e + 1], n_iter=n), alone)))
    assert len(rounds) > 1  # else nothing was shown
    assert max(rounds) < 20


def test_tim_gd_with_a_prior_descends_the_divergence_from_it():
    """Against autograd on the loss written out: CE + KL(mean p ‖ π) + H(Y|X), with torch's own Adam."""
    episodes, _ = clouds()
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    rows = episodes.each_row(unit)
    w = class_means(rows.support, rows.membership).requires_grad_()
    adam = torch.optim.Adam([w], lr=1e-2)

    def posterior(x):
        return (-7.5 * (x[:, :, None] - w[:, None]).square().sum(-1)).softmax(-1)

    for _ in range(25):
        p, mean = posterior(rows.query), posterior(rows.query).mean(1)
        cross = -(posterior(rows.support).log() * rows.membership).sum(-1).mean(1)
        divergence = (mean * (mean / prior).log()).sum(-1)
        entropy = -(p * p.log()).sum(-1).mean(1)
        adam.zero_grad()
        (0.1 * cross + divergence + 0.1 * entropy).sum().backward()
        adam.step()
    ours = tim_gd(episodes, n_iter=25, lr=1e-2, class_prior=prior)
    torch.testing.assert_close(ours, posterior(rows.query).detach(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("run", [tim_adm, tim_gd])
def test_tim_follows_a_prior(run):
    episodes, _ = clouds(queries=30, spread=1.0)
    steps = {"n_iter": 150, "lr": 1e-2} if run is tim_gd else {}
    torch.testing.assert_close(run(episodes, class_prior=[2, 2, 2], **steps), run(episodes, **steps))
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    given, equal = run(episodes, class_prior=prior, **steps).mean(1), run(episodes, **steps).mean(1)
    assert ((given - prior).abs().sum(1) < (equal - prior).abs().sum(1)).all()
