"""Rivals in paper/ against their slow loops, as users' own methods."""

from dataclasses import replace
from math import e, log1p

import pytest
import torch
from helpers.cases import clouds, remade, slow
from reference.alpha_am import alpha_am
from reference.ilpc import ilpc
from reference.lr_ici import lr_ici
from reference.open_rivals import eol, oslo, proto_lp
from reference.paddle import unem

from benchmarks.synthetic import synthetic_features
from paper.rivals.unem import LAYERS, fit_unem
from protoadapt.core.episodes import draw
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.methods import method
from protoadapt.core.protocol import Protocol

RIVALS = {
    "paper.rivals.unem:unem": (unem, {}),
    "paper.rivals.alpha_am:alpha_am": (alpha_am, {"n_iter": 20}),
    "paper.rivals.lr_ici:lr_ici": (lr_ici, {"n_lambdas": 15, "per_class": 2}),
    "paper.rivals.ilpc:ilpc": (ilpc, {"n_steps": 50, "per_class": 2, "n_neighbors": 5, "class_prior": [0.5, 0.3, 0.2]}),
    "paper.rivals.oslo:oslo": (oslo, {}),
    "paper.rivals.eol:eol": (eol, {"n_iter": 20, "b": 0.3}),
    "paper.rivals.proto_lp:proto_lp": (proto_lp, {"n_components": 5}),
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


def test_eol_centres_by_the_task_where_base_classes_are_unknown():
    episodes = replace(clouds()[0], base_mean=None)
    answer = method("paper.rivals.eol:eol", n_iter=5)(episodes)
    torch.testing.assert_close(answer, slow(eol, episodes, n_iter=5), atol=1e-6, rtol=0)


@torch.no_grad()  # as the evaluation calls them
@pytest.mark.parametrize("name", RIVALS)
def test_rivals_obey_the_laws_of_a_method(name):
    """Rows sum to 1, a batch equals single calls, inputs are unchanged, permuted queries and classes permute."""
    arguments = {key: value for key, value in RIVALS[name][1].items() if key != "class_prior"}
    run = method(name, **arguments)
    episodes, _ = clouds(spread=0.8)
    before = episodes.rows.clone()
    answer = run(episodes)
    torch.testing.assert_close(answer.sum(-1), torch.ones_like(answer[..., 0]))
    singles = torch.cat([run(episodes[e : e + 1]) for e in range(len(episodes))])
    torch.testing.assert_close(answer, singles, atol=1e-6, rtol=0)
    queries, classes = torch.randperm(answer.shape[1]), torch.tensor([2, 0, 1])
    other = {"support_labels": classes[episodes.support_labels], "query": episodes.query[:, queries]}
    permuted = run(remade(episodes, **other))
    torch.testing.assert_close(permuted[..., classes], answer[:, queries], atol=1e-6, rtol=0)
    assert torch.equal(episodes.rows, before)


def test_unem_learns_weights_that_are_better_than_those_it_starts_from():
    table, protocol = synthetic_features(classes=12, rows=40, dim=16, spread=0.8), Protocol("dirichlet", query=8)
    drawn = next(draw(table.labels.numpy(), protocol, 0, 16))
    found = fit_unem(drawn.episodes(table.features, 5), torch.from_numpy(drawn.query_labels))
    assert len(found["gammas"]) == len(found["temps"]) == LAYERS
    start = {"scale": 10.0, "gammas": [log1p(e)] * LAYERS, "temps": [1 + log1p(e)] * LAYERS}
    specs = [method("paper.rivals.unem:unem", **weights) for weights in (start, found)]
    before, after = compare(table.features, table.labels, specs, protocol, episodes=16)
    assert after.accuracy > before.accuracy
