"""The campaign of benchmarks/faults.py notices faults that are planted in the commands that it runs."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from benchmarks import fault_world, faults


class Small(fault_world.World):
    """Files without the real commands, and one that is planted: it copies a file, in two steps."""

    def build(self):
        np.save(self.place / "f.npy", np.arange(20.0))
        self.right["copy"] = {"copy.csv": b"file,label\na,b\n"}

    def commands(self, out):
        return {"copy": [out / "copy.csv"]}


@pytest.fixture
def world(tmp_path, monkeypatch):
    reader = lambda world: {"array": ("f.npy", ["PATH"])}  # noqa: E731
    monkeypatch.setattr(faults, "readers", reader)
    return Small(tmp_path)


def ends(part, world, cases):
    return [faults.run_case(part, 0, world, number) for number in range(cases)]


def test_a_traceback_for_a_changed_file_is_found_and_a_sentence_is_not(world, monkeypatch):
    def sentence():
        try:
            np.load(sys.argv[1])
        except Exception:
            print("error: it cannot be read")
            sys.exit(2)

    monkeypatch.setattr(fault_world, "main", lambda: np.load(sys.argv[1]))
    found = ends("files", world, 12)
    assert {how for how, _ in found} == {"read", "found"}
    assert all(("Traceback" in finding) == (how == "found") for how, finding in found)
    assert found == ends("files", world, 12), "a case depends on its number alone"
    monkeypatch.setattr(fault_world, "main", sentence)
    assert [how for how, _ in ends("files", world, 12)] == [{"found": "refused"}.get(how, how) for how, _ in found]


PLANTED = """
import sys, tempfile
from pathlib import Path
from benchmarks import fault_world, faults
from tests.test_faults import Small, ends

def in_place():
    Path(sys.argv[1]).write_text("file,label\\na,b\\n")

def whole():
    file = Path(sys.argv[1])
    file.with_suffix(".partial").write_text("file,label\\na,b\\n")
    file.with_suffix(".partial").replace(file)

faults.OWN = {"copy": "copy.csv"}
world = Small(Path(sys.argv[1]))
for fault_world.main in in_place, whole:
    faults.aim(world, ["copy"])
    print(sorted(how for how, _ in ends("kills", world, len(faults.AIMS))))
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler of C")
def test_a_file_that_is_halved_by_a_kill_is_found_and_a_whole_one_is_not(tmp_path):
    """Writing in place is a finding before the write, when the file is empty, and inside it; replacing never is."""
    environment = faults.preloaded(tmp_path) | {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", PLANTED, tmp_path], env=environment, capture_output=True, text=True)
    before, inside = "copy killed before a change", "copy killed inside a write"
    assert ran.stdout.splitlines() == [str([before, "found", "found"]), str([before] * 3 + [inside])], ran.stderr


def test_what_hangs_or_grows_is_found(world, monkeypatch):
    monkeypatch.setattr(fault_world, "LONGEST", 0.2)
    monkeypatch.setattr(fault_world, "main", lambda: __import__("time").sleep(20))
    assert "it hangs" in ends("files", world, 1)[0][1]
    monkeypatch.setattr(fault_world, "MOST_GB", 0.0)
    monkeypatch.setattr(fault_world, "main", lambda: None)
    assert "GB" in ends("files", world, 1)[0][1]


def test_a_command_does_not_wait_for_threads_of_torch_that_a_fork_left_behind(world, monkeypatch):
    def work():
        return torch.ones(500_000).exp().sum()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        work()
        monkeypatch.setattr(fault_world, "LONGEST", 20.0)
        monkeypatch.setattr(fault_world, "main", work)
        assert ends("files", world, 1) == [("read", "")]
    finally:
        torch.set_num_threads(before)
