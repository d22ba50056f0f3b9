"""Rows and prototypes in the plane."""

import json

import numpy as np
import pytest

from benchmarks.synthetic import synthetic_features
from protoadapt.core.episodes import draw
from protoadapt.core.projection import episode_paths, plane_paths
from protoadapt.core.protocol import Protocol


def test_prototypes_move_from_between_the_classes_to_the_middle_of_their_own():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    centers = np.eye(2, 6)
    rows = centers[labels] + 0.05 * rng.normal(size=(40, 6))
    steps = np.stack([(1 - t) * centers[::-1] + t * centers for t in (0.45, 0.8, 1.0)])  # (3, 2, 6)
    before = rows.copy()
    points = plane_paths(10 * rows, labels, np.arange(40) < 2, steps)
    assert json.loads(json.dumps(points)) == points
    assert (rows == before).all()
    plane, paths = np.array(points["rows"]), np.array(points["steps"])
    assert (plane.shape, paths.shape) == ((40, 2), (2, 3, 2))
    assert points["row_label"] == labels.tolist()
    assert points["support"] == [True] * 2 + [False] * 38
    means = np.stack([plane[labels == c].mean(0) for c in (0, 1)])
    apart = np.linalg.norm(means[0] - means[1])
    for c in (0, 1):
        assert np.linalg.norm(plane[labels == c] - means[c], axis=1).max() < apart / 2, "classes are clusters"
        far = np.linalg.norm(paths[c] - means[c], axis=1)
        assert far[0] > far[-1]
        assert far[-1] < apart / 4


@pytest.mark.parametrize("row", [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0], [np.inf, 1.0, 1.0]])
def test_rows_that_are_all_the_same_or_not_finite_have_no_plane(row):
    rows = np.tile(row, (8, 1))
    with np.errstate(invalid="ignore"):
        assert plane_paths(rows, np.zeros(8), np.zeros(8), rows[None, :2]) is None


def test_an_episode_has_21_positions_per_class_and_the_support_first():
    table = synthetic_features(classes=8, rows=30, dim=16)
    drawn = next(draw(table.labels.numpy(), Protocol(way=3, query=5), 0, 1))
    episode = drawn.episodes(table.features, 3)
    document = episode_paths(episode, drawn.query_labels[0])
    assert document["schema"] == "protoadapt-paths/1"
    assert np.array(document["steps"]).shape == (3, 21, 2)
    assert document["row_label"] == [*episode.support_labels[0].tolist(), *drawn.query_labels[0].tolist()]
    assert document["support"] == [True] * 3 + [False] * 15
    # With one shot a prototype starts at its example: both have the same coordinates before t-SNE, so nearly after it.
    plane, starts = np.array(document["rows"]), np.array(document["steps"])[:, 0]
    order = np.argsort(document["row_label"][:3])
    assert np.linalg.norm(plane[:3][order] - starts, axis=1).max() < 0.1 * np.ptp(plane, axis=0).max()
