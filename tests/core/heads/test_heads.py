"""What every head in HEADS must keep, and its slow loop."""

import copy

import numpy as np
import pytest
import torch
from helpers.cases import clouds
from reference.heads import SLOW_HEADS

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.heads import HEADS, HeadShape, as_method
from protoadapt.core.heads.head import dropout

SHAPE = HeadShape(dim=8, side=2, way=3, shot=2)
ORDERED: set[str] = set()
"""Heads whose answer depends on the order of the classes, by their papers' own construction."""
every_head = pytest.mark.parametrize("name", HEADS)
CLOSE = {"atol": 1e-6, "rtol": 1e-6}


def made(name, shape=SHAPE, dtype=torch.float64, seed=0):
    """A head with weights that differ from their start."""
    head = HEADS[name](shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(torch.rand(p.shape, generator=generator) * 0.6 - 0.2 + (p == 1))
    return head.to(dtype).eval()


def episodes_for(name, **changes):
    dim = SHAPE.dim * (SHAPE.side**2 if HEADS[name].places else 1)
    return clouds(**{"way": 3, "shots": 2, "dim": dim, **changes})


def answer(name, episodes, **options):
    with torch.no_grad():
        return as_method(name, made(name, **options))(episodes)


def remade(episodes, query=None, labels=None):
    labels = episodes.support_labels if labels is None else labels
    return Episodes.from_tensors(episodes.support, labels, episodes.query if query is None else query, 3)


@every_head
def test_equals_its_slow_loop(name):
    episodes, _ = episodes_for(name)
    weights = {key: t.double().numpy() for key, t in made(name).state_dict().items()}
    for e, fast in enumerate(answer(name, episodes)):
        rows = (episodes.support[e].numpy(), episodes.support_labels[e].numpy(), episodes.query[e].numpy())
        expected = SLOW_HEADS[name](weights, *rows, episodes.n_way)
        np.testing.assert_allclose(fast.numpy(), expected, atol=1e-6)


@every_head
def test_a_batch_is_as_many_single_calls_and_rows_are_distributions(name):
    episodes, _ = episodes_for(name, episodes=4)
    together = answer(name, episodes)
    assert together.shape == (4, 12, 3)
    torch.testing.assert_close(together.sum(-1), torch.ones(4, 12, dtype=torch.float64))
    torch.testing.assert_close(torch.cat([answer(name, episodes[e : e + 1]) for e in range(4)]), together, **CLOSE)


@every_head
def test_calling_twice_gives_the_same_and_leaves_inputs_alone(name):
    episodes, _ = episodes_for(name)
    before = copy.deepcopy(vars(episodes))
    method = as_method(name, made(name))
    with torch.no_grad():
        assert torch.equal(method(episodes), method(episodes))
    assert all(torch.equal(v, getattr(episodes, k)) for k, v in before.items() if isinstance(v, torch.Tensor))


@every_head
def test_permuting_queries_permutes_the_answers(name):
    episodes, _ = episodes_for(name)
    order = torch.randperm(12)
    shuffled = answer(name, remade(episodes, query=episodes.query[:, order]))
    torch.testing.assert_close(shuffled, answer(name, episodes)[:, order], **CLOSE)


@pytest.mark.parametrize("name", sorted(HEADS.keys() - ORDERED))
def test_relabelling_classes_permutes_the_columns(name):
    episodes, _ = episodes_for(name)
    renamed = torch.tensor([2, 0, 1])
    other = answer(name, remade(episodes, labels=renamed[episodes.support_labels]))
    torch.testing.assert_close(other[..., renamed], answer(name, episodes), **CLOSE)


@every_head
@pytest.mark.parametrize("kind", ["duplicates", "zeros", "one query", "one row everywhere"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_odd_rows_give_distributions(name, kind, dtype):
    episodes, _ = episodes_for(name, dtype=dtype)
    support, query = episodes.support, episodes.query
    if kind == "duplicates":
        query = query[:, :3].repeat(1, 4, 1)
    elif kind == "zeros":
        support, query = torch.zeros_like(support), torch.zeros_like(query)
    elif kind == "one query":
        query = query[:, :1]
    else:
        support, query = support[:, :1].expand_as(support), support[:, :1].expand_as(query)
    odd = Episodes.from_tensors(support, episodes.support_labels, query, 3)
    probabilities = answer(name, odd, dtype=dtype)
    assert torch.isfinite(probabilities).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones_like(probabilities[..., 0]), atol=1e-5, rtol=0)


@every_head
def test_float32_answers_like_float64(name):
    single, _ = episodes_for(name, dtype=torch.float32)
    double = Episodes.from_tensors(single.support.double(), single.support_labels, single.query.double(), 3)
    torch.testing.assert_close(
        answer(name, single, dtype=torch.float32).double(), answer(name, double), atol=2e-3, rtol=0
    )


@every_head
def test_the_gradient_is_finite_where_rows_are_equal_or_zero(name):
    """A batch of one picture many times must not end a run."""
    episodes, _ = episodes_for(name)
    for factor in (0.0, 1.0):
        support = (factor * episodes.support[:, :1].expand_as(episodes.support)).clone().requires_grad_()
        query = support[:, :1].expand(-1, 4, -1)
        logits = made(name)(support, episodes.membership, query)
        logits.log_softmax(-1)[..., 0].mean().backward()
        assert torch.isfinite(support.grad).all()


@every_head
def test_what_it_cannot_answer_is_one_sentence(name):
    kind, method = HEADS[name], as_method(name, made(name))
    unlabelled, _ = episodes_for(name, unlabeled=3)
    with pytest.raises(UserError, match="no semi-supervised form"):
        method(unlabelled)
    other_way, _ = episodes_for(name, way=4)
    other_shot, _ = episodes_for(name, shots=1)
    for fixed, other, said in (
        (kind.fixed_way, other_way, "answers 3 classes, as it was trained, and the episodes have 4: set --way 3"),
        (
            kind.fixed_shot,
            other_shot,
            "takes 2 support rows per class, as it was trained, and the episodes have 1 to 1",
        ),
    ):
        if fixed:
            with pytest.raises(UserError, match=said):
                method(other)
        else:
            assert torch.isfinite(method(other)).all()
    pooled, maps, strange = (clouds(way=3, shots=2, dim=dim)[0] for dim in (8, 32, 11))
    with pytest.raises(UserError, match="extract them with the network of the same run"):
        method(strange)
    with pytest.raises(UserError, match="extract them with --maps" if kind.places else "extract them without --maps"):
        method(pooled if kind.places else maps)


def test_dropout_keeps_the_mean_and_is_off_without_noise():
    x = torch.ones(200, 100)
    assert dropout(x, 0.5, None) is x
    one, two = (dropout(x, 0.4, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(one, two)
    assert one.unique().tolist() == [0.0, pytest.approx(1 / 0.6)]
    assert float(one.mean()) == pytest.approx(1, abs=0.02)
