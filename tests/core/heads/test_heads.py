"""What every head in HEADS must keep, and its slow loop."""

import copy
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.cases import ODD, clouds, remade
from reference import heads as reference
from scipy.optimize import linprog

from protoadapt.core.errors import UserError
from protoadapt.core.heads import HEADS, HeadShape, as_method
from protoadapt.core.heads.deepemd import least_cost_flow
from protoadapt.core.heads.head import dropout
from protoadapt.core.heads.leo import sample as leo_sample
from protoadapt.core.heads.metaoptnet import svm_dual

SHAPE = HeadShape(dim=8, side=2, way=3, shot=2)
ORDERED = {"gnn", "snail"}
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
        for name, statistic in head.named_buffers():
            if "running" in name:
                statistic.copy_(torch.rand(statistic.shape, generator=generator) + 0.5)
    if hasattr(head, "steps"):
        head.steps = 2
    return head.to(dtype).eval()


def episodes_for(name, **changes):
    dim = SHAPE.dim * (SHAPE.side**2 if HEADS[name].places else 1)
    return clouds(**{"way": 3, "shots": 2, "dim": dim, **changes})


def answer(name, episodes, **options):
    with torch.no_grad():
        return as_method(name, made(name, **options))(episodes)


@every_head
def test_equals_its_slow_loop(name):
    episodes, _ = episodes_for(name)
    weights = {key: t.double().numpy() for key, t in made(name).state_dict().items()}
    for e, fast in enumerate(answer(name, episodes)):
        rows = (episodes.support[e].numpy(), episodes.support_labels[e].numpy(), episodes.query[e].numpy())
        expected = getattr(reference, name)(weights, *rows, episodes.n_way)
        np.testing.assert_allclose(fast.numpy(), expected, atol=1e-6)


@every_head
def test_laws(name):
    """Rows are distributions, a batch is as many single calls, twice gives the same, inputs stay, queries permute, and
    float32 answers like float64."""
    episodes, _ = episodes_for(name, episodes=4)
    before = copy.deepcopy(vars(episodes))
    together, order = answer(name, episodes), torch.randperm(12)
    assert together.shape == (4, 12, 3)
    torch.testing.assert_close(together.sum(-1), torch.ones(4, 12, dtype=torch.float64))
    torch.testing.assert_close(torch.cat([answer(name, episodes[e : e + 1]) for e in range(4)]), together, **CLOSE)
    assert torch.equal(answer(name, episodes), together)
    assert all(torch.equal(v, getattr(episodes, k)) for k, v in before.items() if isinstance(v, torch.Tensor))
    torch.testing.assert_close(answer(name, remade(episodes, query=episodes.query[:, order])), together[:, order])
    single = answer(name, replace(episodes, rows=episodes.rows.float(), memo={}), dtype=torch.float32)
    torch.testing.assert_close(single.double(), together, atol=2e-3, rtol=0)


@pytest.mark.parametrize("name", sorted(HEADS.keys() - ORDERED))
def test_relabelling_classes_permutes_the_columns(name):
    episodes, _ = episodes_for(name)
    renamed = torch.tensor([2, 0, 1])
    other = answer(name, remade(episodes, support_labels=renamed[episodes.support_labels]))
    torch.testing.assert_close(other[..., renamed], answer(name, episodes), **CLOSE)


@every_head
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_odd_rows_give_distributions(name, kind, dtype):
    episodes, _ = episodes_for(name, dtype=dtype)
    support, query = ODD[kind](episodes.support, episodes.query)
    odd = remade(episodes, support=support, query=query)
    probabilities = answer(name, odd, dtype=dtype)
    assert torch.isfinite(probabilities).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones_like(probabilities[..., 0]), atol=1e-5, rtol=0)


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
    unlabeled, _ = episodes_for(name, unlabeled=3)
    with pytest.raises(UserError, match="no semi-supervised form"):
        method(unlabeled)
    other_way, _ = episodes_for(name, way=4)
    other_shot, _ = episodes_for(name, shots=1)
    words = "trained with 3 classes and .* 4: set --way 3|trained with 2 support rows per class and .* 1: set --shot 2"
    for fixed, other in ((kind.fixed_way, other_way), (kind.fixed_shot, other_shot)):
        with pytest.raises(UserError, match=words) if fixed else nullcontext():
            assert torch.isfinite(method(other)).all()
    words = f"the episodes have 11: extract with its own network, {'with' if kind.places else 'without'} --maps"
    with pytest.raises(UserError, match=words):
        method(clouds(way=3, shots=2, dim=11)[0])


def test_dropout_keeps_the_mean_and_is_off_without_noise():
    x = torch.ones(200, 100)
    assert dropout(x, 0.5, None) is x
    one = dropout(x, 0.4, torch.Generator().manual_seed(1))
    assert one.unique().tolist() == [0.0, pytest.approx(1 / 0.6)]
    assert float(one.mean()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_the_gradient_of_the_machine_is_that_of_finite_differences(size):
    """That it is at its optimum is seen from its slow loop, which asks another solver."""
    rng = np.random.default_rng(0)
    rows, direction = (torch.from_numpy(size * rng.normal(size=(1, 6, 9))) for _ in range(2))
    y = torch.eye(3, dtype=torch.float64).repeat_interleave(2, 0)[None]
    weight = torch.from_numpy(rng.normal(size=y.shape))
    value = lambda rows: (svm_dual(rows @ rows.mT, y) * weight).sum()  # noqa: E731
    tracked = rows.clone().requires_grad_()
    value(tracked).backward()
    numeric = float(value(rows + 1e-5 * direction) - value(rows - 1e-5 * direction)) / 2e-5
    assert float((tracked.grad * direction).sum()) == pytest.approx(numeric, rel=1e-3, abs=1e-6)


def test_the_flow_meets_its_marginals_and_costs_little_more_than_the_exact_one():
    """By linear programming; the entropy's price is at most ε times the difference of the entropies."""
    rng = np.random.default_rng(0)
    similarity = rng.uniform(0, 1, (5, 5))
    a, b = rng.uniform(0.1, 1, (2, 5))
    flow = least_cost_flow(*(torch.from_numpy(x) for x in (similarity, a, b))).numpy()
    a, b = 5 * a / a.sum(), 5 * b / b.sum()
    np.testing.assert_allclose(flow.sum(0), b, rtol=1e-9)
    np.testing.assert_allclose(flow.sum(1), a, rtol=0.02)
    sums = np.concatenate([np.kron(np.eye(5), np.ones((1, 5))), np.kron(np.ones((1, 5)), np.eye(5))])
    exact = linprog((1 - similarity).ravel(), A_eq=sums, b_eq=np.concatenate([a, b])).fun
    cost = np.sum(flow * (1 - similarity))
    assert exact - 0.05 <= cost <= exact + 0.05 * 5 * np.log(25)


@torch.no_grad()
def test_the_conditions_of_tadam():
    """γ₀ g(t) and β₀ b(t), written out for each episode and layer; t is the mean of the prototypes."""
    shape = HeadShape(dim=8, side=1, way=3, shot=2, channels=(4, 6))
    head, (episodes, _) = made("tadam", shape), clouds(way=3, shots=2, dim=8)
    weights = {key: t.numpy() for key, t in head.state_dict().items()}
    with torch.no_grad():
        films = head.film(episodes.support, episodes.membership)
    for e in range(len(episodes)):
        rows, labels = episodes.support[e].numpy(), episodes.support_labels[e].numpy()
        task = np.mean([rows[labels == c].mean(0) for c in range(3)], 0)
        for layer, pair in enumerate(films):
            for kind, found in zip(("gamma", "beta"), pair):
                h = task
                for number in range(3):
                    x = np.maximum(h, 0) if number else h
                    out = weights[f"{kind}.{layer}.{number}.weight"] @ x + weights[f"{kind}.{layer}.{number}.bias"]
                    h = x + out if number else out
                np.testing.assert_allclose(found[e].numpy(), weights[f"{kind}_size"][layer] * h, atol=1e-9)
    logits, targets = torch.zeros(1, 2, 3, dtype=torch.float64), torch.tensor([[0, 1]])
    sizes = (weights["gamma_size"] ** 2).sum() + (weights["beta_size"] ** 2).sum()
    assert float(head.loss(logits, targets, 0.0).detach()) == pytest.approx(np.log(3) + 0.005 * sizes)


def cross_entropy(logits, labels) -> float:
    return np.mean([-float(row.log_softmax(0)[y]) for e, ys in zip(logits, labels) for row, y in zip(e, ys)])


@torch.no_grad()
@pytest.mark.parametrize("name", sorted(HEADS.keys() - {"leo"}))
def test_losses_of_their_own(name):
    """RelationNet regresses on 0 and 1; TPN answers its support too; the others take the cross-entropy of queries."""
    episodes, labels = episodes_for(name)
    head, parts = made(name), (episodes.support, episodes.membership, episodes.query)
    logits, loss = head.train_step(parts, labels)
    torch.testing.assert_close(logits, head(*parts))
    expected = cross_entropy(logits, labels)
    if name == "relation":
        expected = np.mean((logits.numpy() - np.eye(3)[labels]) ** 2)
    elif name == "tpn":
        expected = cross_entropy(head.spread(*parts), torch.cat([episodes.support_labels, labels], 1))
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_the_loss_of_leo_is_that_of_its_queries_and_four_penalties():
    episodes, labels = episodes_for("leo")
    head, parts = made("leo"), (episodes.support, episodes.membership, episodes.query)
    logits, loss = head.train_step(parts, labels)
    weights = {key: t.double().numpy() for key, t in head.state_dict().items()}
    rows = weights["decode.weight"].T
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    penalty = 1e-3 * np.mean((rows @ rows.T - np.eye(64)) ** 2)
    penalty += 1e-8 / 2 * sum(np.sum(w**2) for key, w in weights.items() if key.endswith("weight"))
    own = cross_entropy(logits.detach(), labels)
    assert float(loss.detach()) == pytest.approx(own + penalty, rel=1e-6)  # the encoder's penalty is 1e-9 times ‖Δz‖²
    loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() and p.grad.any() for p in head.parameters())


def test_samples_of_leo_and_their_divergence():
    """σ = exp(u) − 1 + offset; the divergence, averaged over many samples, is that of two Gaussians."""
    parameters = torch.tensor([0.5, 0.3]).double().repeat_interleave(200_000)
    mean, divergence = leo_sample(parameters, 0.0, None)
    assert (float(mean[0]), float(divergence)) == (0.5, 0.0)
    sample, divergence = leo_sample(parameters, 0.1, torch.Generator().manual_seed(0))
    sigma = np.exp(0.3) - 0.9
    assert (float(sample.mean()), float(sample.std())) == (pytest.approx(0.5, abs=0.01), pytest.approx(sigma, rel=0.01))
    assert float(divergence) == pytest.approx(0.5 * (sigma**2 + 0.25 - 1) - np.log(sigma), abs=0.01)
