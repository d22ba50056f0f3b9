"""Every layout that users have leads to the same pictures under the same labels."""

import csv
import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.small_pictures import class_folders, painted, python2_table
from helpers.touched import touched
from PIL import Image

from protoadapt.core.errors import UserError
from protoadapt.training.datasets import DATASETS, check_dataset, class_list, load_images

SPLITS = ("base", "val", "novel")


def loaded(name: str, split: str, folder: Path, size: int = 16, **more: object):
    return load_images(name, split, folder, size=size, **more)


def cifar(folder: Path, python2: bool) -> dict[str, np.ndarray]:
    """cifar-100-python with two training and one test picture a class; the pictures by name."""
    names = sorted(label for split in SPLITS for label in class_list("cifar-fs", split))
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    pictures: dict[str, np.ndarray] = {}
    for half, each in (("train", 2), ("test", 1)):
        labels = rng.permutation(np.repeat(np.arange(100), each)).tolist()
        data = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        files = [f"{names[label]}_s_{i:06d}.png".encode() for i, label in enumerate(labels)]
        for file, row in zip(files, data):
            pictures[f"{half}/{file.decode()}"] = row.reshape(3, 32, 32)
        if python2:
            content = python2_table(data=data, fine_labels=labels, coarse_labels=labels, filenames=files)
        else:
            content = pickle.dumps({b"data": data, b"fine_labels": labels, b"filenames": files})
        (folder / half).write_bytes(content)
    meta = [name.encode() for name in names]
    (folder / "meta").write_bytes(
        python2_table(fine_label_names=meta) if python2 else pickle.dumps({b"fine_label_names": meta})
    )
    return pictures


@pytest.mark.parametrize("python2", [True, False])
@pytest.mark.parametrize("name", ["cifar-fs", "fc100"])
def test_cifar_pickles(tmp_path: Path, name: str, python2: bool) -> None:
    pictures = cifar(tmp_path / "cifar-100-python", python2)
    seen = set()
    for split, given in zip(SPLITS, ("train", "val", "test")):
        images = loaded(name, given, tmp_path, size=32)
        assert images.class_names == class_list(name, split)
        assert images.split == split
        assert len(images) == 3 * len(images.class_names)
        assert (np.bincount(images.labels) == 3).all()
        for row, path in enumerate(images.paths):
            np.testing.assert_array_equal(images.pixels[row], pictures[path])
            assert path.split("/")[1].rsplit("_s_", 1)[0] == images.class_names[images.labels[row]]
        seen |= set(images.paths)
    assert seen == set(pictures)


@pytest.fixture(scope="module")
def mini() -> dict[str, dict[str, list[np.ndarray]]]:
    """split → class → two 84 × 84 pictures"""
    return {
        split: {
            label: [np.asarray(painted(10 * i + 1000 * s + k, 84, 84)) for k in range(2)]
            for i, label in enumerate(class_list("mini-imagenet", split))
        }
        for s, split in enumerate(SPLITS)
    }


def mini_csv(root: Path, mini: dict) -> None:
    (root / "images").mkdir(parents=True)
    for split, old in zip(SPLITS, ("train", "val", "test")):
        rows = [("filename", "label")]
        for label, pictures in mini[split].items():
            for k, picture in enumerate(pictures):
                rows.append((f"{label}{k:08d}.png", label))
                Image.fromarray(picture).save(root / "images" / rows[-1][0], compress_level=0)
        with (root / f"{old}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)


def mini_folders(root: Path, mini: dict) -> None:
    for old, classes in zip(("train", "val", "test"), mini.values()):
        for label, pictures in classes.items():
            (root / old / label).mkdir(parents=True)
            for k, picture in enumerate(pictures):
                Image.fromarray(picture).save(root / old / label / f"{k}.png", compress_level=0)


def mini_cache(root: Path, mini: dict) -> None:
    root.mkdir()
    for old, classes in zip(("train", "val", "test"), mini.values()):
        rows = {label: [2 * i, 2 * i + 1] for i, label in enumerate(classes)}
        table = {"image_data": np.concatenate([np.stack(p) for p in classes.values()]), "class_dict": rows}
        (root / f"mini-imagenet-cache-{old}.pkl").write_bytes(pickle.dumps(table, 2))


@pytest.mark.parametrize("make", [mini_csv, mini_folders, mini_cache])
def test_mini_imagenet(tmp_path: Path, mini: dict, make: Callable) -> None:
    make(tmp_path / "mini-imagenet", mini)
    for split in SPLITS:
        images = loaded("mini-imagenet", split, tmp_path, size=84)
        assert images.class_names == list(mini[split])
        assert images.labels.tolist() == np.repeat(np.arange(len(mini[split])), 2).tolist()
        wanted = np.stack([picture for pictures in mini[split].values() for picture in pictures])
        np.testing.assert_array_equal(images.pixels, wanted.transpose(0, 3, 1, 2))


def test_tiered_pickles_and_their_words(tmp_path: Path) -> None:
    """A PNG file per picture as an array of bytes, (N, 1); the classes are words, two of them alike."""
    names, pictures = ["crane"] * 2 + [f"word {i}" for i in range(95)], []
    for seed in range(97):
        stream = io.BytesIO()
        painted(seed, 16, 16).save(stream, "PNG")
        pictures.append(np.frombuffer(stream.getvalue(), np.uint8)[:, None])
    labels = {"label_specific": np.arange(97, dtype=np.int32), "label_specific_str": names}
    (tmp_path / "val_images_png.pkl").write_bytes(pickle.dumps(pictures, 2))
    (tmp_path / "val_labels.pkl").write_bytes(pickle.dumps(labels, 2))
    images = loaded("tiered-imagenet", "val", tmp_path)
    assert images.class_names == sorted(["crane", "crane 1", *names[2:]])
    for row, path in enumerate(images.paths):
        np.testing.assert_array_equal(images.pixels[row].transpose(1, 2, 0), painted(int(path[4:10]), 16, 16))
    assert "val: 97 classes, 97 of 124,261 pictures" in check_dataset("tiered-imagenet", tmp_path).text


def test_val_of_ilsvrc_is_not_merged_with_train_and_images_inside_classes_are_read(tmp_path: Path) -> None:
    classes = class_list("mini-imagenet", "val")
    class_folders(tmp_path / "train", [f"{label}/images" for label in classes[1:]], 2)
    class_folders(tmp_path / "train", classes[:1], 2)
    class_folders(tmp_path / "val", classes, 1)
    images = loaded("mini-imagenet", "val", tmp_path)
    assert {path.split("/")[0] for path in images.paths} == {"train"}
    assert np.bincount(images.labels).tolist() == [2] * 16


OTHER_TABLES = [7, {}, {"image_data": 7, "class_dict": {"n01": [0]}}, {"class_dict": [1]}]
BROKEN_PICKLES = [b"", b"not a pickle", pickle.dumps({"image_data": np.zeros(99)})[:-40]]


@pytest.mark.parametrize("content", [*map(pickle.dumps, OTHER_TABLES), *BROKEN_PICKLES])
def test_a_broken_pickle_or_one_of_other_tables_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mini-imagenet-cache-val.pkl").write_bytes(content)
    with pytest.raises(UserError, match=r"mini-imagenet-cache-val\.pkl in .* does not hold .*: download it again"):
        loaded("mini-imagenet", "val", tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"../../secret.png,{}\n", "outside the dataset"),
        (b"caf\xe9.png,x\n", r"val\.csv is not UTF-8 text \(byte \d+\)"),
        (b"x" * 140_000 + b",x\n", r"val\.csv cannot be read as csv"),
    ],
)
def test_a_list_that_is_none_is_one_sentence(tmp_path: Path, mini: dict, line: bytes, said: str) -> None:
    mini_csv(tmp_path / "mini", mini)
    with (tmp_path / "mini" / "val.csv").open("ab") as file:
        file.write(line.replace(b"{}", class_list("mini-imagenet", "val")[0].encode()))
    with pytest.raises(UserError, match=f"{said}.*: download"):
        loaded("mini-imagenet", "val", tmp_path / "mini")


def cub(root: Path) -> dict[str, tuple]:
    """CUB_200_2011 with one or two pictures a class, and boxes; name → (picture, box)."""
    names = sorted(label for split in SPLITS for label in class_list("cub", split))
    made, images, boxes = {}, [], []
    for c, name in enumerate(names):
        (root / "images" / name).mkdir(parents=True)
        for k in range(1 + c % 2):
            key, picture = f"{name}/Bird_{k}.png", painted(10 * c + k, 40 + c % 7, 30)
            picture.save(root / "images" / key, compress_level=0)
            made[key] = (picture, (c % 5, k + 2, 20 + c % 9, 25))
            images.append(f"{len(made)} {key}")
            boxes.append(" ".join([str(len(made)), *(f"{v:.1f}" for v in made[key][1])]))
    (root / "images.txt").write_text("\n".join(images))
    (root / "bounding_boxes.txt").write_text("\n".join(boxes))
    return made


def split_folders(official: Path, root: Path, made: dict, boxes: str) -> None:
    """The same pictures under train/ and test/, reduced to half their size where a csv can say so."""
    rows = [["id", "image", "width", "height", "x", "y", "box_width", "box_height"]]
    for i, (key, (picture, box)) in enumerate(made.items()):
        target = root / ("train", "test")[i % 2] / key
        target.parent.mkdir(parents=True, exist_ok=True)
        picture.save(target, compress_level=0)
        rows.append([i + 1, key, 2 * picture.width, 2 * picture.height, *(2 * value for value in box)])
    if boxes == "csv":
        with (root / "boxes.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    else:
        for name in ("images.txt", "bounding_boxes.txt"):
            shutil.copy(official / name, root / name)


@pytest.mark.parametrize("layout", ["official", "csv", "txt"])
def test_cub(tmp_path: Path, layout: str) -> None:
    made = cub(tmp_path / "CUB_200_2011")
    folder = tmp_path
    if layout != "official":
        folder = tmp_path / "other"
        split_folders(tmp_path / "CUB_200_2011", folder, made, layout)
    for split in SPLITS:
        for crop in ("none", "box"):
            images = loaded("cub", split, folder, crop=crop)
            assert images.class_names == class_list("cub", split)
            assert images.crop == crop
            for row, path in enumerate(images.paths):
                key = path.split("/", 1)[1]
                picture, (x, y, width, height) = made[key]
                assert key.split("/")[0] == images.class_names[images.labels[row]]
                cut = picture.crop((x, y, x + width, y + height)) if crop == "box" else picture
                want = np.asarray(cut.resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
                np.testing.assert_array_equal(images.pixels[row], want)


def test_cub_without_boxes_or_with_none_in_their_file(tmp_path: Path) -> None:
    class_folders(tmp_path, class_list("cub", "val"), 1)
    assert len(loaded("cub", "val", tmp_path)) == 50
    said = (
        r"needs the boxes of CUB, which are not in .*: put bounding_boxes\.txt and images\.txt there, .*tgz from https:"
    )
    with pytest.raises(UserError, match=said + r".*, or use whole pictures with --crop none \(in training"):
        loaded("cub", "val", tmp_path, crop="box")
    (tmp_path / "boxes.csv").write_text("file,x,y\na,1,1\n")
    with pytest.raises(UserError, match=r"boxes\.csv has a row that is no box"):
        loaded("cub", "val", tmp_path, crop="box")
    with pytest.raises(UserError, match="has no crop 'box'"):
        loaded("mini-imagenet", "val", tmp_path, crop="box")


def test_own_folder_is_split_like_cub(mine: Path) -> None:
    got = {split: loaded("folder", split, mine).class_names for split in (*SPLITS, "all")}
    assert got["base"] == ["kind0", "kind2", "kind4", "kind6"]
    assert got["val"] == ["kind1", "kind5"]
    assert got["novel"] == ["kind3", "kind7"]
    assert got["all"] == [f"kind{i}" for i in range(8)]


def test_own_split_folders(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", ["a", "b"])
    class_folders(tmp_path / "test", ["c"])
    assert loaded("folder", "base", tmp_path).class_names == ["a", "b"]
    assert loaded("folder", "novel", tmp_path).class_names == ["c"]
    assert loaded("folder", "all", tmp_path).class_names == ["a", "b", "c"]
    with pytest.raises(UserError, match="the split val"):
        loaded("folder", "val", tmp_path)
    class_folders(tmp_path / "test", ["b"])
    with pytest.raises(UserError, match="'b' is in two split folders"):
        loaded("folder", "base", tmp_path)


@pytest.mark.parametrize(
    ("place", "split", "said"),
    [
        (
            "photos",
            "all",
            "photos' has no class folders for the split all: put the pictures of each class .*`extract --manifest`$",
        ),
        ("two", "novel", r"two' has no class folders for the split novel: .*at least eight"),
        ("none", "all", "no folder .*none': give one that holds one folder of pictures per class$"),
    ],
)
def test_own_folder_without_classes(tmp_path: Path, place: str, split: str, said: str) -> None:
    class_folders(tmp_path, ["photos"])
    class_folders(tmp_path / "two", ["a", "b"])
    with pytest.raises(UserError, match=said):
        loaded("folder", split, tmp_path / place)


def test_missing_classes_are_named(tmp_path: Path) -> None:
    classes = class_list("cifar-fs", "val")
    class_folders(tmp_path, classes[1:], 1)
    with pytest.raises(UserError, match=f"15 of the 16 classes.*{classes[0]}"):
        loaded("cifar-fs", "val", tmp_path)
    with pytest.raises(UserError, match=r"base classes of CIFAR-FS are not in .*cs\.toronto\.edu.*--download"):
        loaded("cifar-fs", "base", tmp_path)


@pytest.mark.parametrize(("name", "split"), [("cifar", "base"), ("cub", "bas"), ("cub", "all")])
def test_unknown_names(tmp_path: Path, name: str, split: str) -> None:
    with pytest.raises(UserError, match="there is no"):
        loaded(name, split, tmp_path)


def test_only_the_wanted_split_is_touched(tmp_path: Path) -> None:
    root = class_folders(
        tmp_path / "CUB_200_2011" / "train", [label for split in SPLITS for label in class_list("cub", split)], 1
    )
    with touched() as paths:
        images = loaded("cub", "base", tmp_path)
    assert len(images) == 100
    opened = {Path(path).relative_to(root).parts[0] for path in paths if path.startswith(f"{root}{os.sep}")}
    assert opened == set(class_list("cub", "base"))


def test_registry_as_a_whole() -> None:
    sizes = {"cifar-fs": (64, 16, 20), "fc100": (60, 20, 20), "mini-imagenet": (64, 16, 20)}
    sizes |= {"tiered-imagenet": (351, 97, 160), "cub": (100, 50, 50), "glyphs": (227, 60, 80), "folder": (0, 0, 0)}
    assert set(sizes) == set(DATASETS)
    for name, dataset in DATASETS.items():
        lists = [class_list(name, split) for split in SPLITS]
        assert tuple(map(len, lists)) == sizes[name]
        assert len({label for classes in lists for label in classes}) == sum(sizes[name])
        assert all(classes == sorted(classes) for classes in lists)
        assert (dataset.url is None) == (dataset.md5 is None)
    totals = {name: sum(dataset.images.values()) for name, dataset in DATASETS.items() if dataset.images}
    assert totals == dict.fromkeys(("cifar-fs", "fc100", "mini-imagenet"), 60_000) | {
        "tiered-imagenet": 779_165,
        "cub": 11_788,
    }
