"""`python -m paper` as a user meets it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.small_pictures import class_folders
from typer.testing import CliRunner

from paper import engine
from paper.__main__ import _folders
from paper.__main__ import app as paper_app
from paper.plan import Row, Run, Table, Trial
from paper.tables import TABLES
from protoadapt.core.errors import UserError
from protoadapt.training.datasets.registry import class_list

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    """In this process; a user's mistake stays an exception, which the entry point makes a sentence."""
    return CliRunner().invoke(paper_app, [*words, "--device", "cpu"], catch_exceptions=False)


def test_nothing_heavy_is_loaded_before_main_runs():
    """`main` sets how long waiting threads spin, which torch reads once, and handles Ctrl-C during imports."""
    probe = "import sys, paper.__main__; print(*{'torch', 'numpy', 'PIL', 'matplotlib', 'sklearn'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_without_a_name_the_tables_are_listed():
    done = run()
    assert done.exit_code == 0
    assert all(name in done.stdout for name in TABLES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mian",), "did you mean 'main'"),
        (("main", "--data", "nowhere"), "there is no folder 'nowhere'"),
        (("main", "--data", "cup=."), "did you mean 'cub'"),
        (("main", "--weights", "nowhere"), "there is no folder 'nowhere'"),
        (("main", "--only", "cup/*", "--only-evaluate"), "no result of this table is called cup/*"),
        (("main", "--data", "."), "(cifar-fs, fc100, mini-imagenet, tiered-imagenet, cub) are not in '.': give --data"),
        (("main", "--only", "cub-box/*"), "the pictures of this table (cub) are not there: give --data DIR"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path, words, said):
    with pytest.raises(UserError, match=re.escape(said)):
        run(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--out", "--results"])
def test_a_file_in_the_place_of_a_folder_is_said_at_the_start(tmp_path, option):
    (tmp_path / "mine").write_text("here")
    with pytest.raises(UserError, match="'mine' is a file: give a folder"):
        run("glyphs", option, "mine")
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_data_folders_may_be_named(tmp_path):
    (tmp_path / "a=b").mkdir()
    assert _folders([str(tmp_path), f"cub={tmp_path}", f"mini_imagenet={tmp_path}", str(tmp_path / "a=b")]) == {
        "": [tmp_path, tmp_path / "a=b"],
        "cub": [tmp_path],
        "mini-imagenet": [tmp_path],
    }
    with pytest.raises(UserError, match="there is no folder"):
        _folders([f"cub={tmp_path / 'none'}"])


def test_pictures_that_do_for_some_rows_are_taken(tmp_path, monkeypatch):
    """CUB without its boxes: that the rows of boxes cannot be had is no reason to refuse the table."""

    def none(run, work):
        raise UserError(f"no network {run.name}")

    monkeypatch.setattr(engine, "network", none)
    class_folders(tmp_path / "pictures", class_list("cub", "novel"), 1, "jpg")
    done = run("main", "--data", "pictures", "--only", "cub*/novel-?shot")
    assert done.exit_code == 1
    assert "no network cub-box" in done.stderr
    assert "| CUB, whole pictures | HCT_R | 1 | 1 | 93.03 | not measured |" in done.stdout


def test_nothing_there_is_a_table_of_not_measured(tmp_path):
    done = run("main", "--only-evaluate", "--only", "cub-box/*")
    assert done.exit_code == 1, "something is missing"
    assert "there is no cub-box.safetensors in runs" in done.stderr
    assert "| CUB, boxes | HCT_R | 1 | 1 | 93.03 | not measured |" in done.stdout
    assert all(line.startswith("| CUB, boxes |") for line in done.stdout.splitlines() if "not measured" in line)
    assert list(tmp_path.iterdir()) == []


def test_results_that_are_there_are_a_table_without_any_pictures(tmp_path):
    """If they are to be taken as they are; what was refused is not shown."""
    name, asked = "cub-box-hct_r", ("hct_ablation", "--data", ".", "--only", "cub-box-hct_r/novel-?shot")
    (tmp_path / "results" / name).mkdir(parents=True)
    for file in (f"results/{name}/novel-{shot}shot.json" for shot in (1, 5)):
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    done = run(*asked, "--only-evaluate")
    assert done.exit_code == 0
    assert re.search(r"\| CUB \| HCT_R \| 2 \| CIPA \| 93.27 \| 92\.\d\d", done.stdout)
    assert f"{name}, novel:" in done.stdout, "every method of the file, beside those of the rows"
    assert "| mini-ImageNet" not in done.stdout
    for words in ((), ("--only-evaluate", "--per-class", "20")):
        done = run(*asked, *words)
        assert done.exit_code == 1
        assert f"{name}/novel-5shot.json: not measured (" in done.stderr
        assert "| CUB | HCT_R | 2 | CIPA | 93.27 | not measured |" in done.stdout


def test_ctrl_c_says_how_to_go_on(monkeypatch):
    def interrupted(run, work):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "network", interrupted)
    done = run("main", "--only-evaluate")
    assert done.exit_code == 130
    assert "run the same command to resume" in done.stderr


def test_the_whole_way_on_glyphs(tmp_path, monkeypatch):
    """The command trains, evaluates, prints the table, and ends well."""
    small = Run(
        "tiny",
        "hct_r",
        ("dataset=glyphs", "size=16", "backbone=conv4", "width=4", "batch=512", "validation_episodes=5"),
    )
    trial = Trial(small, "glyphs", methods=("protonet", "cipa"))
    monkeypatch.setitem(TABLES, "tiny", Table("Tiny", "Small.", ("method",), (Row(("CIPA",), trial),)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = run("tiny", "--epochs", "1", "--episodes", "5", "--per-class", "20", "--cache", "pictures")
    assert done.exit_code == 0
    assert "## Tiny" in done.stdout
    assert "| CIPA |  | " in done.stdout
    assert "not measured" not in done.stdout.lower()
    assert (tmp_path / "results" / "tiny" / "novel-5shot.json").is_file()
    assert {path.name.split("-")[1] for path in (tmp_path / "pictures").iterdir()} == {"base", "val", "novel"}
    kept = {path.name for path in (tmp_path / "cache" / "protoadapt").glob("*")}
    assert kept <= {"networks"}, "pictures are decoded where --cache says"
