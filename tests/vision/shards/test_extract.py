"""Sharded extraction: the same bytes whoever makes them, whatever is killed, cut or full on the way."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.archive import contents, names_and_rows, write_picture
from helpers.networks import save_model

from protoadapt import UserError
from protoadapt.cli import extract_command
from protoadapt.cli.manifest_command import manifest_command
from protoadapt.core.parts import check_part, open_parts, part_file, read_index, read_lists, read_part
from protoadapt.vision import networks
from protoadapt.vision.pictures import formats
from protoadapt.vision.pictures.decode import Picture, decode
from protoadapt.vision.pictures.walk import find
from protoadapt.vision.shards import make
from protoadapt.vision.shards.extract import extract_parts, list_broken
from protoadapt.vision.shards.make import BATCH
from protoadapt.vision.shards.manifest import write_manifest


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Of the parts that are there whole: the file beside the rows is written last."""
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.glob("part-*.jsonl")}


def test_rows_are_the_networks_answer_to_each_picture_alone(model, archive, manifest, features):
    network, (names, rows) = networks.load(model)[0], names_and_rows(features)
    assert (rows.dtype, rows.shape) == (np.float16, (118, 16))
    for part in open_parts(features).parts:
        lists = read_lists(part)
        assert [manifest.read(part.number)[row].path for row in lists["numbers"]] == lists["names"]
    for name, row in zip(names, rows):
        pixels = torch.from_numpy(decode(Picture(name, "", str(archive / name)), 16).copy()).float() / 255
        with torch.inference_mode():
            alone = network(((pixels - 0.5) / 0.25)[None])[0]
        torch.testing.assert_close(torch.from_numpy(row).float(), alone, atol=2e-3, rtol=2e-3)
    everything = {str(p.relative_to(archive)) for p in archive.rglob("*.*")}
    assert everything - set(names) == {"b/050x.png", "c/text.jpg"}


def test_a_machine_out_of_memory_makes_no_shard_with_gaps(model, manifest, tmp_path, monkeypatch):
    def short(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(make, "decode_bytes", short)
        patch.setattr(formats, "MAX_PIXELS", 1 << 60)  # more than any machine has
        with pytest.raises(UserError, match="not enough memory to decode"):
            extract_parts(model, manifest, tmp_path, workers=1)
    assert os.listdir(tmp_path) == ["index.json"]


def test_broken_pictures_are_listed_by_name_in_a_list_of_our_own(features, tmp_path):
    file = tmp_path / "broken.csv"
    whole = [number for number in range(12) if not read_part(features, number).record["broken"]]
    file.write_text("my own notes\n")
    assert list_broken(features, whole, file) == 0
    with pytest.raises(UserError, match="was not written by this command"):
        list_broken(features, range(12), file)
    assert file.read_text() == "my own notes\n"
    file.unlink()
    assert list_broken(features, range(12), file) == list_broken(features, range(12), file) == 2
    lines = file.read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["name", "b/050x.png", "c/text.jpg"]
    assert "truncated or damaged" in lines[1]
    assert "no picture of a known kind" in lines[2]
    assert list_broken(features, whole, file) == 0
    assert not file.exists()


@pytest.mark.parametrize("how", ["2 workers", "parts", "device"])
def test_the_bytes_do_not_depend_on_who_makes_them(how, model, manifest, features, tmp_path):
    if how == "2 workers":
        extract_parts(model, manifest, tmp_path, workers=2)
    elif how == "parts":  # as a SLURM array of three, the last first
        for part in (2, 0, 1):
            extract_parts(model, manifest, tmp_path, machine=(part, 3), workers=1)
    else:  # as with a GPU: processes decode, this one embeds
        extract_parts(model, manifest, tmp_path, workers=2, device="cpu:0")
    assert contents(tmp_path) == contents(features)


def test_a_folder_is_continued_by_the_engine_that_began_it(model, manifest, features, tmp_path, monkeypatch):
    begun, mixed = tmp_path / "begun", tmp_path / "mixed"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnxruntime", None)
        extract_parts(model, manifest, begun, machine=(0, 2), workers=1)
        extract_parts(model, manifest, tmp_path / "torch", workers=1)
    extract_parts(model, manifest, begun, workers=1)
    assert contents(begun) == contents(tmp_path / "torch")
    assert [read_index(folder)["engine"] for folder in (begun, features)] == ["torch", "onnxruntime"]

    extract_parts(model, manifest, mixed, machine=(0, 2), workers=1)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(UserError, match="onnxruntime does not compute this network"):
            extract_parts(model, manifest, mixed, workers=1)
    with pytest.raises(UserError, match=r"with engine onnxruntime, not torch: use another --out"):
        extract_parts(model, manifest, mixed, device="cpu:1" if torch.cuda.is_available() else "cuda")


@pytest.mark.slow
def test_a_local_ray_cluster_makes_the_same_bytes(model, manifest, features, tmp_path):
    pytest.importorskip("ray")
    extract_parts(model, manifest, tmp_path, engine="ray", workers=2)
    assert contents(tmp_path) == contents(features)


def test_ray_not_installed_is_said(model, manifest, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"'\.\[ray\]'"):
        extract_parts(model, manifest, tmp_path, engine="ray")


def test_what_is_whole_is_kept_and_what_is_not_is_made_again(model, manifest, features, tmp_path):
    extract_parts(model, manifest, tmp_path, workers=1)
    cut, changed, gone, alone = (part_file(tmp_path, number) for number in (3, 5, 7, 9))
    os.truncate(cut, cut.stat().st_size - 10)
    data = bytearray(changed.read_bytes())
    data[-3] ^= 1
    changed.write_bytes(data)
    gone.unlink()
    alone.with_suffix(".jsonl").unlink()  # as after a kill between the two
    before = stamps(tmp_path)
    done = extract_parts(model, manifest, tmp_path, workers=1)
    assert (done.made, done.kept) == (4, 8)
    assert [text.split(":")[0] for text in done.damaged] == [cut.name, changed.name, gone.name]
    after, again = stamps(tmp_path), {path.with_suffix(".jsonl").name for path in (cut, changed, gone, alone)}
    assert {name for name in after if before.get(name) != after[name]} == again
    assert contents(tmp_path) == contents(features)


def copy_part(one: Path, other: Path) -> None:
    for suffix in (".npy", ".jsonl"):
        shutil.copy2(part_file(one, 0).with_suffix(suffix), part_file(other, 0).with_suffix(suffix))


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "protoadapt", "extract", *map(str, words), "--device", "cpu"]


def test_kill_9_loses_nothing_and_does_nothing_twice(model, manifest, features, tmp_path):
    words = command(model, "--manifest", manifest.path, "--out", tmp_path, "--workers", 2)
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and len(stamps(tmp_path)) < 4:
        time.sleep(0.002)  # until a file appears: what is awaited, not a guess
    run.send_signal(signal.SIGKILL)
    run.wait(timeout=120)
    kept = stamps(tmp_path)
    done = extract_parts(model, manifest, tmp_path, workers=1)
    assert (done.kept, done.made, done.damaged) == (len(kept), 12 - len(kept), [])
    assert kept.items() <= stamps(tmp_path).items()
    made = {name: digest for name, digest in contents(tmp_path).items() if not name.endswith(".partial")}
    assert made == contents(features)


def test_a_worker_that_is_killed_is_said(model, manifest, tmp_path, monkeypatch):
    monkeypatch.setattr(make.Job, "decode", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(UserError, match="a worker process was killed or did not start"):
        extract_parts(model, manifest, tmp_path, workers=2, device="cpu:0")
    assert os.listdir(tmp_path) == ["index.json"]


def test_features_of_another_model_or_manifest_are_never_mixed(model, manifest, archive, features, tmp_path):
    other = save_model(tmp_path / "other.safetensors", seed=1)
    with pytest.raises(UserError, match=r"with weights .*: use another --out"):
        extract_parts(other, manifest, features)
    with pytest.raises(UserError, match="features with manifest"):
        extract_parts(model, write_manifest(tmp_path / "m.jsonl", *find([archive]), shard_size=11), features)
    with pytest.raises(UserError, match="with views 1, not 2"):
        extract_parts(model, manifest, features, views=2)
    extract_parts(other, manifest, tmp_path / "o", machine=(0, 12), workers=1)
    copy_part(features, tmp_path / "o")
    done = extract_parts(other, manifest, tmp_path / "o", workers=1)
    assert (done.made, done.damaged) == (12, ["part-000000.npy: it is of another model or manifest"])


def test_an_array_of_the_user_is_not_replaced(model, manifest, tmp_path):
    (tmp_path / "part-000000.npy").write_text("mine")
    with pytest.raises(UserError, match="would be replaced"):
        extract_parts(model, manifest, tmp_path, workers=1)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]


def test_tar_members_give_the_rows_of_the_files(model, archive, features, tmp_path):
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for path in sorted(p for p in archive.rglob("*.*")):
            tar.add(path, str(path.relative_to(archive)))
    packed = write_manifest(tmp_path / "m.jsonl", *find([tmp_path / "all.tar"]), shard_size=10)
    extract_parts(model, packed, tmp_path / "out", workers=1)
    (ours, rows), (theirs, same) = names_and_rows(tmp_path / "out"), names_and_rows(features)
    assert np.array_equal(rows, same)
    assert [name.removeprefix("all.tar/") for name in ours] == theirs


def test_a_picture_that_changed_or_went_costs_one_row(model, tmp_path):
    rng = np.random.default_rng(0)
    for i in range(4):
        write_picture(tmp_path / "in" / f"{i}.png", rng)
    root, entries = find([tmp_path / "in"])
    manifest = write_manifest(tmp_path / "m.jsonl", root, entries)
    (root / "2.png").unlink()
    (root / "3.png").write_bytes((root / "3.png").read_bytes() + b"more")
    extract_parts(model, manifest, tmp_path / "out", workers=1)
    broken = check_part(tmp_path / "out", 0).record["broken"]
    assert [b["name"] for b in broken] == ["2.png", "3.png"]
    assert "No such file" in broken[0]["reason"]
    assert broken[1]["reason"] == "it changed after the manifest was written"


def test_a_row_does_not_depend_on_the_pictures_beside_it(model, tmp_path):
    """More than a batch in one shard, against the same pictures in shards of 7; views with random windows too."""
    rng = np.random.default_rng(1)
    for i in range(BATCH + 5):
        write_picture(tmp_path / "in" / f"{i:03d}.png", rng)
    tables = []
    for size in (1000, 7):
        manifest = write_manifest(tmp_path / f"{size}.jsonl", *find([tmp_path / "in"]), shard_size=size)
        extract_parts(model, manifest, tmp_path / f"{size}", workers=1, views=2)
        tables.append(names_and_rows(tmp_path / f"{size}")[1])
    assert np.array_equal(*tables)


def test_not_one_picture_that_can_be_read_is_an_error(model, tmp_path, capsys):
    """What follows in a script must not start; the list of what was wrong stays. Other parts may have rows, so that one
    without any ends well."""
    for name in ("1.png", "2.png"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("no picture")
    manifest_command([tmp_path / "in"], tmp_path / "m.jsonl", shard_size=1)
    capsys.readouterr()
    for _ in range(2):  # as well when the shards are there already
        with pytest.raises(UserError, match=r"not one picture can be read, see .*broken.csv: repair them"):
            extract_command.extract_command(
                model, tmp_path / "f", manifest=tmp_path / "m.jsonl", workers=1, device="cpu"
            )
        assert "2.png" in (tmp_path / "f" / "broken.csv").read_text()
    extract_command.extract_command(
        model, tmp_path / "f", manifest=tmp_path / "m.jsonl", shard="1/2", workers=1, device="cpu"
    )
    assert "1 of 1 picture cannot be read and has no row" in capsys.readouterr().err
    assert "2.png" in (tmp_path / "f" / "broken-1-of-2.csv").read_text()


def test_bad_arguments_are_one_sentence(model, manifest, tmp_path):
    for text in ("3/3", "1", "a/b", "-1/2", "1/0"):
        with pytest.raises(UserError, match="i from 0 to n - 1"):
            extract_command.extract_command(str(model), tmp_path / "out", manifest=manifest.path, shard=text)
    with pytest.raises(UserError, match="is a file"):
        extract_command.extract_command(str(model), model, manifest=manifest.path, device="cpu")
    with pytest.raises(UserError, match="no engine 'rai'"):
        extract_parts(model, manifest, tmp_path / "out", engine="rai")
    with pytest.raises(UserError, match="--workers is 0"):
        extract_parts(model, manifest, tmp_path / "out", workers=0)
    with pytest.raises(UserError, match=r"--views is 1000000000: .* from 1 to 1,024"):
        extract_parts(model, manifest, tmp_path / "out", views=10**9)
    assert not (tmp_path / "out").exists()
