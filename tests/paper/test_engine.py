"""A table from nothing: trained, extracted, evaluated; and what is there is not done again."""

import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from paper import engine, networks
from paper.engine import reproduce
from paper.networks import Stopped, Work, save_fp16
from paper.plan import Row, Run, Table, Task, Trial
from protoadapt.core.errors import UserError
from protoadapt.core.features import Features, load_features
from protoadapt.core.results import read_results, right_answers
from protoadapt.report.result_page import evaluation_page
from protoadapt.training.loop import Run as TrainingRun
from protoadapt.vision.networks import model_files
from protoadapt.vision.networks.joined import joined_weights

SMALL = ("dataset=glyphs", "size=16", "backbone=conv4", "width=4", "batch=512", "validation_episodes=5")
RUN = Run("tiny", "hct_r", SMALL)
TRIAL = Trial(RUN, "glyphs", methods=("protonet", "cipa"))
TABLE = Table("tiny", "in small", ("x",), (Row(("CIPA",), TRIAL),))


def table(**changes) -> Table:
    return Table("tiny", "in small", ("x",), (Row(("CIPA",), replace(TRIAL, **changes)),))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole table, once for this file."""
    home = tmp_path_factory.mktemp("reproduce")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        assert reproduce(TABLE, work(home)) == {}
    return home


@pytest.fixture
def home(made, tmp_path, monkeypatch):
    """A copy of it to change."""
    shutil.copytree(made / "runs", tmp_path / "runs")
    shutil.copytree(made / "results", tmp_path / "results")
    monkeypatch.setenv("XDG_CACHE_HOME", str(made / "cache"))
    return tmp_path


def work(home, **changes) -> Work:
    plain = {"out": home / "runs", "results": home / "results", "epochs": 1, "episodes": 8, "per_class": 20}
    return Work({}, **{**plain, "say": lambda words: None, **changes})


def result(home, name="novel-1shot"):
    document = json.loads((home / "results" / "tiny" / f"{name}.json").read_text())
    return {**document, "results": read_results(document)} if "results" in document else document


def forbid(monkeypatch, *names):
    def forbidden(*_, **__):
        raise AssertionError("this was there already")

    for owner, name in ((networks, "train"), (engine, "extract_features"), (engine, "compare")):
        if name in names:
            monkeypatch.setattr(owner, name, forbidden)


def test_results_say_how_they_came_about(made):
    for shot in (1, 5):
        found = result(made, f"novel-{shot}shot")
        assert [r["label"] for r in found["results"]] == ["protonet", "cipa"]
        assert found["training"]["config"]["seed"] == 0
        assert found["training"]["config"]["epochs"] == 1
        for r in found["results"]:
            assert r["protocol"]["shot"] == shot
            assert (r["episodes"], len(right_answers(r)), r["seed"]) == (8, 8, 0)
            assert {"versions", "hardware", "seconds", "commit"} <= r.keys()
            features = r["features"]
            assert (features["dataset"], features["split"], features["crop"]) == ("glyphs", "novel", "none")
            assert (features["views"], features["per_class"]) == (1, 20)
            assert features["weights"] == model_files.load_weights(made / "runs" / "tiny.safetensors")[1]["weights"]
            file = made / "runs" / "features" / "tiny-glyphs-none-views1.safetensors"
            assert features["hash"] == load_features(file).hash
    assert result(made, "train")["finished"]
    assert result(made, "train") == json.loads((made / "runs" / "tiny-train.json").read_text())


def test_asked_again_nothing_is_done_again(home, monkeypatch):
    before = result(home)
    forbid(monkeypatch, "train", "extract_features", "compare")
    said = []
    assert reproduce(TABLE, work(home, say=said.append)) == {}
    assert said == ["tiny/novel: already there"]
    assert result(home) == before


@pytest.mark.parametrize(
    ("changes", "file"),
    [({"pooling": 2.0}, "tiny-glyphs-none-views1-pooling2"), ({"split": "val"}, "tiny-glyphs-none-views1-val")],
)
def test_another_pooling_or_split_has_features_and_results_of_its_own(home, monkeypatch, changes, file):
    before = result(home)
    other = table(**changes, stem="other")
    assert reproduce(other, work(home)) == {}
    own = load_features(home / "runs" / "features" / f"{file}.safetensors")
    found = result(home, "other-1shot")["results"][0]["features"]
    assert found["hash"] == own.hash
    assert all(found[key] == own.metadata[key] for key in ("split", "pooling"))
    assert result(home) == before
    forbid(monkeypatch, "train", "extract_features", "compare")
    assert reproduce(other, work(home)) == {}


def test_a_copy_of_a_dataset_has_its_own_folder_features_and_results(home, monkeypatch):
    """The files as published never stand in for it."""
    original = engine.load_images
    opened = []

    def load(name, split, data_dir, **options):
        opened.append(data_dir)
        return original(name, split, None, **options)

    monkeypatch.setattr(engine, "load_images", load)
    copied = table(copy="small", stem="novel-small")
    missing = reproduce(copied, replace(work(home), data={"glyphs": [home], "": [home]}))
    assert all("--data small=DIR" in why for why in missing.values())
    assert len(missing) == 2
    assert not opened
    assert reproduce(copied, replace(work(home), data={"small": [home / "small"]})) == {}
    assert opened == [home / "small"]
    found = result(home, "novel-small-1shot")["results"][0]["features"]
    own = load_features(home / "runs" / "features" / "tiny-glyphs-none-views1-small.safetensors")
    assert (found["copy"], found["hash"]) == ("small", own.hash)
    assert "copy" not in result(home)["results"][0]["features"]


def test_a_new_method_joins_the_others_on_the_same_episodes(home, monkeypatch):
    forbid(monkeypatch, "train", "extract_features")
    before = result(home)["results"]
    more = table(methods=("protonet", "bapa", "cipa"))
    asked = []
    original = engine.compare
    monkeypatch.setattr(
        engine, "compare", lambda *a, **k: asked.append([run.label for run in a[2]]) or original(*a, **k)
    )
    assert reproduce(more, work(home, episodes=4)) == {}
    assert asked == [["bapa"], ["bapa"]]
    found = result(home)["results"]
    assert [found[0], found[2]] == before, "though they have more episodes"
    assert (found[1]["label"], found[1]["episodes"]) == ("bapa", 4)
    raw = json.loads((home / "results" / "tiny" / "novel-1shot.json").read_text())["results"]
    assert not any("training" in one for one in raw), "the file says once how the network was trained"


def test_more_episodes_are_drawn_and_fewer_are_there(home, monkeypatch):
    before = right_answers(result(home)["results"][1])
    reproduce(TABLE, work(home, episodes=12))
    found = result(home)["results"][1]
    assert found["episodes"] == 12
    assert np.array_equal(right_answers(found)[:8], before), "the first episodes are the same"
    forbid(monkeypatch, "compare")
    reproduce(TABLE, work(home, episodes=8))
    assert result(home)["results"][1]["episodes"] == 12


def with_noise(home):
    """Another network of the same name."""
    backbone, about = model_files.load_model(home / "runs" / "tiny")
    next(backbone.parameters()).data += 0.1
    plain = {k: v for k, v in about.items() if k != "weights"}
    save_fp16(backbone, plain, home / "runs" / "tiny.safetensors")


def test_other_weights_make_everything_anew(home, made):
    """The same name, another network: no feature of the old one is left, and its results are left alone."""
    before = result(home)
    with_noise(home)
    (reason, _) = reproduce(TABLE, work(home)).values()
    weights = before["results"][0]["features"]["weights"]
    assert f"novel-1shot.json' holds results of weights {weights} (8 episodes): give another --results" in reason
    assert result(home) == before
    shutil.rmtree(home / "results")
    assert reproduce(TABLE, work(home)) == {}
    after = result(home)["results"][0]["features"]
    assert after["weights"] != weights
    assert after["hash"] != before["results"][0]["features"]["hash"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"per_class": 19}, "holds results of per_class 20 (8 episodes): give another --results"),
        ({"pooling": 2.0, "views": 2}, "holds results of views 1, pooling 1.0 (8 episodes): give another --results"),
        ({"kind": "dirichlet"}, "holds results of other episodes (8 episodes): give another --results"),
    ],
)
def test_a_trial_run_leaves_results_of_something_else_alone(home, monkeypatch, changes, said):
    forbid(monkeypatch, "train", "extract_features", "compare")
    before = result(home)
    mine = work(home, only_evaluate=True, episodes=2, **{k: v for k, v in changes.items() if k == "per_class"})
    missing = reproduce(table(**{k: v for k, v in changes.items() if k != "per_class"}), mine)
    assert set(missing) == {"tiny/novel-1shot.json", "tiny/novel-5shot.json"}
    assert said in missing["tiny/novel-1shot.json"]
    assert result(home) == before


@pytest.mark.parametrize("text", ['{"results": null}', '{"results": [{"label": "cipa"}]}', '{"resu'])
def test_a_damaged_result_is_made_again(home, text):
    before = result(home)["results"]
    (home / "results" / "tiny" / "novel-1shot.json").write_text(text)
    assert reproduce(TABLE, work(home)) == {}
    assert [r["correct"] for r in result(home)["results"]] == [r["correct"] for r in before]


def test_training_anew_beside_results_is_refused_before_it_begins(home, monkeypatch):
    before = result(home, "train")
    elsewhere = work(home, out=home / "other", epochs=2)
    with monkeypatch.context() as patch:
        forbid(patch, "train")
        missing = reproduce(TABLE, elsewhere)
    assert "belongs to a training run that is not in" in missing["tiny/novel-1shot.json"]
    assert "give another --results to train again" in missing["tiny/novel-1shot.json"]
    assert result(home, "train") == before
    assert reproduce(TABLE, replace(elsewhere, results=home / "mine")) == {}
    assert reproduce(TABLE, elsewhere) != {}, "the other network is there now"
    missing = reproduce(TABLE, replace(elsewhere, only_evaluate=True))
    assert "train.json' is the record of another training (1 epoch) of tiny" in missing["tiny/novel-1shot.json"]
    assert result(home, "train") == before


def test_lost_features_come_again_and_statistics_of_base_classes_are_added_to_those_there(home, monkeypatch):
    file = home / "runs" / "features" / "tiny-glyphs-none-views1.safetensors"
    before = load_features(file)
    assert before.base_mean is None
    assert reproduce(table(methods=("protonet", "simpleshot")), work(home)) == {}
    after, base = load_features(file), load_features(file.with_name(f"{file.stem}-base.safetensors"))
    assert after.hash == before.hash
    torch.testing.assert_close(after.base_mean, base.features.mean(0))
    file.unlink()
    shutil.rmtree(home / "results")
    assert reproduce(TABLE, work(home)) == {}
    assert load_features(file).hash == before.hash


def test_weights_from_elsewhere_are_taken_as_they_are(home, made, monkeypatch):
    forbid(monkeypatch, "train")
    for name in ("tiny.safetensors", "tiny-train.json"):
        shutil.copy(made / "runs" / name, home)
    shutil.rmtree(home / "runs")
    shutil.rmtree(home / "results")
    assert reproduce(TABLE, work(home, weights=home, only_evaluate=True, epochs=77)) == {}
    assert result(home)["results"][1]["correct"] == result(made)["results"][1]["correct"]
    assert result(home, "train")["config"]["epochs"] == 1


def test_what_is_not_there_is_said_and_the_rest_goes_on(home):
    other = replace(TRIAL, run=Run("other", "hct_r", ("dataset=glyphs",)))
    far = replace(TRIAL, run=Run("far", "hct_r", ("dataset=tiered-imagenet",), absent="for want of pictures"))
    both = Table("two", "", ("x",), tuple(Row(("CIPA",), t) for t in (other, far, replace(TRIAL, stem="late"))))
    missing = reproduce(both, work(home, only_evaluate=True))
    assert set(missing) == {f"{name}/novel-{shot}shot.json" for name in ("other", "far") for shot in (1, 5)}
    assert "there is no other.safetensors" in missing["other/novel-1shot.json"]
    assert missing["far/novel-1shot.json"].startswith("there is no far.safetensors")
    assert (home / "results" / "tiny" / "late-5shot.json").is_file()


def test_another_config_under_the_same_name_is_refused(home):
    missing = reproduce(TABLE, work(home, epochs=2))
    assert "was trained with epochs=1 (now 2)" in missing["tiny/novel-1shot.json"]
    assert result(home, "train")["config"]["epochs"] == 1


def test_only_some_results(home):
    with pytest.raises(UserError, match="no result of this table is called cub/"):
        reproduce(TABLE, work(home, only=["cub/*"]))
    shutil.rmtree(home / "results")
    reproduce(TABLE, work(home, only=["*/novel-5shot"]))
    assert [file.name for file in sorted((home / "results" / "tiny").iterdir())] == ["novel-5shot.json", "train.json"]
    assert reproduce(TABLE, work(home, only=["tiny/novel-1shot.json"])) == {}, "as messages name it"
    assert result(home)["results"]


def test_an_interrupted_run_is_gone_on_with(made, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(made / "cache"))
    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "report", lambda *_, **more: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Stopped):
            reproduce(TABLE, work(tmp_path))
    assert not (tmp_path / "results").exists()
    assert reproduce(TABLE, work(tmp_path)) == {}
    assert result(tmp_path)["results"][1]["correct"] == result(made)["results"][1]["correct"]


def test_a_task_becomes_a_picture(home, monkeypatch):
    task = Table("task", "", tasks=(Task(RUN, "glyphs", way=4),))
    assert reproduce(task, work(home)) == {}
    found = json.loads((home / "results" / "tiny" / "adaptation.json").read_text())
    assert [len(path) for path in found["steps"]] == [21] * 4
    assert sum(found["support"]) == len(found["class_names"]) == 4
    assert len(found["rows"]) == len(found["row_label"]) == 4 + 4 * 15
    assert "<polyline" in evaluation_page([found])
    monkeypatch.setattr(engine, "episode_paths", None)
    assert reproduce(task, work(home)) == {}, "it is there already"
    with_noise(home)
    (reason,) = reproduce(task, work(home)).values()
    assert f"is a picture of weights {found['weights']}: give another --results" in reason


def test_a_second_cycle_learns_from_the_first(home, monkeypatch):
    """Where the first is there, only the second is trained; where its classifier is lost, both."""
    second = Run("second", "hct_r_distilled", SMALL, teacher=RUN)
    trained = []

    def train(config, *rest, **options):
        trained.append(config)
        return real(config, *rest, **options)

    real = networks.train
    monkeypatch.setattr(networks, "train", train)
    assert reproduce(table(run=second), work(home)) == {}
    (config,) = trained
    assert config.init_from == config.phases[0].teacher == str(home / "runs" / "tiny")
    shutil.rmtree(home / "runs" / "tiny")  # its half precision file stays, without a classifier
    shutil.rmtree(home / "runs" / "second")
    (home / "runs" / "second.safetensors").unlink()
    shutil.rmtree(home / "results")
    assert reproduce(table(run=second), work(home)) == {}
    assert [c.init_from is None for c in trained] == [False, True, False]


def test_several_networks_are_their_unit_features_side_by_side(home):
    alone = result(home)["results"]
    pair = Run("pair", "joined", parts=(RUN, RUN))
    assert reproduce(Table("pair", "", more=(replace(TRIAL, run=pair),)), work(home)) == {}
    document = json.loads((home / "results" / "pair" / "novel-1shot.json").read_text())
    (protonet, _), about = read_results(document), document["features"]
    assert about["weights"] == joined_weights([alone[0]["features"]["weights"]] * 2)
    assert (about["dim"], about["rows"]) == (2 * alone[0]["features"]["dim"], alone[0]["features"]["rows"])
    assert np.array_equal(right_answers(protonet), right_answers(alone[0])), "a network beside itself answers alike"
    one, two = (Features(torch.rand(6, width), torch.zeros(6), metadata={"backbone": "x"}) for width in (3, 2))
    parts = engine.side_by_side([one, two], "w").features.split([3, 2], 1)
    for part, alone in zip(parts, (one, two)):
        torch.testing.assert_close(part, torch.nn.functional.normalize(alone.features))
