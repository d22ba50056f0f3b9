"""What every method in METHODS must keep, whatever its paper."""

import copy

import numpy as np
import pytest
import torch
from helpers.cases import clouds, slow
from reference import REFERENCE

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods import METHODS, method

# Fewer steps where a method has a thousand: the laws do not depend on how long it runs.
SHORT = {
    "tim_gd": {"n_iter": 30},
    "alpha_tim": {"n_iter": 30},
    "tim_adm": {"n_iter": 20},
    "ilpc": {"n_steps": 40, "n_neighbors": 5},
    "lr_ici": {"n_lambdas": 20},
}
RUNS = {name: method(name, **SHORT.get(name, {})) for name in METHODS}
every_method = pytest.mark.parametrize("name", RUNS)
CLOSE = {"atol": 1e-6, "rtol": 1e-6}


def assert_rows_are_distributions(answer: torch.Tensor, episodes: Episodes) -> None:
    assert answer.shape == (*episodes.query_index.shape, episodes.n_way)
    assert torch.isfinite(answer).all()
    assert (answer >= 0).all()
    torch.testing.assert_close(answer.sum(-1), torch.ones_like(answer[..., 0]), atol=1e-5, rtol=0)


@every_method
def test_a_batch_is_as_many_single_calls(name):
    episodes, _ = clouds(episodes=4)
    alone = torch.cat([RUNS[name](episodes[e : e + 1]) for e in range(4)])
    torch.testing.assert_close(RUNS[name](episodes), alone, **CLOSE)


@every_method
def test_calling_twice_gives_the_same_and_leaves_inputs_alone(name):
    episodes, _ = clouds()
    before = copy.deepcopy(vars(episodes))
    first, second = RUNS[name](episodes), RUNS[name](episodes)
    assert torch.equal(first, second)
    for key, value in before.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, getattr(episodes, key)), key


@every_method
def test_permuting_queries_permutes_the_answers(name):
    episodes, _ = clouds()
    order = torch.randperm(episodes.query_index.shape[1])
    shuffled = Episodes.from_tensors(
        episodes.support, episodes.support_labels, episodes.query[:, order], 3, base_mean=episodes.base_mean
    )
    torch.testing.assert_close(RUNS[name](shuffled), RUNS[name](episodes)[:, order], **CLOSE)


@every_method
def test_permuting_queries_with_duplicates_permutes_the_answers(name):
    """Ties are never broken by position: rows that are equal get equal answers."""
    episodes, _ = clouds(queries=6)
    doubled = torch.cat([episodes.query, episodes.query], 1)
    made = Episodes.from_tensors(episodes.support, episodes.support_labels, doubled, 3, base_mean=episodes.base_mean)
    answer = RUNS[name](made)
    torch.testing.assert_close(answer[:, :6], answer[:, 6:], **CLOSE)


@every_method
def test_relabelling_classes_permutes_the_columns(name):
    episodes, _ = clouds()
    renamed = torch.tensor([2, 0, 1])
    made = Episodes.from_tensors(
        episodes.support, renamed[episodes.support_labels], episodes.query, 3, base_mean=episodes.base_mean
    )
    torch.testing.assert_close(RUNS[name](made)[..., renamed], RUNS[name](episodes), **CLOSE)


@every_method
@pytest.mark.parametrize("kind", ["duplicates", "zeros", "one query", "one class", "one row everywhere"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_odd_rows_give_distributions(name, kind, dtype):
    episodes, _ = clouds(dtype=dtype)
    support, query = episodes.support, episodes.query
    if kind == "duplicates":
        query = query[:, :3].repeat(1, 4, 1)
    elif kind == "zeros":
        support, query = torch.zeros_like(support), torch.zeros_like(query)
    elif kind == "one query":
        query = query[:, :1]
    elif kind == "one class":
        query = support[:, :1] + 0.01 * query
    else:
        support, query = support[:, :1].expand_as(support), support[:, :1].expand_as(query)
    made = Episodes.from_tensors(support, episodes.support_labels, query, 3, base_mean=episodes.base_mean)
    assert_rows_are_distributions(RUNS[name](made), made)


@every_method
@pytest.mark.parametrize("shots", [1, 5])
def test_separable_blobs_are_told_apart(name, shots):
    episodes, labels = clouds(way=5, shots=shots, queries=25, dim=64, spread=0.02, balanced=True)
    assert (RUNS[name](episodes).argmax(-1) == labels).all()


@every_method
def test_float32_answers_like_float64(name):
    single, _ = clouds(dtype=torch.float32)
    double = single.each_row(torch.Tensor.double)
    double = Episodes.from_tensors(
        double.support, double.support_labels, double.query, 3, base_mean=single.base_mean.double()
    )
    torch.testing.assert_close(RUNS[name](single).double(), RUNS[name](double), atol=2e-3, rtol=0)


@pytest.mark.parametrize("name", ["cipa", "semi_protonet", "pt_map", "soft_kmeans"])
def test_no_iterations_is_the_prototype_start(name):
    """With nothing to adapt, the answer is that of the calibrated class means."""
    episodes, _ = clouds(queries=30)
    start = METHODS[name](episodes, n_iter=0)
    none = {"n_steps": 0} if name == "semi_protonet" else {"n_iter": 0}
    torch.testing.assert_close(start, slow(REFERENCE[name], episodes, **none), atol=1e-5, rtol=1e-5)
    moved = METHODS[name](episodes, n_iter=1)
    assert not torch.allclose(start, moved)


@pytest.mark.parametrize("name", ["simpleshot", "bd_cspn"])
def test_classes_of_the_same_rows_share_hard_answers(name):
    """Their means differ in the last digit where rows come in another order: no class may win by that."""
    rows = torch.from_numpy(np.random.default_rng(7).normal(size=(200, 7, 40))).float()
    support = torch.cat([rows[:, :3], rows[:, [2, 0, 1]]], 1)
    labels = torch.tensor([0, 0, 0, 1, 1, 1]).expand(200, 6)
    made = Episodes.from_tensors(support, labels, rows[:, 3:], 2, base_mean=rows.mean((0, 1)))
    torch.testing.assert_close(RUNS[name](made), torch.full((200, 4, 2), 0.5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_method
def test_gpu_and_cpu_agree(name):
    episodes, _ = clouds(episodes=50, way=5, shots=1, queries=75, dim=128, dtype=torch.float32)
    on_gpu = RUNS[name](episodes.to("cuda")).cpu().argmax(-1)
    assert (on_gpu == RUNS[name](episodes).argmax(-1)).float().mean() >= 0.9999
