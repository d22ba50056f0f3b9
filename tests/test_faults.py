"""The campaign of benchmarks/faults.py notices faults that are planted in the commands that it runs."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import faults


class Small(faults.World):
    """Files without the real commands, and one that is planted: it copies a file, in two steps."""

    def build(self):
        np.save(self.place / "f.npy", np.arange(20.0))
        (self.place / "copy.csv").write_text("file,label\na,b\n")

    def commands(self, out):
        return {"copy": [out / "copy.csv"]}


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "OWN", {"copy": "copy.csv"})
    reader = lambda world: {"array": ("f.npy", ["PATH"])}  # noqa: E731
    monkeypatch.setattr(faults, "readers", reader)
    return Small(tmp_path)


def ends(part, world, cases):
    return [faults.run_case(part, 0, number, world) for number in range(cases)]


def test_a_traceback_for_a_changed_file_is_found_and_a_sentence_is_not(world, monkeypatch):
    def sentence():
        try:
            np.load(sys.argv[1])
        except Exception:
            print("error: it cannot be read")
            sys.exit(2)

    monkeypatch.setattr(faults, "main", lambda: np.load(sys.argv[1]))
    found = ends("files", world, 12)
    assert {how for how, _ in found} == {"read", "found"}
    assert all(("Traceback" in finding) == (how == "found") for how, finding in found)
    assert found == ends("files", world, 12), "a case depends on its number alone"
    monkeypatch.setattr(faults, "main", sentence)
    assert [how for how, _ in ends("files", world, 12)] == [{"found": "refused"}.get(how, how) for how, _ in found]


def test_a_file_that_is_halved_by_a_kill_is_found_and_a_whole_one_is_not(world, monkeypatch):
    def in_place():
        file = Path(sys.argv[1])
        if not file.exists():
            for part in ("file,label\n", "a,b\n"):
                with file.open("a") as stream:
                    stream.write(part)

    def whole():
        file = Path(sys.argv[1])
        file.with_suffix(".new").write_text("file,label\na,b\n")
        file.with_suffix(".new").replace(file)

    for main, wanted in ((in_place, ["found"]), (whole, [])):
        monkeypatch.setattr(faults, "main", main)
        found = ends("kills", world, 4)
        assert [how for how, _ in found if how == "found"] == wanted, found
        assert found[-1][0] == "copy has no such change"


def test_what_hangs_or_grows_is_found(world, monkeypatch):
    monkeypatch.setattr(faults, "LONGEST", 0.2)
    monkeypatch.setattr(faults, "main", lambda: __import__("time").sleep(20))
    assert "it hangs" in ends("files", world, 1)[0][1]
    monkeypatch.setattr(faults, "MOST_GB", 0.0)
    monkeypatch.setattr(faults, "main", lambda: None)
    assert "GB" in ends("files", world, 1)[0][1]


def test_a_command_does_not_wait_for_threads_of_torch_that_a_fork_left_behind(world, monkeypatch):
    def work():
        return torch.ones(500_000).exp().sum()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        work()
        monkeypatch.setattr(faults, "LONGEST", 20.0)
        monkeypatch.setattr(faults, "main", work)
        assert ends("files", world, 1) == [("read", "")]
    finally:
        torch.set_num_threads(before)
