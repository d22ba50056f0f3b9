"""Every recipe builds and trains; configs are checked, kept and changed as said."""

import json
import math
from dataclasses import replace

import pytest
import torch
from helpers import toy
from safetensors.torch import load_file

from protoadapt.core.errors import UserError
from protoadapt.training import Phase, TrainConfig, train
from protoadapt.training.config import apply_overrides, declared_settings
from protoadapt.training.datasets import DATASETS
from protoadapt.training.recipes import RECIPES, ablation, earlier_run, recipe
from protoadapt.vision.networks import model_files

TINY = "size=16 backbone=conv4 width=4 epochs=3 batch=8 way=2 shot=1 query=2 episodes=1 episode_batch=1".split()  # noqa: SIM905


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains(name, tmp_path):
    images, earlier = toy.images(each=3), []
    if earlier_run(name):
        train(recipe("hct_r", TINY), images, None, tmp_path / "first", accelerator="cpu")
        earlier = [f"{earlier_run(name)}={tmp_path / 'first'}"]
    config = recipe(name, [*TINY, *earlier])
    result = train(config, images, None, tmp_path / "run", accelerator="cpu")
    assert result["finished"]
    assert result["steps"] >= 2
    assert all(torch.isfinite(torch.tensor(row["loss"])) for row in result["history"])
    wanted = [set(config.phase(epoch).weights) for epoch in range(3)]
    assert all(names <= row.keys() for names, row in zip(wanted, result["history"]))


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_that_another_starts_from_or_learns_from_is_named_by_the_user(name):
    earlier = earlier_run(name)
    command = RECIPES[name].__doc__.splitlines()[0]
    assert f"protoadapt train {name} --data DIR --out runs/" in command
    assert (f"--set {earlier}=runs/" in command) == bool(earlier)
    if earlier:
        with pytest.raises(UserError, match=f"{name} needs an earlier run: name its folder with --set {earlier}=RUN"):
            recipe(name)
    config = recipe(name, ["dataset=glyphs", *([f"{earlier}=elsewhere"] if earlier else [])])
    assert config.dataset == "glyphs"
    assert ("elsewhere" in json.dumps(config.to_dict())) == bool(earlier)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_recipe_with_another_dataset():
    assert recipe("hct_r", ["dataset=folder", "epochs=3"]) == replace(ablation.hct_r("folder"), epochs=3)
    assert recipe("hct_r", ["dataset=mini_imagenet"]).dataset == "mini-imagenet"
    assert recipe("paper", ["dataset=tiered-imagenet"]).epochs == 60
    with pytest.raises(UserError, match="did you mean 'cub'"):
        recipe("hct_r", ["dataset=cubs"])
    assert ablation.SETTINGS.keys() == DATASETS.keys()


def test_hct_starts_after_a_third_of_the_epochs():
    config = recipe("hct_r")
    weights = [config.phase(epoch).weights for epoch in (0, 12, 13, 39)]
    assert weights == [{"ce": 1, "rotation": 1}] * 2 + [{"ce": 1, "rotation": 1, "hct": 1}] * 2


@pytest.mark.parametrize("row", ablation.ROWS)
def test_the_papers_own_schedule_for_every_row(row):
    config = recipe("paper", ["dataset=cub", f"objective={row}", "crop=box", "schedule=constant"])
    assert config.phases == recipe(row).phases
    assert (config.dataset, config.crop, config.schedule, config.size) == ("cub", "box", "constant", 84)
    assert (config.optimizer, config.lr, config.weight_decay, config.warmup) == ("adam", 1e-3, 0, 0)
    assert (config.weak_crop, config.jitter, config.flip, config.epochs) == ("pad", 0, True, 300)
    with pytest.raises(UserError, match="did you mean 'hct'"):
        recipe("paper", ["objective=htc"])


def test_overrides_are_read_as_the_field_wants_them():
    config = apply_overrides(
        recipe("hct_r"),
        ["epochs=7", "alpha=1", "frozen=false", "width=none", "mixing_layers=0,2", "phases.1.hct=0.5",
         "phases.0.until=0.5", "lr = 1e-3", "crop=none", "init_from=7"],
    )  # fmt: skip
    assert (config.epochs, config.alpha, config.frozen, config.width) == (7, 1.0, False, None)
    assert (config.mixing_layers, config.lr, config.crop, config.init_from) == ((0, 2), 1e-3, "none", "7")
    assert config.phases[1].weights["hct"] == 0.5
    assert config.phases[0].until == 0.5
    assert recipe("hct_r").epochs == 40, "the recipe itself is untouched"
    taught = apply_overrides(recipe("hct_r"), ["phases.1.teacher=runs/first", "phases.1.distill=0.5"])
    assert (taught.phases[1].teacher, taught.phases[1].weights["distill"]) == ("runs/first", 0.5)
    assert taught.phases[0] == recipe("hct_r").phases[0]
    assert apply_overrides(taught, ["phases.1.distill=none", "phases.1.teacher=none"]) == recipe("hct_r")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epoch=3", "did you mean 'epochs'"),
        ("epochs=many", "epochs is 'many': it must be a whole number"),
        ("epochs", "write key=value"),
        ("backbone=resnet", "there is no backbone"),
        ("batch=30", "multiple of 4"),
        ("phases.4.hct=1", "names no phase"),
        (f"phases.{'9' * 5000}.hct=1", "names no phase"),
        ("phases.1.hctt=1", "did you mean 'hct'"),
        ("phases.1.teacher=runs/first", "the teacher is 'runs/first': give both or neither"),
        ("phases.1.hct=inf", "the weight of hct is inf: it must be a number from 0 to 1e30"),
        ("warmup=41", "warmup is 41: it must be at most epochs, which is 40"),
        ("episode_batch=101", "episode_batch is 101: it must be at most episodes, which is 100"),
        ("frozen=perhaps", "true or false"),
    ],
)
def test_wrong_overrides_name_the_way_out(override, message):
    with pytest.raises(UserError, match=message):
        apply_overrides(recipe("hct_r"), [override])


def test_wrong_configs_are_refused():
    with pytest.raises(UserError, match="did you mean 'hct_r'"):
        recipe("hctr")
    with pytest.raises(UserError, match="their ends must grow"):
        TrainConfig(phases=(Phase(0.5),))
    with pytest.raises(UserError, match="choose one"):
        Phase(1.0, {"hct": 1, "manifold_mixup": 1})
    with pytest.raises(UserError, match="distill learns from a teacher, and the teacher is None"):
        Phase(1.0, {"ce": 1, "distill": 1})
    for seed in (-1, 2**32):
        with pytest.raises(UserError, match=f"seed is {seed}: it must be a whole number from 0"):
            TrainConfig(seed=seed)


@pytest.mark.parametrize("declared", declared_settings(TrainConfig).values(), ids=lambda declared: declared.name)
def test_every_setting_has_help_and_refuses_what_is_not_in_its_range(declared):
    """One sentence with the name, the value and what it should be."""
    assert len(declared.help.split()) >= 3
    low, high = declared.low - 1, declared.high * 1.001 + 1
    for value in (object(), *((low, high, math.nan, "3", True) if declared.kinds[0] in (int, float) else ())):
        with pytest.raises(UserError, match=f"^{declared.name} is .*: it must be "):
            TrainConfig(**{declared.name: value})


def test_a_teacher_and_a_start_from_an_earlier_run(tmp_path):
    first = toy.config(phases=(Phase(1.0),), epochs=1)
    base, options = toy.images(), {"accelerator": "cpu"}
    train(first, base, None, tmp_path / "first", **options)
    phases = (Phase(1.0, {"ce": 0.5, "distill": 0.5}, teacher=str(tmp_path / "first")),)
    second = replace(first, phases=phases, init_from=str(tmp_path / "first"), lr=1e-9)
    result = train(second, base, None, tmp_path / "second", **options)

    earlier, later = (load_file(model_files.latest(tmp_path / run) / model_files.MODEL) for run in ("first", "second"))
    for name, tensor in earlier.items():  # at this learning rate, the backbone stays the one that it started from
        if name.startswith("backbone.") and name.endswith((".weight", ".bias")):
            torch.testing.assert_close(later[name], tensor, rtol=0, atol=1e-6)
    assert not torch.equal(later["classifier.weight"], earlier["classifier.weight"]), "a new classifier is drawn"

    assert result["history"][0]["distill"] > 0.01

    other = toy.images(classes=3, each=16)
    with pytest.raises(UserError, match="do not fit the network"):
        train(second, other, None, tmp_path / "third", **options)


def test_training_lowers_the_loss_and_beats_chance(tmp_path):
    """Eight noisy pictures, each in copies: base classes to be learned, new ones to be told apart by the embedding."""
    config = toy.config(phases=(Phase(1.0, {"ce": 1.0}),), epochs=8, width=8, lr=0.1, ema=0.5, validation_episodes=20)
    base, val = toy.images(classes=8, each=16), toy.images(classes=8, each=16, seed=1)
    result = train(config, base, val, tmp_path / "run", accelerator="cpu")
    first, last = result["history"][0], result["history"][-1]
    assert last["loss"] < 0.5 * first["loss"]
    assert last["accuracy"] > 4 * 100 / 8
    assert result["best"]["cipa_1"] > 2 * 100 / 5
