"""The parts of the loop: what is drawn, fed, averaged, scheduled and kept."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import toy
from helpers.small_pictures import class_folders
from helpers.touched import touched

from protoadapt.core.errors import UserError
from protoadapt.training import Phase, TrainConfig, feed, load_splits, train
from protoadapt.training.build import launch
from protoadapt.training.loop import Run
from protoadapt.training.optim import Average, learning_rate
from protoadapt.training.plan import make_plan

LABELS = np.repeat(np.arange(4), 12)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_plan_does_not_depend_on_the_number_of_processes(epoch):
    whole = make_plan(toy.config(), epoch, LABELS, 4)
    halves = [make_plan(toy.config(), epoch, LABELS, 4, rank, 2) for rank in range(2)]
    assert np.array_equal(np.concatenate([h.first for h in halves], 1), whole.first)
    for name, draws in whole.weak.items():
        joined = torch.cat([h.weak[name].unflatten(0, (3, 8)) for h in halves], 1).flatten(0, 1)
        assert torch.equal(joined, draws)
    assert halves[0].layers == halves[1].layers == whole.layers
    assert torch.equal(halves[1].lams, whole.lams)
    with pytest.raises(UserError, match="batch 16 cannot be split over 3 processes: choose a multiple of"):
        make_plan(toy.config(), epoch, LABELS, 4, 0, 3)


def test_a_plan_takes_every_picture_once_and_mixes_within_the_batch():
    config = replace(toy.config(), phases=(Phase(1.0, {"ce": 1, "hct": 1}),), batch=4, mixing_layers=(0, 3))
    plans = [make_plan(config, epoch, LABELS, 4) for epoch in range(40)]
    for plan in plans:
        assert sorted(plan.first.ravel()) == list(range(48))
        assert all(sorted(a) == sorted(b) for a, b in zip(plan.first, plan.second))
    assert {layer for plan in plans for layer in plan.layers} == {0, 3}
    lams = torch.cat([plan.lams for plan in plans])  # 480 of Beta(2, 2): mean 1/2, variance 1/20
    assert float(lams.mean()) == pytest.approx(0.5, abs=0.05)
    assert float(lams.var()) == pytest.approx(0.05, abs=0.015)
    assert not np.array_equal(plans[0].first, plans[1].first)


def test_episodes_hold_different_pictures_of_the_right_classes():
    phases = (Phase(1.0, {"protonet": 1.0}),)
    config = toy.config(phases=phases, way=3, shot=2, query=4, episodes=6, episode_batch=2)
    tasks = make_plan(config, 0, LABELS, 4).first.reshape(-1, 3, 6)
    assert len(tasks) == 6
    for task in tasks:
        classes = LABELS[task]
        assert (classes == classes[:, :1]).all()
        assert len(set(classes[:, 0])) == 3
        assert len(set(task.ravel())) == 18
    with pytest.raises(UserError, match="lower way, shot or query"):
        make_plan(replace(config, query=11), 0, LABELS, 4)


def streams(monkeypatch, pixels, labels, plan, **options):
    """The batches of pictures that are resident, and of the same read ahead."""
    for resident in (torch.from_numpy(np.array(pixels)), None):
        monkeypatch.setattr(feed, "resident", lambda *_, resident=resident: resident)
        yield feed.Feed(pixels, labels, torch.device("cpu"), **options).batches(plan)


def test_streamed_and_resident_pictures_are_the_same(tmp_path, monkeypatch):
    base = toy.images()
    path = tmp_path / "pixels"
    path.write_bytes(base.pixels.tobytes())
    mapped = np.memmap(path, np.uint8, "r", shape=base.pixels.shape)
    plan = make_plan(toy.config(), 1, base.labels, 4)
    steps = 0
    for (a, draw_a), (b, draw_b) in zip(*streams(monkeypatch, mapped, base.labels, plan), strict=True):
        assert a.keys() == b.keys() == {"weak", "partner", "labels", "partner_labels"}
        assert all(torch.equal(a[name], b[name]) for name in a)
        assert draw_a["layer"] == draw_b["layer"]
        assert np.array_equal(a["labels"], base.labels[plan.first[steps]])
        steps += 1
    assert steps == len(plan)


def test_larger_base_pictures_are_cut_to_the_input_and_validation_pictures_have_it(tmp_path, monkeypatch):
    for split in ("base", "val"):
        class_folders(tmp_path / "data" / split, [f"{split}0", f"{split}1"], 7)
    config = toy.config(dataset="folder", batch=8, store=24)
    base, val = load_splits(config, tmp_path / "data")
    assert (base.pixels.shape, val.pixels.shape) == ((14, 3, 24, 24), (14, 3, 16, 16))
    plan = make_plan(config, 1, base.labels, 4)
    both = streams(monkeypatch, base.pixels, base.labels, plan, side=config.size)
    for (a, _), (b, _) in zip(*both, strict=True):
        assert a["weak"].shape == a["partner"].shape == (8, 3, 16, 16)
        assert all(torch.equal(a[name], b[name]) for name in a)
    run = train(config, base, val, tmp_path / "run", accelerator="cpu")
    assert run["config"]["store"] == 24
    same = load_splits(replace(config, store=None), tmp_path / "data")[1]
    assert np.array_equal(val.pixels, same.pixels), "validation does not depend on the stored side"


def test_pictures_of_another_side_than_the_config_says_are_refused(tmp_path):
    small, large = toy.images(), toy.images(side=24)
    for base, said in (
        (small, r"base pictures are uint8 \(48, 3, 16, 16\), not .* 24, 24"),
        (large, "validation .* 16"),
    ):
        with pytest.raises(UserError, match=said):
            train(toy.config(store=24), base, base, tmp_path / "run", accelerator="cpu")
    with pytest.raises(UserError, match="store is 8: it must be at least size, which is 16"):
        toy.config(store=8)


def test_learning_rate_schedule():
    config = TrainConfig(epochs=10, warmup=2, lr=0.4)
    quarter = 0.4 * (1 + math.cos(math.pi / 4)) / 2
    rates = [learning_rate(config, epoch) for epoch in (0, 1, 2, 4, 6, 9.999999)]
    assert rates == pytest.approx([0, 0.2, 0.4, quarter, 0.2, 0], abs=1e-6)
    constant = replace(config, schedule="constant")
    assert [learning_rate(constant, epoch) for epoch in (0, 0.5, 2, 3, 9.99)] == pytest.approx([0, 0.1, 0.4, 0.4, 0.4])


def test_weight_average():
    source, target = torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)
    average, expected = Average(target, source, 0.5), 1.0
    for step, value in enumerate([3.0, 5.0, -1.0, 2.0, 9.0, 4.0, 4.0, 0.0, 8.0, 1.0]):
        with torch.no_grad():
            source.weight.fill_(value)
            source.num_batches_tracked.add_(1)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    assert float(target.weight.detach()) == pytest.approx(expected, rel=1e-6)
    assert int(target.num_batches_tracked) == 10


def test_the_novel_split_is_never_opened(tmp_path):
    """Every file that the process opens is watched; the novel pictures are broken besides."""
    for split, classes in {"base": "abc", "val": "de", "novel": "fg"}.items():
        class_folders(tmp_path / "data" / split, list(classes), 8)
    for picture in (tmp_path / "data" / "novel").rglob("*.png"):
        picture.write_bytes(b"broken")
    config = toy.config(dataset="folder", batch=8)
    with touched("open") as opened:
        base, val = load_splits(config, tmp_path / "data", cache_dir=tmp_path / "cache")
        train(config, base, val, tmp_path / "run", accelerator="cpu")
    pictures = [path for path in opened if path.endswith(".png")]
    assert any("/base/" in path for path in pictures)
    assert any("/val/" in path for path in pictures)
    assert not any("/novel/" in path for path in opened)


def test_the_log_the_events_and_the_result(tmp_path, capfd):
    events = []
    config = toy.config()
    result = train(config, toy.images(), toy.images(seed=1), tmp_path, on_event=events.append, accelerator="cpu")
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0].startswith("epoch,step,loss,ce,rotation,accuracy,lr,images_per_second,seconds,val_cipa_1")
    assert len(lines) == 3
    assert json.loads((tmp_path / "result.json").read_text())["history"] == result["history"]
    assert result["images"] == 3 * 16 * 2 + 3 * 16 * 3, "weak and rotated rows, then mixed ones too"
    assert [event.kind for event in events] == ["epoch starts", "step", "step", "step", "epoch ends"] * 2
    assert [event.images for event in events if event.kind == "step"] == [32, 64, 96, 144, 192, 240]
    assert {(event.epochs, event.total_images) for event in events} == {(2, 240)}
    ends = [event for event in events if event.kind == "epoch ends"]
    assert [event.record for event in ends] == result["history"]
    assert ends[0].seconds_left == pytest.approx(144 / result["history"][0]["images_per_second"])
    assert ends[1].seconds_left == 0
    assert capfd.readouterr() == ("", ""), "the loop itself prints nothing"


def test_compiled_stages_are_one_graph_each_whatever_the_mixing_layer(tmp_path, monkeypatch):
    """One graph a stage and a phase, all made before the first epoch; and compiled training is the same training."""
    import torch._dynamo as dynamo

    compile_stage = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **k: compile_stage(self, backend="aot_eager", **k))
    dynamo.reset()
    dynamo.utils.counters.clear()
    config, base, after = toy.config(epochs=6), toy.images(), []
    warm_up = Run.warm_up

    def count(run):
        warm_up(run)
        after.append(dynamo.utils.counters["stats"]["unique_graphs"])

    monkeypatch.setattr(Run, "warm_up", count)
    options = {"accelerator": "cpu"}
    compiled = train(config, base, None, tmp_path / "compiled", compiled=True, **options)
    assert after == [4 * 2]
    assert dynamo.utils.counters["stats"]["unique_graphs"] == 4 * 2
    plain = train(config, base, None, tmp_path / "plain", compiled=False, **options)
    assert compiled["history"][-1]["loss"] == pytest.approx(plain["history"][-1]["loss"], rel=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"batch": 4096}, {"mixing_layers": (99,)}, {"backbone": "resnet12", "width": 2, "size": 8}], ids=str
)
def test_settings_that_do_not_fit_leave_no_run_behind(tmp_path, wrong):
    pictures = toy.images(side=wrong.get("size", toy.SIDE))
    with pytest.raises(UserError):
        train(toy.config(**wrong), pictures, None, tmp_path / "run", accelerator="cpu")
    assert not (tmp_path / "run").exists()


def test_without_lightning_training_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)  # importing it raises ImportError
    with pytest.raises(UserError, match=r"training needs lightning-fabric, which is not installed: pip install"):
        launch("cpu", 1, 1)
