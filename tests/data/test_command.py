"""Commands on one's own pictures: what they say and where they write."""

from pathlib import Path

from typer.testing import CliRunner

from protoadapt import cli


def run(*words: object) -> str:
    done = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_nothing_is_written_among_ones_own_pictures(mine: Path, model: Path, tmp_path: Path) -> None:
    before = sorted(mine.rglob("*"))
    run("extract", model, "--images", mine, "--out", tmp_path / "made" / "f.safetensors")
    made = [path.name for path in sorted((tmp_path / "made").iterdir())]
    assert made == [".protoadapt-cache", "f.index.csv", "f.safetensors"]
    run("extract", model, "--images", mine, "--out", tmp_path / "f.safetensors", "--cache", tmp_path / "chosen")
    assert any((tmp_path / "chosen").iterdir())
    assert not (tmp_path / ".protoadapt-cache").exists()
    assert sorted(mine.rglob("*")) == before
