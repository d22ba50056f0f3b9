"""What to label next: a slow loop from the definition, and what must hold of any suggestion."""

import json

import numpy as np
import torch
from helpers.cases import groups
from hypothesis import given, settings
from hypothesis import strategies as st

from protoadapt.core.methods.unnamed import kmeans
from protoadapt.labeling.suggest import suggest


def test_suggestions_equal_a_slow_loop_over_the_clusters():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, _ = groups([8, 12, 5], 0.4, seed=seed)
        codes = np.where(rng.random(25) < 0.2, 0, -1)
        margin = rng.random(25)
        margin[rng.random(25) < 0.3] = 0.999
        pool = [j for j in range(25) if codes[j] < 0 and margin[j] <= 0.99]
        weight = {j: (1 - margin[j]) ** 3 for j in pool}
        clusters, centers = kmeans(torch.from_numpy(rows[pool]).float(), 6, torch.tensor([*weight.values()]))
        members = {c: [j for j, of in zip(pool, clusters.tolist()) if of == c] for c in range(len(centers))}
        for c, of in members.items():  # the centre of a cluster is its weighted mean
            total = sum(weight[j] for j in of)
            np.testing.assert_allclose(centers[c], sum(weight[j] * rows[j] for j in of) / total, atol=0.1)
        order = sorted(members, key=lambda c: -sum(weight[j] for j in members[c]))
        expected = [min(members[c], key=lambda j: np.linalg.norm(rows[j] - centers[c].numpy())) for c in order]
        assert [one.row for one in suggest(rows, codes, 6, margin=margin)] == expected


def test_without_labels_every_group_has_its_most_typical_picture():
    rows, group = groups([30, 20, 10, 6])
    found = suggest(rows, np.full(66, -1), 4)
    assert [group[one.row] for one in found] == [0, 1, 2, 3], "the largest group first"
    assert [one.stands_for for one in found] == [30, 20, 10, 6]
    for one in found:
        members = np.flatnonzero(group == group[one.row])
        distances = np.linalg.norm(rows[members][:, None] - rows[members], axis=2)
        nearest = np.sort(distances, 1)[:, 1:21].mean(1)
        assert one.row == members[nearest.argmin()]


def test_groups_are_divided_until_there_are_enough_clusters():
    rows, group = groups([30, 20, 10, 6])
    codes, given = np.full(66, -1), np.where(group == 3, -1, group)
    few = suggest(rows, codes, 2, groups=given)
    assert [(group[one.row], one.stands_for) for one in few] == [(0, 30), (1, 20)]
    more = suggest(rows, codes, 6, groups=given)
    assert np.bincount([group[one.row] for one in more]).tolist() == [2, 2, 1, 1]
    assert sum(one.stands_for for one in more) == 66
    every = suggest(rows, codes, 66, groups=given)
    assert sorted(one.row for one in every) == [*range(66)]


def test_pictures_in_doubt_where_no_label_is_near_come_first():
    rows, group = groups([40, 40, 10])
    codes = np.full(90, -1)
    codes[[0, 40]] = 0, 1
    margin = np.where(group == 2, 0.1, 0.9)
    first = suggest(rows, codes, 5, margin=margin)[0]
    assert group[first.row] == 2
    sure = np.where(group == 2, 1.0, 0.9)
    assert group[suggest(rows, codes, 5, margin=sure)[0].row] != 2, "nothing to learn there"
    assert not suggest(rows, codes, 5, margin=np.ones(90)), "every picture is certain"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 6), st.integers(0, 60), st.integers(0, 2**20))
def test_any_suggestion_is_unlabelled_and_comes_once(unlabeled, labelled, n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (unlabeled + labelled, 3)).astype(np.float32)  # many are equal, some are zero
    codes = rng.permutation(np.repeat([-1, 0], [unlabeled, labelled]))
    margin = rng.random(len(codes)) if labelled and seed % 2 else None
    found = [one.row for one in suggest(rows, codes, n, margin=margin)]
    assert len(set(found)) == len(found) <= min(n, unlabeled)
    assert (codes[found] < 0).all()
    if n and margin is None:
        assert len(found) == min(n, len(np.unique(rows[codes < 0], axis=0)))
    assert sum(one.stands_for for one in suggest(rows, codes, n, margin=margin)) <= unlabeled
    assert found == [one.row for one in suggest(rows, codes, n, margin=margin)], "the same every time"


def test_labels_json_says_what_to_label_next(folder, named, without_paths):
    result = named(method="protonet")  # less certain than the others
    following = result["next"]
    assert json.loads((folder / "out" / "labels.json").read_text())["next"] == following
    of_file = {one["file"]: one for one in result["pictures"]}
    for one in following:
        record = of_file[one["file"]]
        assert {*one["reason"].split(";")[0].split(" or ")} == {record["label"], record["runner_up"]}
        assert (record["margin"] <= 0.99, record["support"]) == (True, False)
    assert 1 <= len(following) <= 18
