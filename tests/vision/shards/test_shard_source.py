"""Learning from shards equals learning from one table in memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.parts import write_table
from sklearn.base import clone

from protoadapt import (
    BAPAClassifier,
    CIPAClassifier,
    ProtoNetClassifier,
    PTMAPClassifier,
    SemiProtoNetClassifier,
    SoftKMeansClassifier,
)
from protoadapt.core.parts import open_parts
from protoadapt.vision.shards.shard_source import ShardSource

DIM, WAY = 24, 5


UNEVEN = (0.4, 0.3, 0.15, 0.1, 0.05)


def clouds(rows: int, seed: int = 0, rectified: bool = True, sizes=UNEVEN) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(WAY, DIM))
    truth = rng.choice(WAY, rows, p=sizes)
    table = 0.7 * centres[truth] + rng.normal(size=(rows, DIM)) + 0.3
    return (np.maximum(table, 0) if rectified else table).astype(np.float16), truth


def labelled(truth: np.ndarray, shots: int) -> np.ndarray:
    y = np.full(len(truth), -1)
    for c in range(WAY):
        y[np.flatnonzero(truth == c)[:shots]] = c
    return y


def learned(folder, table, y, model, size, tick=lambda rows: None):
    """As `label --features` does: support rows are left out of the stream."""
    given = np.flatnonzero(y >= 0)
    leave = {number: given[given // size == number] % size for number in np.unique(given // size)}
    rows = replace(open_parts(folder), leave=leave, tick=tick)
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
    write_table(tmp_path, table, 64)
    model = kind(**settings)
    mine = learned(tmp_path, table, y, model, 64)
    model.fit(table.astype(np.float64), y)
    for ours, theirs in zip(state(mine), state(model)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)
    source = ShardSource(open_parts(tmp_path)).powered(mine.beta, mine.power)

    def best(part, rows):
        return torch.cat([mine.model.logits(block).argmax(0) for block in source.blocks(rows)])

    answers = torch.cat(list(source.table.each(best))).numpy()
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
    write_table(tmp_path, table, 64)
    mine = learned(tmp_path, table, y, model, 64)
    model = clone(model).fit(table.astype(np.float64), y)
    for ours, theirs in zip(state(mine), state(model)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("sizes", "once_more"), [(UNEVEN, 1), ([0.2] * 5, 0)])
def test_classes_of_one_size_need_no_weights_and_no_product_for_them(sizes, once_more, tmp_path):
    table, truth = clouds(900, sizes=sizes)
    y = labelled(truth, 1)  # one label per class: rows take part in all steps
    write_table(tmp_path, table, 900)
    model, passes = BAPAClassifier(n_iter=6), []
    mine = learned(tmp_path, table, y, model, 900, tick=passes.append)
    assert len(passes) == 1 + 6 + once_more
    model.fit(table.astype(np.float64), y)
    for ours, theirs in zip(state(mine), state(model)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)


def test_steps_of_labelled_rows_alone_read_no_other_rows(tmp_path):
    table, truth = clouds(900)
    y = labelled(truth, 8)  # classes overlap: unlabelled rows take part in some of the steps only
    write_table(tmp_path, table, 900)
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
        write_table(folder, table, size)
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
    write_table(tmp_path, table, 16)
    for model in (CIPAClassifier(), BAPAClassifier()):
        assert all(np.isfinite(part).all() for part in state(learned(tmp_path, table, y, model, 16)))
