"""Every recipe builds and trains; configs are checked, kept and changed as said."""

import json
from dataclasses import fields, replace

import pytest
import torch
from helpers import toy

from protoadapt.core.errors import UserError
from protoadapt.training import Phase, TrainConfig, train
from protoadapt.training.datasets import DATASETS
from protoadapt.training.recipes import RECIPES, apply_overrides, recipe
from protoadapt.training.recipes.dataset_settings import SETTINGS

TINY = ["size=16", "backbone=conv4", "width=4", "epochs=3", "batch=8", "way=2", "shot=1", "query=2", "episodes=1"]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_trains(name, tmp_path):
    config, images = recipe(name, TINY), toy.images(each=3)
    taught = [number for number, phase in enumerate(config.phases) if phase.teacher]
    if taught:  # by an earlier network: here it is
        first = str(tmp_path / "first")
        train(recipe("hct_r", TINY), images, None, first, progress=False, accelerator="cpu")
        start = [f"init_from={first}"] if config.init_from else []
        config = apply_overrides(config, [*start, *(f"phases.{number}.teacher={first}" for number in taught)])
    result = train(config, images, None, tmp_path / "run", progress=False, accelerator="cpu")
    assert result["finished"]
    assert result["steps"] >= 2
    assert all(torch.isfinite(torch.tensor(row["loss"])) for row in result["history"])
    wanted = [set(config.phase(epoch).weights) for epoch in range(3)]
    assert all(names <= row.keys() for names, row in zip(wanted, result["history"]))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_command_and_survives_json(name):
    config = recipe(name)
    data = "" if config.dataset == "glyphs" else " --data DIR"  # glyphs are drawn
    assert f"protoadapt train {name}{data} --out" in RECIPES[name].__doc__
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_cover_every_dataset():
    assert SETTINGS.keys() == DATASETS.keys()


def test_the_paper_rows():
    """Loss = L_ce + L_rot + η L_hct, the last after a third of the epochs."""
    config = recipe("hct_r")
    assert [config.phase(epoch).weights for epoch in (0, 12, 13, 39)] == [
        {"ce": 1, "rotation": 1},
        {"ce": 1, "rotation": 1},
        {"ce": 1, "rotation": 1, "hct": 1},
        {"ce": 1, "rotation": 1, "hct": 1},
    ]
    assert (config.optimizer, config.lr, config.momentum, config.weight_decay) == ("sgd", 0.2, 0.9, 5e-4)
    assert (config.batch, config.ema, config.alpha, config.size) == (256, 0.999, 2, 84)
    paper = recipe("hct_r_paper")
    assert (paper.optimizer, paper.lr, paper.epochs, paper.warmup) == ("adam", 1e-3, 300, 0)
    assert recipe("hct_r_paper", ["dataset=tiered-imagenet"]).epochs == 60
    assert recipe("hct_r_cub_box").crop == "box"


def test_a_dataset_brings_its_crops():
    assert recipe("hct", ["dataset=mini-imagenet"]).weak_crop == "resized"
    assert recipe("hct", ["dataset=mini-imagenet", "weak_crop=pad"]).weak_crop == "pad"


def test_overrides_are_read_as_the_field_wants_them():
    config = apply_overrides(
        recipe("hct_r"),
        ["epochs=7", "alpha=1", "sync_batchnorm=true", "width=none", "mixing_layers=0,2", "phases.1.hct=0.5",
         "phases.0.until=1/2", "lr = 1e-3"],
    )  # fmt: skip
    assert (config.epochs, config.alpha, config.sync_batchnorm, config.width) == (7, 1.0, True, None)
    assert (config.mixing_layers, config.lr) == ((0, 2), 1e-3)
    assert config.phases[1].weights["hct"] == 0.5
    assert config.phases[0].until == 0.5
    assert recipe("hct_r").epochs == 40, "the recipe itself is untouched"
    taught = apply_overrides(recipe("hct_r"), ["phases.1.teacher=runs/first", "phases.1.distill=0.5"])
    assert (taught.phases[1].teacher, taught.phases[1].weights["distill"]) == ("runs/first", 0.5)
    assert taught.phases[0] == recipe("hct_r").phases[0]
    assert apply_overrides(taught, ["phases.1.distill=none", "phases.1.teacher=none"]) == recipe("hct_r")
    assert (taught.phases_without_epochs, replace(taught, epochs=1).phases_without_epochs) == ([], [0])


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
        ("phases.1.teacher=runs/first", "distill and a teacher belong together"),
        ("dropblock=1", r"dropblock is 1.0: it must be in \[0, 1\)"),
        ("epochs=0", "epochs is 0: it must be a whole number from 1 to 1000000"),
        ("epochs=2147483646", "epochs is 2147483646: it must be a whole number from 1 to 1000000"),
        ("lr=0", "lr is 0.0: it must be a number from 1e-30 to 1e30"),
        ("lr=inf", "lr is inf: it must be a number from 1e-30 to 1e30"),
        ("weight_decay=inf", "weight_decay is inf: it must be a number from 0 to 1e30"),
        ("phases.1.hct=inf", "the weight of hct is inf: it must be a number from 0 to 1e30"),
        ("warmup=41", "warmup is 41.0: it must be a number from 0 to epochs, which is 40"),
        ("warmup=-1", "warmup is -1.0: it must be a number from 0"),
        ("episode_batch=101", "episode_batch is 101: it must be at most episodes, which is 100"),
        ("validation_episodes=100000001", "it must be a whole number from 1 to 100000000"),
        ("ema=1", r"ema is 1.0: it must be in \[0, 1\)"),
        ("sync_batchnorm=perhaps", "true or false"),
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
    with pytest.raises(UserError, match="sampler"):
        Phase(1.0, {"protonet": 1})
    with pytest.raises(UserError, match="teacher"):
        Phase(1.0, {"ce": 1, "distill": 1})
    for seed in (-1, 2**32):
        with pytest.raises(UserError, match=f"seed is {seed}: it must be a whole number from 0"):
            TrainConfig(seed=seed)
    with pytest.raises(UserError, match="no setting 'epoch'"):
        TrainConfig.from_dict({"epoch": 3})


def test_every_field_has_a_comment():
    """A config field without words is a knob nobody can turn."""
    import inspect

    source = inspect.getsource(TrainConfig)
    plain = {
        "label_smoothing",
        "momentum",
        "lr",
        "seed",
        "epochs",
        "distill_temperature",
        "phases",
        "validation_episodes",
    }
    for f in fields(TrainConfig):
        line = next(text for text in source.splitlines() if text.strip().startswith(f"{f.name}:"))
        assert "#" in line or f.name in plain, f.name


def test_a_teacher_and_a_start_from_an_earlier_run(tmp_path):
    first = toy.config(phases=(Phase(1.0),), epochs=1)
    base, options = toy.images(), {"progress": False, "accelerator": "cpu"}
    train(first, base, None, tmp_path / "first", **options)
    phases = (Phase(1.0, {"ce": 0.5, "distill": 0.5}, teacher=str(tmp_path / "first")),)
    second = replace(first, phases=phases, init_from=str(tmp_path / "first"), lr=1e-9)
    result = train(second, base, None, tmp_path / "second", **options)
    assert result["history"][0]["distill"] >= 0
    other = toy.images(classes=3, each=16)
    with pytest.raises(UserError, match="knows 4 classes, not 3"):
        train(second, other, None, tmp_path / "third", **options)
