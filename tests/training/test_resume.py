"""Stop and resume equals not stopping, bitwise on the CPU, however the run was stopped."""

import errno
import hashlib
import json
import os
import re
import signal
import socket
import traceback
from functools import partial

import pytest
import torch
from helpers import toy

from protoadapt.core.errors import UserError
from protoadapt.training import Phase, checkpoint, stored_config, train
from protoadapt.training.optim import Average
from protoadapt.vision.networks.backbones import BACKBONES


def run(out, *, resume=False, devices=1, **settings):
    config = toy.config(**settings)
    base = toy.images(side=config.stored_side)
    return train(config, base, toy.images(seed=1), out, resume=resume, accelerator="cpu", devices=devices)


def forked(work) -> int:
    """The number of a process that does the work; forked, so that torch is not loaded again."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def killed(out, *death):
    """A run in a process of its own that ends by SIGKILL."""

    def work():
        toy.call_at(*death)
        run(out)

    _, status = os.waitpid(forked(work), 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert run(out)["finished"]
    return toy.files(out)


@pytest.mark.parametrize(
    "death",
    [
        *((Average, "update", step, toy.die) for step in (2, 5)),
        *((checkpoint, "write_synced", file, toy.die_half_written) for file in (2, 7)),
    ],
    ids=["in epoch 1", "in epoch 2", "in the first checkpoint", "in a later checkpoint"],
)
def test_killed_and_resumed_equals_uninterrupted(tmp_path, whole, death):
    killed(tmp_path / "run", *death)
    if checkpoint.latest(tmp_path / "run") is None:  # killed before there was anything to lose
        with pytest.raises(UserError, match="no checkpoint"):
            run(tmp_path / "run", resume=True)
        run(tmp_path / "run")
    else:
        run(tmp_path / "run", resume=True)
    assert toy.files(tmp_path / "run") == whole
    assert not list((tmp_path / "run" / "checkpoints").glob(".*")), "half-written folders are cleared away"


def signalled(monkeypatch, number, times=1, step=5):
    """A signal to this process in the middle of an epoch."""
    act = lambda *_: [signal.raise_signal(number) for _ in range(times)]  # noqa: E731
    toy.call_at(Average, "update", step, act, monkeypatch.setattr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_saves_in_the_middle_of_an_epoch_and_resumes(tmp_path, whole, monkeypatch, number):
    before = signal.getsignal(number)
    signalled(monkeypatch, number)
    if number == signal.SIGINT:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run")
    else:
        result = run(tmp_path / "run")
        assert not result["finished"]
        assert result["steps"] == 5
    assert checkpoint.latest(tmp_path / "run").name == "step-00000005"
    assert signal.getsignal(number) == before
    assert run(tmp_path / "run", resume=True)["finished"]
    assert toy.files(tmp_path / "run") == whole


def test_a_second_ctrl_c_ends_at_once(tmp_path, monkeypatch):
    signalled(monkeypatch, signal.SIGINT, times=2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run")
    assert checkpoint.latest(tmp_path / "run").name == "step-00000003", "the last one before the signal"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam", "lr": 0.01, "phases": (Phase(1.0, {"ce": 1.0, "manifold_mixup": 1.0}),)},
        {"dropblock": 0.3},
        {"store": 27, "weak_crop": "resized"},
        {"classifier": "cosine", "rotate_every": 1, "phases": (Phase(1.0, {"ce": 1.0, "rotation": 1.0}),)},
        {"phases": (Phase(1.0, {"protonet": 1.0}),), "way": 2, "shot": 1, "query": 2, "episodes": 3},
    ],
    ids=["Adam", "DropBlock", "larger pictures", "CC+rot", "ProtoNet's episodes"],
)
def test_a_crash_and_a_resumption_leave_no_trace(tmp_path, monkeypatch, whole, settings):
    run(tmp_path / "whole", **settings)
    assert toy.files(tmp_path / "whole") != whole, "the settings matter"

    class Crash(Exception):
        pass

    def crash(*_):
        raise Crash

    toy.call_at(Average, "update", 5, crash, monkeypatch.setattr)
    with pytest.raises(Crash):
        run(tmp_path / "run", **settings)
    run(tmp_path / "run", resume=True, **settings)
    assert toy.files(tmp_path / "run") == toy.files(tmp_path / "whole")


def test_a_finished_run_is_not_trained_again(tmp_path):
    first, file = run(tmp_path / "run"), tmp_path / "run" / "result.json"
    before, written = toy.files(tmp_path / "run"), file.read_bytes()
    assert run(tmp_path / "run", resume=True) == json.loads(written)
    assert file.read_bytes() == written, "the clock of the run is not that of the second call"
    for damaged in (b"", b"[]", b"{}", json.dumps(first | {"best": 7}).encode()):  # empty: killed before the result
        file.write_bytes(damaged)
        again = run(tmp_path / "run", resume=True)
        assert (again["best"], again["history"]) == (first["best"], first["history"])
        assert json.loads(file.read_bytes()) == again
    assert toy.files(tmp_path / "run") == before
    with pytest.raises(UserError, match="already holds a run"):
        run(tmp_path / "run")


def test_the_last_two_and_the_best_are_kept(tmp_path):
    run(tmp_path / "run", epochs=5)
    kept = [folder.name for folder in checkpoint.all_of(tmp_path / "run")]
    best = json.loads((tmp_path / "run" / "best.json").read_text())
    scores = [row["val_score"] for row in json.loads((tmp_path / "run" / "result.json").read_text())["history"]]
    assert best["score"] == max(scores)
    assert best["epoch"] == 1 + scores.index(max(scores))
    assert set(kept) == {"step-00000012", "step-00000015", f"step-{best['step']:08d}"}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "state.safetensors", "state.json", "SHA256SUMS"])
def test_a_damaged_checkpoint_is_an_error_that_names_it(tmp_path, name):
    checkpoint.save(tmp_path, 3, {"train": {}, "model": {}}, {}, {}, {"state": {"epoch": 1}})
    file = checkpoint.latest(tmp_path) / name
    whole = file.read_bytes()
    assert checkpoint.load_latest(tmp_path).scalars == {"state": {"epoch": 1}}
    for content in (whole[:-2], whole.replace(b"1", b"2") if name == "state.json" else b"", None):
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(UserError, match=r"is missing, truncated or damaged.*: remove the folder 'step-00000003'"):
            run(tmp_path, resume=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"[" * 100_000),
        ("config.json", b"[]"),
        ("config.json", b'{"train": {"epochs": 1}}'),
        ("config.json", b'{"train": {"phases": [], "no": 1}}'),
        ("model.safetensors", b"{}"),
        ("state.json", b"{}"),
        ("state.json", b'{"state": {"step": "x", "epoch": 0, "within": 0, "images": 0}}'),
        ("state.json", b'{"state": {"step": 1, "epoch": 0, "within": 0, "images": 0, "other": 1}}'),
    ],
)
def test_a_checkpoint_of_right_sums_that_training_never_wrote_is_one_sentence(tmp_path, name, content):
    run(tmp_path / "run", epochs=1, phases=(Phase(1.0),))
    folder = checkpoint.latest(tmp_path / "run")
    sums = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text(sums.replace(sha256((folder / name).read_bytes()), sha256(content)))
    (folder / name).write_bytes(content)
    begun = {"resume": True, "epochs": 1, "phases": (Phase(1.0),)}
    with pytest.raises(UserError) as told:
        run(tmp_path / "run", **begun, seed=stored_config(tmp_path / "run").seed)
    assert re.fullmatch("[^\n]+: (it must be|remove this folder) [^\n]+", str(told.value))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_changed_config_or_dataset_is_an_error_that_names_it(tmp_path):
    run(tmp_path / "run", epochs=1, phases=(Phase(1.0),))
    with pytest.raises(UserError, match=r"lr=0.05 \(now 0.1\)"):
        run(tmp_path / "run", resume=True, epochs=1, phases=(Phase(1.0),), lr=0.1)
    few, same = toy.images(each=11), toy.config(epochs=1, phases=(Phase(1.0),))
    with pytest.raises(UserError, match=r"base pictures=48 \(now 44\)"):
        train(same, few, toy.images(seed=1), tmp_path / "run", resume=True, accelerator="cpu")


def test_a_full_disk_is_an_error_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    config = {"train": {}, "model": {"backbone": "conv4"}}
    checkpoint.save(tmp_path, 1, config, {"a": torch.zeros(10)}, {}, {})

    def full(path, content):
        path.write_bytes(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_synced", full)
    with pytest.raises(UserError, match=r"could not be written .*: free .*checkpoint is step-00000001"):
        checkpoint.save(tmp_path, 2, config, {"a": torch.zeros(10)}, {}, {})
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]
    assert torch.equal(checkpoint.load_latest(tmp_path).model["a"], torch.zeros(10))


def test_nan_stops_with_the_step_and_the_last_good_checkpoint(tmp_path):
    with pytest.raises(UserError, match=r"not a number after 2 steps \(epoch 1\).*step-00000000"):
        run(tmp_path / "run", lr=1e30)


def test_two_processes_equal_one(tmp_path, monkeypatch):
    """Without BatchNorm. Gradients are summed in another order: weights and losses equal to 1e-5."""
    monkeypatch.setitem(BACKBONES, "plain", toy.plain)
    settings = {"backbone": "plain", "phases": (Phase(1.0, {"ce": 1, "rotation": 1, "hct": 1}),)}
    one = run(tmp_path / "one", **settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    torchrun = {"TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torchrun |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}  # what torchrun sets for its processes

    def share(rank):
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0", **torchrun}
        run(tmp_path / "two", devices=2, **settings)

    processes = [forked(partial(share, rank)) for rank in range(2)]
    assert [os.waitpid(process, 0)[1] for process in processes] == [0, 0]
    a, b = (checkpoint.load_latest(tmp_path / name) for name in ("one", "two"))
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        if name.startswith("optimizer."):  # the last gradients, where a rounding can turn a ReLU on or off
            continue
        torch.testing.assert_close(tensor, b.tensors[name], rtol=0, atol=1e-5 * float(tensor.abs().max()), msg=name)
    ours, theirs = one["history"][-1], b.scalars["state"]["history"][-1]
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    assert ours["images_per_second"] > 0
    assert json.loads((tmp_path / "two" / "result.json").read_text())["processes"] == 2
