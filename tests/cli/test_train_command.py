"""`protoadapt train` as a user meets it: `--resume` goes on with the run's own settings."""

import json
import os
import signal

import pytest
import torch
from helpers import command
from helpers.small_pictures import class_folders
from typer.testing import CliRunner

from protoadapt.cli.verbs import app
from protoadapt.core.errors import UserError

SETTINGS = "dataset=folder size=16 backbone=conv4 width=4 batch=16 validation_episodes=3 checkpoint_every=1".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for split in ("base", "val", "novel"):
        class_folders(folder / split, [f"{split}-a", f"{split}-b"], 12)
    return folder


def train(data, out, *words):
    where = ["--data", str(data), "--out", str(out), "--device", "cpu"]
    return CliRunner().invoke(app, ["train", *words, *where], catch_exceptions=False)


def test_resume_needs_neither_recipe_nor_settings(data, tmp_path):
    given = [word for setting in [*SETTINGS, "epochs=2"] for word in ("--set", setting)]
    done = train(data, tmp_path / "run", "hct_r", *given)
    assert done.exit_code == 0, done.stderr
    assert "1 step per epoch: 24 pictures are few to train on; `protoadapt extract lite0` gives" in done.stderr
    result = (tmp_path / "run" / "result.json").read_bytes()
    for words in (["--resume"], ["hct_r", *given, "--resume"]):
        again = train(data, tmp_path / "run", *words)
        assert again.exit_code == 0, again.stderr
        assert "epoch 3" not in again.stdout + again.stderr
        assert "best: epoch" in again.stdout
        assert (tmp_path / "run" / "result.json").read_bytes() == result
    assert json.loads(result)["config"]["width"] == 4

    with pytest.raises(UserError, match=r"epochs=2 \(now 3\)"):
        train(data, tmp_path / "run", "hct_r", *given[:-1], "epochs=3", "--resume")
    with pytest.raises(UserError, match=r"phases=.* or with neither recipe nor settings"):
        train(data, tmp_path / "run", "classifier_baseline", *given, "--resume")
    with pytest.raises(UserError, match="no checkpoint"):
        train(data, tmp_path / "none", "--resume")
    with pytest.raises(UserError, match=r"result\.json.* cannot be written"):  # it is a file
        train(data, tmp_path / "none", "hct_r", *given, "--cache", str(tmp_path / "run" / "result.json"))
    with pytest.raises(UserError, match="no recipe is named"):
        train(data, tmp_path / "none")


def test_a_file_in_the_place_of_the_run_is_said_before_pictures_are_read(tmp_path):
    (tmp_path / "run").write_text("mine")
    for words in (("hct_r",), ("--resume",)):
        with pytest.raises(UserError, match="run' is a file: give a folder"):
            train(tmp_path / "no-pictures", tmp_path / "run", *words)


def test_files_of_another_kind_are_not_replaced_by_a_run(data, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.csv").write_text("mine")
    with pytest.raises(UserError, match=r"already holds a run, such as log\.csv: .* move it away"):
        train(data, tmp_path / "run", "hct_r", *(word for setting in SETTINGS for word in ("--set", setting)))
    assert [(file.name, file.read_text()) for file in (tmp_path / "run").iterdir()] == [("log.csv", "mine")]


def test_dataset_and_device_are_options_as_in_other_verbs(data, tmp_path):
    """`--dataset folder` is `--set dataset=folder`, with that dataset's settings."""
    given = [word for setting in [*SETTINGS[1:], "epochs=1", "seed=3"] for word in ("--set", setting)]
    done = train(data, tmp_path / "run", "hct_r", "--dataset", "folder", *given)
    assert done.exit_code == 0, done.stderr
    config = json.loads((tmp_path / "run" / "result.json").read_text())["config"]
    assert (config["dataset"], config["seed"], config["weak_crop"]) == ("folder", 3, "resized")
    for device, said in (("abacus", "no device 'abacus'"), ("cuda:0", "--devices has no effect with")):
        wrong = command.run("train", "hct_r", "--out", tmp_path / "no", "--device", device, "--devices", 2)
        assert (wrong.returncode, said in wrong.stderr) == (2, True)
    assert not (tmp_path / "no").exists()


def test_a_run_that_is_asked_to_stop_says_how_to_continue(data, tmp_path, monkeypatch):
    """SIGTERM at the first step: exit code 143, a checkpoint, and the way to go on; Ctrl-C: 130."""
    step = torch.optim.SGD.step
    words = ["--dataset", "folder", "--data", data, "--device", "cpu"]
    words += [word for setting in [*SETTINGS[1:], "epochs=2"] for word in ("--set", setting)]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        out = tmp_path / str(code)

        def stopped(optimizer, *arguments, number=number, **options):
            os.kill(os.getpid(), number)
            return step(optimizer, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(torch.optim.SGD, "step", stopped)
            done = command.run("train", "hct_r", "--out", out, *words)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert not (out / "result.json").exists()
        resumed = command.run("train", "--resume", "--out", out, "--data", data, "--device", "cpu")
        assert resumed.returncode == 0, resumed.stderr
        assert (out / "result.json").exists()
        if code == 143:
            assert f"continue with `protoadapt train --resume --out {out}`" in done.stdout
