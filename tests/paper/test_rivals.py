"""Rivals in paper/ against their slow loops, as users' own methods."""

import pytest
import torch
from helpers.cases import clouds, slow
from reference.alpha_am import alpha_am
from reference.ilpc import ilpc
from reference.lr_ici import lr_ici
from reference.paddle import unem

from protoadapt.core.errors import UserError
from protoadapt.core.methods import method

RIVALS = {
    "paper.rivals.unem:unem": (unem, {}),
    "paper.rivals.alpha_am:alpha_am": (alpha_am, {"n_iter": 20}),
    "paper.rivals.lr_ici:lr_ici": (lr_ici, {"n_lambdas": 15, "per_class": 2}),
    "paper.rivals.ilpc:ilpc": (ilpc, {"n_steps": 50, "per_class": 2, "n_neighbors": 5, "class_prior": [0.5, 0.3, 0.2]}),
}


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_rivals_equal_their_slow_loops(name, spread):
    loop, arguments = RIVALS[name]
    episodes, _ = clouds(episodes=2, spread=spread)
    answer = method(name, **arguments)(episodes)
    torch.testing.assert_close(answer, slow(loop, episodes, **arguments), atol=1e-6, rtol=0)
    with pytest.raises(UserError, match="no semi-supervised form"):
        method(name, **arguments)(clouds(unlabeled=4)[0])
