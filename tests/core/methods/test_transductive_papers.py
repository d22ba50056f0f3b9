"""What the laws do not say of LaplacianShot: when an episode stops."""

import torch
from helpers.cases import clouds

from protoadapt.core.methods.laplacian_shot import laplacian_shot


def test_laplacian_shot_stops_each_episode_by_itself():
    episodes, _ = clouds(episodes=8, spread=1.0, queries=20)
    together, rounds = laplacian_shot(episodes), set()
    for e in range(8):
        alone = laplacian_shot(episodes[e : e + 1])
        torch.testing.assert_close(together[e : e + 1], alone, atol=1e-12, rtol=0)
        rounds.add(next(n for n in range(21) if torch.equal(laplacian_shot(episodes[e : e + 1], n_iter=n), alone)))
    assert len(rounds) > 1  # else nothing was shown
    assert max(rounds) < 20
