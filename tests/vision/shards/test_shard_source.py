"""Learning from shards equals learning from one table in memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

from protoadapt import (
    BAPAClassifier,
    CIPAClassifier,
    ProtoNetClassifier,
    PTMAPClassifier,
    SemiProtoNetClassifier,
    SoftKMeansClassifier,
    UserError,
)
from protoadapt.vision.shards import shard_files, stream
from protoadapt.vision.shards.shard_source import ShardSource

DIM, WAY = 24, 5


UNEVEN = (0.4, 0.3, 0.15, 0.1, 0.05)


def clouds(rows: int, seed: int = 0, rectified: bool = True, sizes=UNEVEN) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(WAY, DIM))
    truth = rng.choice(WAY, rows, p=sizes)
    table = 0.7 * centres[truth] + rng.normal(size=(rows, DIM)) + 0.3
    return (np.maximum(table, 0) if rectified else table).astype(np.float16), truth


def write(folder, table, size, **other) -> None:
    """A feature folder of these rows."""
    told = {"weights": "w", "views": 1, "manifest": "m"} | other
    parts = [table[start : start + size] for start in range(0, len(table), size)]
    for number, part in enumerate(parts):
        names = [f"{number}/{row}.jpg" for row in range(len(part))]
        path = shard_files.shard_path(folder, number)
        shard_files.write_shard(path, part, np.arange(len(part)), names, {"shard": number, "broken": [], **told})
    made_by = {"model": "tiny", "weights": "w", "size": 16, "mean": [0.5] * 3, "std": [0.25] * 3}
    about = {"schema": "protoadapt-features/1", **told, "model": made_by, "root": "/archive"}
    about |= {"shards": len(parts), "pictures": len(table)}
    (folder / shard_files.ABOUT).write_text(json.dumps(about))


def labelled(truth: np.ndarray, shots: int) -> np.ndarray:
    y = np.full(len(truth), -1)
    for c in range(WAY):
        y[np.flatnonzero(truth == c)[:shots]] = c
    return y


def learned(folder, table, y, model, size, tick=lambda rows: None):
    """As `label --features` does: support rows are left out of the stream."""
    rows, _ = stream.open_features(folder)
    given = np.flatnonzero(y >= 0)
    leave = {number: given[given // size == number] % size for number in np.unique(given // size)}
    rows = stream.Rows(rows.headers, leave, tick)
    return clone(model).fit_rows(table[given].astype(np.float64), y[given], ShardSource(rows))


def state(model):
    return model.center_, model.prototypes_, model.class_bias_


@pytest.mark.parametrize("kind", [CIPAClassifier, BAPAClassifier])
@pytest.mark.parametrize(
    "settings", [{}, {"beta": 0.3}, {"power": "off"}, {"rectified": False}, {"n_iter": 0}, {"shots": 4}]
)
def test_shards_teach_what_one_table_teaches(kind, settings, tmp_path):
    settings = dict(settings)
    table, truth = clouds(700, rectified=settings.pop("rectified", True))
    y = labelled(truth, settings.pop("shots", 1))
    write(tmp_path, table, 64)
    model = kind(**settings)
    mine = learned(tmp_path, table, y, model, 64)
    model.fit(table.astype(np.float64), y)
    for ours, theirs in zip(state(mine), state(model)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)
    rows, _ = stream.open_features(tmp_path)

    source = ShardSource(rows).powered(mine.beta, mine.power)

    def best(header, part):
        return torch.cat([mine.model.logits(block).argmax(0) for block in source.blocks(header, part)])

    answers = torch.cat(list(rows.each(best))).numpy()
    assert (answers == model.predict(table.astype(np.float64))).mean() > 0.998  # fp32 beside fp64: near-ties only


@pytest.mark.parametrize(
    "model",
    [
        CIPAClassifier(center="joint", l2=False),
        CIPAClassifier(center="support"),
        CIPAClassifier(center="none", n_iter=3),
        ProtoNetClassifier(),
        SemiProtoNetClassifier(metric="cosine", n_iter=3),
        SemiProtoNetClassifier(),
        SoftKMeansClassifier(n_iter=5),
        PTMAPClassifier(n_iter=3, class_prior=UNEVEN),
    ],
    ids=str,
)
def test_every_estimator_learns_from_shards(model, tmp_path):
    table, truth = clouds(300)
    y = labelled(truth, 2)
    write(tmp_path, table, 64)
    mine = learned(tmp_path, table, y, model, 64)
    model = clone(model).fit(table.astype(np.float64), y)
    for ours, theirs in zip(state(mine), state(model)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("sizes", "once_more"), [(UNEVEN, 1), ([0.2] * 5, 0)])
def test_classes_of_one_size_need_no_weights_and_no_product_for_them(sizes, once_more, tmp_path):
    table, truth = clouds(900, sizes=sizes)
    y = labelled(truth, 1)  # one label per class: rows take part in all steps
    write(tmp_path, table, 900)
    model, passes = BAPAClassifier(n_iter=6), []
    mine = learned(tmp_path, table, y, model, 900, tick=passes.append)
    assert len(passes) == 1 + 6 + once_more
    model.fit(table.astype(np.float64), y)
    for ours, theirs in zip(state(mine), state(model)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)


def test_steps_of_labelled_rows_alone_read_no_other_rows(tmp_path):
    table, truth = clouds(900)
    y = labelled(truth, 8)  # classes overlap: unlabelled rows take part in some of the steps only
    write(tmp_path, table, 900)
    passes = []
    learned(tmp_path, table, y, BAPAClassifier(n_iter=30), 900, tick=passes.append)
    assert 2 < len(passes) < 30


def test_the_shard_size_and_the_threads_change_nothing(tmp_path):
    table, truth = clouds(500)
    y = labelled(truth, 2)
    found = []
    for size, threads in ((500, 1), (37, 1), (37, 3)):
        folder = tmp_path / f"{size}-{threads}"
        folder.mkdir()
        write(folder, table, size)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        found.append(learned(folder, table, y, BAPAClassifier(), size))
        torch.set_num_threads(before)
    for a, b, c in zip(*map(state, found)):
        np.testing.assert_allclose(a, b, atol=1e-6, rtol=1e-6)
        assert (b == c).all()  # sums are added in the order of the shards, whoever is done first


def test_rows_that_are_zero_or_the_centre_itself_break_nothing(tmp_path):
    table = np.zeros((90, DIM), np.float16)
    table[:30], table[30:60] = 1, clouds(30)[0]
    y = np.full(90, -1)
    y[30:35] = range(WAY)
    write(tmp_path, table, 16)
    for model in (CIPAClassifier(), BAPAClassifier()):
        assert all(np.isfinite(part).all() for part in state(learned(tmp_path, table, y, model, 16)))


def test_a_missing_cut_or_foreign_shard_is_said(tmp_path):
    write(tmp_path, clouds(50)[0], 10)
    path = shard_files.shard_path(tmp_path, 2)
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(UserError, match=r"1 of 5 shards .* missing or damaged, such as shard-000002"):
        stream.open_features(tmp_path)
    path.write_bytes(whole[:-1])
    with pytest.raises(UserError, match=r"missing or damaged, such as shard-000002.safetensors: .* bytes instead of"):
        stream.open_features(tmp_path)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UserError, match="checksum"):
        stream.check_all(stream.open_features(tmp_path)[0])
    shard_files.write_shard(
        path,
        np.zeros((1, DIM)),
        np.zeros(1),
        ["x"],
        {"shard": 2, "weights": "v", "views": 1, "manifest": "m", "broken": []},
    )
    with pytest.raises(UserError, match="another model"):
        stream.open_features(tmp_path)


def test_copied_shards_and_shards_that_are_left_out_are_said(tmp_path):
    write(tmp_path, clouds(50)[0], 10)
    first, second = (shard_files.shard_path(tmp_path, number) for number in (0, 1))
    whole = second.read_bytes()
    second.write_bytes(first.read_bytes())
    with pytest.raises(UserError, match="a copy of shard 0"):
        stream.open_features(tmp_path)
    second.write_bytes(whole)
    about = tmp_path / shard_files.ABOUT
    told = json.loads(about.read_text())
    for lie, part in (({"shards": 4}, (0, 1)), ({"shards": 4}, (1, 2)), ({"pictures": 49}, (0, 1))):
        about.write_text(json.dumps(told | lie))
        with pytest.raises(UserError, match="does not fit its files"):
            stream.open_features(tmp_path, part)


def test_a_shard_of_nan_is_found_before_it_is_used(tmp_path):
    table = clouds(50)[0]
    table[13, 2] = np.nan
    write(tmp_path, table, 10)
    with pytest.raises(UserError, match=r"shard-000001.* NaN"):
        stream.check_all(stream.open_features(tmp_path)[0])


@pytest.mark.parametrize("lie", [{"shard": "0"}, {"broken": 3}, {"broken": [{"name": "x"}]}, {"broken": None}])
def test_a_shard_that_lies_about_itself_is_damaged(tmp_path, lie):
    write(tmp_path, clouds(20)[0], 20, **lie)
    with pytest.raises(shard_files.Damaged):
        shard_files.read_header(shard_files.shard_path(tmp_path, 0))


@pytest.mark.parametrize("offset", [-1, 10**24, 7, True, "0"])
def test_a_shard_that_points_beyond_itself_is_damaged(tmp_path, offset):
    write(tmp_path, clouds(20)[0], 20)
    path = shard_files.shard_path(tmp_path, 0)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["names"]["data_offsets"][0] = offset
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    with pytest.raises(shard_files.Damaged):
        shard_files.check(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weights", None),
        ("root", 5),
        ("root", "a\0"),
        ("shards", -1),
        ("shards", True),
        ("pictures", "9"),
        ("model", {}),
    ]
    + [("model", {"size": 10**6}), ("model", {"size": None}), ("model", {"model": 7}), ("model", {"std": [0, 1, 1]})],
)
def test_an_edited_about_json_is_one_sentence(tmp_path, key, value):
    write(tmp_path, clouds(20)[0], 20)
    about = tmp_path / shard_files.ABOUT
    told = json.loads(about.read_text())
    told[key] = told["model"] | value if value and key == "model" else value
    about.write_text(json.dumps(told))
    with pytest.raises(UserError, match="damaged: remove it and run"):
        stream.open_features(tmp_path)


def test_only_a_few_shards_are_held(tmp_path, monkeypatch):
    write(tmp_path, clouds(400)[0], 10)
    rows, _ = stream.open_features(tmp_path)
    reading = shard_files.read_rows
    read = []
    monkeypatch.setattr(shard_files, "read_rows", lambda header: read.append(1) or reading(header))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    walk = rows.each(lambda header, part: len(part))
    for done in range(1, 21):
        next(walk)
        assert len(read) - done <= 10
    walk.close()
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_without_numba_everything_is_still_there():
    modules = "protoadapt.core.estimators, protoadapt.vision.shards.shard_source"
    code = f"import sys; sys.modules['numba'] = None; import {modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
