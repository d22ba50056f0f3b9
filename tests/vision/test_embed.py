"""The embedding loop: views, progress, and the same features whichever way pictures come in."""

from pathlib import Path

import numpy as np
import pytest
import torch

from protoadapt.core.parts import open_parts
from protoadapt.training.datasets import load_images
from protoadapt.vision.embed import embed, embed_batches, embed_files, view
from protoadapt.vision.extraction import extract_features
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures.walk import find
from protoadapt.vision.shards.extract import extract_parts
from protoadapt.vision.shards.manifest import write_manifest

PIXELS = np.random.default_rng(0).integers(0, 256, (150, 3, 24, 24), dtype=np.uint8)


def test_the_windows_of_a_view_are_the_same_for_every_picture():
    """Of a view, not of a picture, its row or its batch: so fitting and prediction see the same."""
    ramp = torch.arange(24.0).mul(10).byte()
    pictures = torch.stack([ramp.expand(3, 24, 24), ramp.view(24, 1).expand(3, 24, 24)])
    for number in range(2, 10):
        whole = view(pictures, number)
        assert torch.equal(view(pictures[:1], number), whole[:1])
        assert torch.equal(view(pictures[1:], number), whole[1:])
        assert torch.equal(view(pictures.repeat(40, 1, 1, 1), number), whole.repeat(40, 1, 1, 1))
    windows = [view(pictures, number) for number in range(10)]
    assert torch.equal(windows[0], pictures)
    assert torch.equal(windows[1], pictures.flip(-1))
    assert not any(torch.equal(windows[i], windows[j]) for i in range(10) for j in range(i))
    # The least area is 35 %: of the two ramps, one per axis, the product of the spans.
    for window in windows[2:]:
        across, down = (float(part.max()) - float(part.min()) for part in (window[0], window[1]))
        assert across * down >= 0.35 * 230**2 * 0.85


@pytest.mark.parametrize("views", [1, 2, 3, 5])
def test_features_do_not_depend_on_row_or_batch(loaded, views):
    rows = embed(*loaded, PIXELS, views)
    for batch in (1, 64, 100):
        torch.testing.assert_close(embed(*loaded, PIXELS[:130], views, batch=batch), rows[:130], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(embed(*loaded, PIXELS[::-1].copy(), views), rows.flip(0), atol=1e-5, rtol=1e-5)


def test_views_are_averaged(loaded):
    network, metadata = loaded
    mean, std = (255 * torch.tensor(metadata[key]).view(3, 1, 1) for key in ("mean", "std"))
    pictures = torch.from_numpy(PIXELS[:4])
    with torch.no_grad():
        rows = [network((view(pictures, number) - mean) / std) for number in range(4)]
    torch.testing.assert_close(embed(*loaded, PIXELS[:4], 4), sum(rows) / 4, atol=1e-5, rtol=1e-5)


def test_extract_label_and_shards_see_the_same_windows(tmp_path: Path, model, loaded, paint):
    """Four views of 70 pictures, more than a batch, as a dataset, as files and as shards."""
    files = [paint(tmp_path / "mine" / "ab"[i % 2] / f"{i:02d}.png", ("red", "blue")[i % 2], i) for i in range(70)]
    files.sort()
    store = Store(None, loaded[1]["weights"], loaded[1]["size"])
    contents, errors = embed_files([str(file) for file in files], *loaded, store, views=4)
    assert not errors
    images = load_images("folder", "all", tmp_path / "mine", size=loaded[1]["size"], cache_dir=tmp_path / "cache")
    table = extract_features(*loaded, images, views=4)
    np.testing.assert_allclose(store.rows(contents), table.features.numpy(), atol=1e-5)
    manifest = write_manifest(tmp_path / "m.jsonl", *find([tmp_path / "mine"]))
    extract_parts(model, manifest, tmp_path / "shards", views=4, workers=1)
    (rows,) = open_parts(tmp_path / "shards")
    np.testing.assert_allclose(rows, table.features.numpy(), atol=2e-3)


def test_batches_come_back_with_what_came_with_them_one_at_a_time(loaded):
    asked = []

    def batches():
        for start in range(0, 30, 10):
            asked.append(start)
            yield f"from {start}", PIXELS[start : start + 10]

    rows = embed_batches(*loaded, batches())
    key, first = next(rows)
    assert (key, asked) == ("from 0", [0])
    torch.testing.assert_close(first, embed(*loaded, PIXELS[:10]), atol=1e-5, rtol=1e-5)
    assert [key for key, _ in rows] == ["from 10", "from 20"]
