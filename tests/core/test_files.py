"""Files that are there whole or not at all."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoadapt.core.errors import UserError
from protoadapt.core.files import scratch_folder, sweep, write_json, write_text, written_whole


def test_writers_of_the_same_file_do_not_meet(tmp_path):
    with written_whole(tmp_path / "a") as one, written_whole(tmp_path / "a") as two:
        one.write_text("x" * 1000)
        two.write_text("y" * 1000)
        assert one.read_text() == "x" * 1000
    assert (tmp_path / "a").read_text() == "x" * 1000
    assert os.listdir(tmp_path) == ["a"]


def test_a_name_as_long_as_can_be(tmp_path):
    with written_whole(tmp_path / ("é" * 125 + ".json")) as partial:
        partial.write_text("whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


def test_only_what_is_about_the_file_is_said_of_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), written_whole(tmp_path / "a"):
        (tmp_path / "elsewhere").read_text()
    with pytest.raises(UserError, match="make room"), written_whole(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(UserError, match="cannot be written"), written_whole(tmp_path / "a") as partial:
        partial.mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"), written_whole(tmp_path / "file" / "a"):
        raise AssertionError("nothing can be written there")
    assert os.listdir(tmp_path) == ["file"]


TEXT = st.text('ab []{}",:\n\\')
JSON = st.recursive(
    TEXT | st.integers() | st.none(), lambda inside: st.lists(inside) | st.dictionaries(TEXT, inside), max_leaves=12
)


@given(JSON)
def test_json_comes_back_whatever_its_strings(tmp_path_factory, value):
    file = tmp_path_factory.getbasetemp() / "value.json"
    write_json(file, value)
    assert json.loads(file.read_text()) == value


def write_a_network(path, content):
    with written_whole(path) as partial:
        partial.write_text(content)


@pytest.mark.parametrize("write", [write_json, write_text, write_a_network])
def test_the_disk_has_a_file_before_it_takes_its_name(tmp_path, monkeypatch, write):
    """Otherwise a power cut could leave an empty file under the name of a table that somebody filled in."""
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: order.append("disk") or fsync(file))
    monkeypatch.setattr(os, "replace", lambda old, new: order.append("name") or replace(old, new))
    write(tmp_path / "x", "labels")
    assert order == ["disk", "name"]


def test_old_half_written_files_are_swept(tmp_path):
    with written_whole(tmp_path / "mine") as mine:
        old = mine.with_name(".0123456789abcdef.partial")
        download = mine.with_name(".linux-7.0.tar.gz.partial")  # of another program, whose name is as long
        for file in (old, download):
            file.touch()
            os.utime(file, (0, 0))
        sweep.__wrapped__(tmp_path)
        assert {*tmp_path.iterdir()} == {mine, download}


DIES = """
import os, signal, sys
from pathlib import Path
from protoadapt.core.files import scratch_folder

with scratch_folder(Path(sys.argv[1]), ".mine-") as folder:
    (folder / "picture.png").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_temporary_folders_of_killed_processes_are_swept_and_those_of_living_ones_stay(tmp_path):
    others = {tmp_path / ".others", tmp_path / ".mine-of-a-user", tmp_path / ".mine-just-made"}
    for folder in others:
        folder.mkdir()
    (tmp_path / ".mine-of-a-user" / "notes").touch()
    with scratch_folder(tmp_path, ".mine-") as living:
        assert subprocess.run([sys.executable, "-c", DIES, tmp_path]).returncode == -signal.SIGKILL
        assert len([*tmp_path.glob(".mine-*/*/picture.png")]) == 1
        with scratch_folder(tmp_path, ".mine-") as new:
            assert {*tmp_path.iterdir()} == {living.parent, new.parent, *others}
    assert {*tmp_path.iterdir()} == others
    assert (tmp_path / ".mine-of-a-user" / "notes").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from protoadapt.core.files import write_json

left = int(sys.argv[2])

def count(event, arguments):
    global left
    if event in ("open", "os.chmod", "os.rename", "os.remove") and sys.argv[1] in str(arguments[0]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
write_json(Path(sys.argv[1]) / "a.json", ["new"])
"""


def test_killed_before_any_change_the_old_file_or_the_new_one_is_there(tmp_path):
    write_json(tmp_path / "a.json", ["old"])
    found = []
    for change in range(9):
        code = subprocess.run([sys.executable, "-c", KILLED, tmp_path, str(change)]).returncode
        found.append(json.loads((tmp_path / "a.json").read_text())[0])
        if code == 0:
            break
    assert code == 0
    assert found[0] == "old"
    assert found == sorted(found, reverse=True)
