"""CUB's pictures with mini-ImageNet's fidelity."""

import numpy as np
from PIL import Image, JpegImagePlugin

from paper.small_files import reduce_all


def test_small_files_are_84_px_jpegs_of_quality_75_with_the_same_names(tmp_path):
    full, small = tmp_path / "full", tmp_path / "small"
    ramp = np.linspace(0, 255, 200).astype(np.uint8)
    pixels = np.stack([np.tile(ramp, (120, 1))] * 3, 2)
    names = ["train/001.A/a.jpg", "test/001.A/b.jpg", "train/002.B/c.jpg"]
    for name in names:
        (full / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(full / name, quality=95, subsampling="4:4:4")
    (full / "cub-boxes.csv").write_text("image,width,height,x,y,box_width,box_height\n")
    assert reduce_all(full, small) == 3
    assert sorted(p.relative_to(small).as_posix() for p in small.rglob("*.jpg")) == sorted(names)
    assert (small / "cub-boxes.csv").read_bytes() == (full / "cub-boxes.csv").read_bytes()
    Image.new("RGB", (84, 84)).save(tmp_path / "reference.jpg", quality=75)
    with Image.open(small / names[0]) as image, Image.open(tmp_path / "reference.jpg") as reference:
        assert image.size == (84, 84)
        assert JpegImagePlugin.get_sampling(image) == 2  # 4:2:0
        assert image.quantization == reference.quantization
        row = np.asarray(image)[40, :, 0].astype(int)
    assert row[0] < 8  # the whole width is there, not a part of it
    assert row[-1] > 247
    assert (np.diff(row) > -6).all()
