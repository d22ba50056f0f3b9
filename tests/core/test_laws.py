"""What every method in METHODS must keep, whatever its paper."""

import copy
import inspect
import math
import types
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.cases import ODD, clouds, remade, shortened, slow, slow_loop

from protoadapt.core.episodes import Episodes
from protoadapt.core.errors import UserError
from protoadapt.core.estimators import PrototypeClassifier
from protoadapt.core.features import BASE
from protoadapt.core.methods import METHODS, declarations, method

# Fewer steps where a method has many: the laws do not depend on how long it runs.
SHORT = {name: shortened(name, 20) for name in METHODS}
RUNS = {name: method(name, **SHORT[name]) for name in METHODS}


def refuses_unlabelled_rows(name: str) -> bool:
    try:
        RUNS[name](clouds(unlabeled=9)[0])
    except UserError:
        return True
    return False


SEMI = [name for name in METHODS if not refuses_unlabelled_rows(name)]
"""Methods with a semi-supervised form."""
every_method = pytest.mark.parametrize("name", RUNS)
semi_method = pytest.mark.parametrize("name", SEMI)
every_form = pytest.mark.parametrize(
    ("name", "unlabeled"), [*((name, 0) for name in METHODS), *((name, 9) for name in SEMI)]
)
CLOSE = {"atol": 1e-6, "rtol": 1e-6}


def slack(name: str) -> float:
    """Sinkhorn's iteration ends when no row moves by more than 1e-6, on the one side or the other."""
    return 1e-5 if name == "pt_map" else 1e-6


def assert_rows_are_distributions(answer: torch.Tensor, episodes: Episodes) -> None:
    assert answer.shape == (*episodes.query_index.shape, episodes.n_way)
    assert torch.isfinite(answer).all()
    assert (answer >= 0).all()
    torch.testing.assert_close(answer.sum(-1), torch.ones_like(answer[..., 0]), atol=1e-5, rtol=0)


@every_form
@pytest.mark.parametrize("counts", [{"spread": 0.5}, {"spread": 1.5}, {"dim": 6, "queries": 20}], ids=str)
def test_equals_the_slow_loop_of_the_same_name(name, unlabeled, counts):
    """Where rows are more than dimensions, too."""
    episodes, _ = clouds(episodes=2, unlabeled=unlabeled, **counts)
    expected = slow(name, episodes, **SHORT[name])
    torch.testing.assert_close(RUNS[name](episodes), expected, atol=slack(name), rtol=0)


EITHER = [{}, {"n_iter": 0}, {"n_iter": 3, "sigma": 1.0}]
SWITCHES = {
    "cipa": [
        *EITHER,
        *({"center": center} for center in ("joint", "support", "none")),
        {"l2": False},
        {"power": "off"},
        {"power": "off", "center": "none", "l2": False},
        {"beta": 0.3, "tau": 4.0},
        {"query_center": "unlabeled"},
        {"query_center": "unlabeled", "center": "joint"},
    ],
    "bapa": [
        *EITHER,
        {"kappa": 0.5, "lam": 4.0},
        {"power": "off"},
        {"class_prior": "equal"},
        {"class_prior": [0.5, 0.3, 0.2], "n_iter": 5},
    ],
    "protonet": [{}, {"metric": "euclid"}],
    "semi_protonet": [{}, {"n_iter": 5}, {"metric": "cosine", "n_iter": 5}, {"n_iter": 0}],
    "soft_kmeans": [{}, {"tau": 2.0}],
    "pt_map": [{}, {"class_prior": [0.5, 0.3, 0.2]}, {"n_iter": 0}],
    "laplacian_shot": [{"lam": 1.2, "rectify": False, "n_neighbors": 4}],
    "tim_adm": [{"weights": (1.0, 2.0, 0.5), "temp": 8.0, "n_iter": 40}],
    "tim_gd": [{"n_iter": 120, "lr": 1e-3}],
    # With equal weights the entropies of a single query cancel, and Adam would enlarge the rounding that is left.
    "alpha_tim": [
        {"n_iter": 120, "lr": 1e-3, "weights": (0.5, 1.0, 2.0)},
        {"n_iter": 40, "alpha": 1.3, "weights": (0.5, 1.0, 2.0)},
    ],
    "transductive_fine_tuning": [{"n_epochs": 40, "lr": 1e-2}],
}
"""Settings that are not the defaults, and which answer otherwise."""


@pytest.mark.parametrize(("name", "settings"), [(name, one) for name in SWITCHES for one in SWITCHES[name]], ids=str)
@pytest.mark.parametrize("counts", [{}, {"shots": 5}, {"queries": 1, "shots": 1}, {"unlabeled": 9}], ids=str)
def test_every_switch_is_that_of_its_slow_loop(name, settings, counts):
    if name not in SEMI and "unlabeled" in counts:
        pytest.skip("it has no semi-supervised form")
    episodes, _ = clouds(spread=1.0, **counts)
    expected = slow(name, episodes, **settings)
    torch.testing.assert_close(METHODS[name](episodes, **settings), expected, atol=slack(name), rtol=0)


@every_form
def test_a_batch_is_as_many_single_calls(name, unlabeled):
    episodes, _ = clouds(episodes=4, unlabeled=unlabeled)
    alone = torch.cat([RUNS[name](episodes[e : e + 1]) for e in range(4)])
    torch.testing.assert_close(RUNS[name](episodes), alone, **CLOSE)


@every_form
def test_calling_twice_gives_the_same_and_leaves_inputs_alone(name, unlabeled):
    episodes, _ = clouds(unlabeled=unlabeled)
    before = copy.deepcopy(vars(episodes))
    first, second = RUNS[name](episodes), RUNS[name](episodes)
    assert torch.equal(first, second)
    for key, value in before.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, getattr(episodes, key)), key


@every_form
def test_permuting_rows_permutes_the_answers(name, unlabeled):
    """Of queries; the order of unlabelled rows means nothing."""
    episodes, _ = clouds(unlabeled=unlabeled)
    order = torch.randperm(episodes.query_index.shape[1])
    shuffled = {"query": episodes.query[:, order]}
    if unlabeled:
        shuffled["unlabeled"] = episodes.unlabeled[:, torch.randperm(unlabeled)]
    torch.testing.assert_close(RUNS[name](remade(episodes, **shuffled)), RUNS[name](episodes)[:, order], **CLOSE)


@every_method
def test_equal_queries_get_equal_answers(name):
    """Ties are never broken by position: those of the slow loop share."""
    episodes, _ = clouds(queries=6)
    made = remade(episodes, query=torch.cat([episodes.query, episodes.query], 1))
    answer = RUNS[name](made)
    torch.testing.assert_close(answer[:, :6], answer[:, 6:], **CLOSE)
    torch.testing.assert_close(answer, slow(name, made, **SHORT[name]), atol=slack(name), rtol=0)


@every_form
def test_relabelling_classes_permutes_the_columns(name, unlabeled):
    episodes, _ = clouds(unlabeled=unlabeled)
    renamed = torch.tensor([2, 0, 1])
    other = RUNS[name](remade(episodes, support_labels=renamed[episodes.support_labels]))
    torch.testing.assert_close(other[..., renamed], RUNS[name](episodes), **CLOSE)


@every_form
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_odd_rows_give_distributions(name, unlabeled, kind, dtype):
    """Of the queries; beside unlabelled rows, of those."""
    episodes, _ = clouds(dtype=dtype, unlabeled=unlabeled)
    part = "unlabeled" if unlabeled else "query"
    support, rows = ODD[kind](episodes.support, getattr(episodes, part))
    made = remade(episodes, support=support, **{part: rows})
    assert_rows_are_distributions(RUNS[name](made), made)


@every_method
@pytest.mark.parametrize("shots", [1, 5])
def test_separable_blobs_are_told_apart(name, shots):
    episodes, labels = clouds(way=5, shots=shots, queries=25, dim=64, spread=0.02, balanced=True)
    assert (RUNS[name](episodes).argmax(-1) == labels).all()


@every_method
def test_float32_answers_like_float64(name):
    single, _ = clouds(dtype=torch.float32)
    base = {key: getattr(single, key).double() for key in BASE}
    double = replace(single, rows=single.rows.double(), memo={}, **base)
    torch.testing.assert_close(RUNS[name](single).double(), RUNS[name](double), atol=2e-3, rtol=0)


SCALES = [
    *((torch.float16, scale) for scale in (1, 1e-6, 5e3)),
    *((torch.bfloat16, scale) for scale in (1, 1e-25, 1e30)),
    *((torch.float32, scale) for scale in (1e-36, 1e-25, 1e-20, 1e30)),
    *((torch.float64, scale) for scale in (1e-150, 1e150)),
]


@every_method
@pytest.mark.parametrize(("dtype", "scale"), SCALES, ids=str)
def test_separable_blobs_are_told_apart_at_any_scale_and_in_half_precision(name, dtype, scale):
    made, labels = clouds(way=5, shots=5, queries=25, dim=64, spread=0.02, balanced=True)
    rows = (made.rows * scale).to(dtype)
    base = {"base_mean": made.base_mean * scale, "base_covariance": made.base_covariance}
    made = replace(made, rows=rows, memo={}, **base)
    answer = RUNS[name](made)
    assert_rows_are_distributions(answer, made)
    assert (answer.argmax(-1) == labels).all()


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


# ---------------------------------------------------------------------------------------------- unlabelled rows


@pytest.mark.parametrize("name", sorted(METHODS.keys() - SEMI))
def test_methods_without_a_semi_supervised_form_refuse_unlabelled_rows(name):
    episodes, _ = clouds(unlabeled=9)
    with pytest.raises(UserError, match="no semi-supervised form"):
        RUNS[name](episodes)
    assert "unlabeled" not in inspect.signature(slow_loop(name)).parameters


@semi_method
def test_beside_unlabelled_rows_each_query_is_answered_alone(name):
    episodes, _ = clouds(unlabeled=9)
    together = RUNS[name](episodes)
    for q in (0, 5):
        alone = RUNS[name](remade(episodes, query=episodes.query[:, q : q + 1]))
        torch.testing.assert_close(alone, together[:, q : q + 1], **CLOSE)


@semi_method
def test_many_rows_take_another_form_with_the_same_answers(name):
    """More rows than dimensions and than SMALL: feature space instead of a Gram matrix."""
    for counts in ({"queries": 300}, {"queries": 5, "unlabeled": 300}):
        episodes, _ = clouds(episodes=2, **counts)
        expected = slow(name, episodes, **SHORT[name])
        torch.testing.assert_close(RUNS[name](episodes), expected, atol=1e-6, rtol=1e-5)


# ---------------------------------------------------------------------------------------------- settings

ESTIMATORS = {kind.method.__name__: kind for kind in PrototypeClassifier.__subclasses__()}
SETTINGS = [(name, key) for name in METHODS for key in declarations(METHODS[name])]


def wrong_values(declared):
    """Values that do not fit, of every kind that people write."""
    low, high, kinds = declared.low, declared.high, declared.kinds
    yield "abc"
    yield {}
    if types.NoneType not in kinds:
        yield None
    if bool in kinds:
        yield from (1, 0.5)
        return
    if str in kinds:
        yield from (3, True)
        return
    numbers = [-1, math.nan, math.inf, -math.inf, 10**24, 10**400, low - 1, low - 1e-3 * abs(low), high * 1.01]
    numbers = [value for value in numbers if not low <= value <= high]
    if Sequence in kinds:
        length = declared.length or 3
        yield from (0.5, ["a"] * length, [0.5] * (length - 1) + [True])
        yield from ([0.5] * (length - 1) + [value] for value in numbers)
        if declared.length:
            yield from ([0.5] * (length - 1), [0.5] * (length + 1))
    else:
        yield from (*numbers, True, [1], "1 2")
        if int in kinds:
            yield from (2.5, 3.0)


@pytest.mark.parametrize(("name", "key"), SETTINGS)
def test_every_setting_out_of_its_range_is_one_sentence(name, key):
    """Of the method, of what words make of it, and of its estimator."""
    episodes, _ = clouds(episodes=1)
    X, y = episodes.support[0].numpy(), episodes.support_labels[0].numpy()
    calls = [lambda v: METHODS[name](episodes, **{key: v}), lambda v: method(name, **{key: v})]
    if name in ESTIMATORS and key in ESTIMATORS[name]().get_params():
        calls.append(lambda v: ESTIMATORS[name](**{key: v}).fit(X, y))
    for value in wrong_values(declarations(METHODS[name])[key]):
        for call in calls:
            with pytest.raises(UserError, match=f"^{key} is .*: it must be [^\n]*$"):
                call(value)


@pytest.mark.parametrize(("name", "key"), SETTINGS)
def test_every_setting_at_the_ends_of_its_range_gives_distributions(name, key):
    declared = declarations(METHODS[name])[key]
    low, high = declared.low, declared.high
    if declared.choices:
        values = declared.choices
    elif bool in declared.kinds:
        values = (True, False)
    elif Sequence in declared.kinds:
        values = ([low] * 3, [high] * 3, [low, high, low])
    else:
        values = (int(low), 3) if int in declared.kinds else (low, high)
    assert declared.help
    for value in values:
        for dtype in (torch.float32, torch.float64):
            episodes, _ = clouds(dtype=dtype)
            answer = METHODS[name](episodes, **{**SHORT[name], key: value})
            assert_rows_are_distributions(answer, episodes)


def test_class_priors_of_another_number_of_classes_are_refused():
    episodes, _ = clouds()
    for name in ("pt_map", "bapa"):
        with pytest.raises(UserError, match="3 positive shares, one per class"):
            METHODS[name](episodes, class_prior=[0.5, 0.5])


def test_a_users_method_may_have_any_annotations():
    def mine(episodes, tau: "a number, or so" = 3, n: int = 2, way: "Nothing" = None):  # noqa: F722, F821
        return episodes

    assert method(mine, tau="x").settings == {"tau": "x", "n": 2, "way": None}

    def plain(episodes, n: int = 2, other: float | None = None):
        return episodes

    assert method(plain, n=5, other=None).settings == {"n": 5, "other": None}
    with pytest.raises(UserError, match=r"n is 'x': it must be a whole number$"):
        method(plain, n="x")
    with pytest.raises(UserError, match="plain has no setting 'm'"):
        method(plain, m=1)


# ---------------------------------------------------------------------------------------------- estimators

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
OTHER_DEFAULTS = {"cipa": {"power": "auto"}, "pt_map": {"power": "auto"}}
"""Of estimators, where they differ from the method's; the docstring of the method says so. (CIPA's query_center is no
setting of the estimator: it answers all rows about the centre of the unlabelled ones.)"""


@every_estimator
def test_estimators_have_the_settings_and_defaults_of_their_method(name):
    expected = {one.name: one.default for one in declarations(METHODS[name]).values()} | OTHER_DEFAULTS.get(name, {})
    assert inspect.Parameter.empty not in expected.values()
    expected.pop("query_center", None)  # of episodes alone
    expected |= {"discover": False} if name == "bapa" else {}
    assert ESTIMATORS[name]().get_params() == expected | {"device": "cpu"}
    for key in OTHER_DEFAULTS.get(name, {}):
        assert f"{key}=" in METHODS[name].__doc__


@every_estimator
@pytest.mark.parametrize("unlabeled", [0, 12])
def test_estimator_and_method_agree(name, unlabeled):
    """By default, up to the two defaults that differ, and with other settings."""
    if unlabeled and name == "pt_map":
        pytest.skip("the method has no semi-supervised form")
    episodes, _ = clouds(episodes=1, queries=20, unlabeled=unlabeled)
    others = {"n_iter": 3, "sigma": 0.7, "step": 0.7, "tau": 3.0, "lam": 4.0, "beta": 0.3, "metric": "cosine"}
    others |= {"center": "joint", "kappa": 1.5, "class_prior": [0.2, 0.3, 0.5]}
    for settings in ({}, {key: value for key, value in others.items() if key in declarations(METHODS[name])}):
        model = ESTIMATORS[name](**settings)
        same = {key: value for key, value in model.get_params().items() if key not in ("device", "discover")}
        if name == "cipa":
            same["query_center"] = "unlabeled"
        rest = (episodes.unlabeled if unlabeled else episodes.query)[0]
        y = torch.cat([episodes.support_labels[0], torch.full((len(rest),), -1)])
        model.fit(torch.cat([episodes.support[0], rest]).numpy(), y.numpy())
        answer = METHODS[name](episodes, **same)[0].numpy()
        np.testing.assert_allclose(model.predict_proba(episodes.query[0].numpy()), answer, atol=1e-6)
