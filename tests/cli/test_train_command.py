"""`protoadapt train` as a user meets it: `--resume` goes on with the run's own settings."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from protoadapt.cli.verbs import app
from protoadapt.core.errors import UserError

SETTINGS = "dataset=folder size=16 backbone=conv4 width=4 batch=16 validation_episodes=3 checkpoint_every=1".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split in ("base", "val", "novel"):
        for name in ("a", "b"):
            (folder / split / f"{split}-{name}").mkdir(parents=True)
            for i in range(12):
                pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / f"{split}-{name}" / f"{i}.png")
    return folder


def train(data, out, *words):
    where = ["--data", str(data), "--out", str(out), "--device", "cpu"]
    return CliRunner().invoke(app, ["train", *words, *where], catch_exceptions=False)


def test_resume_needs_neither_recipe_nor_settings(data, tmp_path):
    given = [word for setting in [*SETTINGS, "epochs=2"] for word in ("--set", setting)]
    done = train(data, tmp_path / "run", "hct_r", *given)
    assert done.exit_code == 0, done.stderr
    told = (tmp_path / "run" / "result.json").read_bytes()
    for words in (("--resume",), ("hct_r", "--resume"), ("hct_r", *given, "--resume")):
        again = train(data, tmp_path / "run", *words)
        assert again.exit_code == 0, again.stderr
        assert "epoch 3" not in again.stdout + again.stderr
        assert "best: epoch" in again.stdout
        assert (tmp_path / "run" / "result.json").read_bytes() == told
    assert json.loads(told)["config"]["width"] == 4

    with pytest.raises(UserError, match=r"epochs=2 \(now 3\)"):
        train(data, tmp_path / "run", "hct_r", *given, "--set", "epochs=3", "--resume")
    with pytest.raises(UserError, match="trains ce, hct, rotation, which is not classifier_baseline"):
        train(data, tmp_path / "run", "classifier_baseline", "--resume")
    with pytest.raises(UserError, match="no checkpoint"):
        train(data, tmp_path / "none", "--resume")
    with pytest.raises(UserError, match=r"the cache .*result\.json cannot be written"):  # it is a file
        train(data, tmp_path / "none", "hct_r", *given, "--cache", str(tmp_path / "run" / "result.json"))
    with pytest.raises(UserError, match="no recipe is named"):
        train(data, tmp_path / "none")


def test_a_file_in_the_place_of_the_run_is_said_before_pictures_are_read(tmp_path):
    (tmp_path / "run").write_text("mine")
    for words in (("hct_r",), ("--resume",)):
        with pytest.raises(UserError, match="run' is a file: give a folder"):
            train(tmp_path / "no-pictures", tmp_path / "run", *words)
