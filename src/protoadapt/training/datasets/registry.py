"""What each dataset is: its layouts on disk, its classes, how many pictures, where it is officially had."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from protoadapt.core.errors import UserError, unknown
from protoadapt.training.datasets import cifar, cub, folders, glyphs, imagenet
from protoadapt.vision.pictures.images import Source

SPLITS = {"base": "base", "train": "base", "val": "val", "validation": "val", "novel": "novel", "test": "novel"}

Layout = Callable[[Path, str, list[str], str], Source | None]
"""(root, split, classes, crop) → what is there in this layout, or None. It touches the pictures of that split only."""


@dataclass(frozen=True)
class Dataset:
    title: str
    layouts: tuple[Layout, ...]
    looks_like: str  # on disk, in words
    home: str  # where it is officially had
    mean: tuple[float, float, float]  # of the base classes, pixels from 0 to 1, as `load` gives them
    std: tuple[float, float, float]
    per_class: int | None = None  # pictures in every class, where that is one number
    images: Mapping[str, int] = field(default_factory=dict)  # pictures in a split
    folders: tuple[str, ...] = ()  # names under which its folder is found inside the data folder
    size: int = 84
    crops: tuple[str, ...] = ("none",)
    url: str | None = None
    md5: str | None = None
    note: str = ""


DATASETS = {
    "cifar-fs": Dataset(
        title="CIFAR-FS",
        layouts=(cifar.pickles, folders.class_folders),
        folders=("cifar-100-python", "cifar100", "CIFAR-FS", "cifar_fs", "cifar-fs"),
        looks_like="cifar-100-python/ with train, test and meta, or one folder of pictures a class",
        home="https://www.cs.toronto.edu/~kriz/cifar.html (CIFAR-100, Python version)",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        mean=(0.5088, 0.4917, 0.4437),
        std=(0.2660, 0.2549, 0.2759),
        per_class=600,
        images={"base": 38_400, "val": 9_600, "novel": 12_000},
    ),
    "fc100": Dataset(
        title="FC100",
        layouts=(cifar.pickles, folders.class_folders),
        folders=("cifar-100-python", "cifar100", "FC100", "fc100"),
        looks_like="cifar-100-python/ with train, test and meta, or one folder of pictures a class",
        home="https://www.cs.toronto.edu/~kriz/cifar.html (CIFAR-100, Python version)",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        mean=(0.5182, 0.4976, 0.4584),
        std=(0.2728, 0.2618, 0.2861),
        per_class=600,
        images={"base": 36_000, "val": 12_000, "novel": 12_000},
    ),
    "mini-imagenet": Dataset(
        title="mini-ImageNet",
        layouts=(imagenet.csv_and_images, imagenet.pickle_a_split, folders.class_folders),
        folders=("mini-imagenet", "mini_imagenet", "miniImageNet", "miniImagenet", "miniimagenet"),
        looks_like="images/ with train.csv, val.csv and test.csv, or mini-imagenet-cache-*.pkl, "
        "or miniImageNet_category_split_*.pickle, or one folder of pictures a class (n01532829/ …)",
        home="https://image-net.org/download.php (ILSVRC 2012), cut by https://github.com/twitter-research/meta-learning-lstm",
        mean=(0.4709, 0.4503, 0.4055),
        std=(0.2714, 0.2646, 0.2782),
        per_class=600,
        images={"base": 38_400, "val": 9_600, "novel": 12_000},
        note="Eight of its pictures occur twice, a few of them in a base and a validation class: "
        "that is the published dataset, and it is used as it is.",
    ),
    "tiered-imagenet": Dataset(
        title="tiered-ImageNet",
        layouts=(imagenet.many_class_folders,),
        folders=("tiered-imagenet", "tiered_imagenet", "tieredImageNet", "tieredImagenet", "tieredimagenet"),
        looks_like="one folder of pictures a class (n01530575/ …), alone or in train/, val/ and test/",
        home="https://github.com/renmengye/few-shot-ssl-public, or the class folders of ILSVRC 2012 from https://image-net.org",
        mean=(0.485, 0.456, 0.406),  # ImageNet's usual ones
        std=(0.229, 0.224, 0.225),
        images={"base": 448_695, "val": 124_261, "novel": 206_209},
    ),
    "cub": Dataset(
        title="CUB-200-2011",
        layouts=(cub.official, cub.split_folders),
        folders=("CUB_200_2011", "CUB-200-2011", "CUB-200-2011-dataset", "cub"),
        looks_like="CUB_200_2011/ with images/, images.txt, image_class_labels.txt, classes.txt, bounding_boxes.txt, "
        "or one folder of pictures a class (001.Black_footed_Albatross/ …) with boxes.csv beside them",
        home="https://www.vision.caltech.edu/datasets/cub_200_2011/",
        url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
        md5="97eceeb196236b17998738112f37df78",
        mean=(0.4743, 0.4747, 0.4053),  # cut to their boxes
        std=(0.2240, 0.2208, 0.2460),
        images={"base": 5_885, "val": 2_950, "novel": 2_953},
        crops=("none", "box"),
    ),
    "glyphs": Dataset(
        title="glyphs",
        layouts=(),
        looks_like="nothing: it is drawn on demand",
        home="built in: drawn from the fonts that come with matplotlib",
        mean=(0.4957, 0.4962, 0.4990),
        std=(0.2910, 0.3068, 0.2842),
        per_class=glyphs.PER_CLASS,
        images={"base": 227 * glyphs.PER_CLASS, "val": 60 * glyphs.PER_CLASS, "novel": 80 * glyphs.PER_CLASS},
        size=32,
    ),
    "folder": Dataset(
        title="a folder of class folders",
        layouts=(folders.any_folder,),
        looks_like="one folder of pictures a class, alone or in base/, val/ and novel/",
        home="your own pictures",
        mean=(0.485, 0.456, 0.406),  # ImageNet's usual ones, for photographs of anything
        std=(0.229, 0.224, 0.225),
    ),
}


def find_dataset(name: str) -> tuple[str, Dataset]:
    """The entry under this name, which may be written with underscores."""
    key = name.replace("_", "-")
    if key not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    return key, DATASETS[key]


def find_split(name: str, split: str) -> str:
    """base, val or novel; a user's folder has "all" too."""
    if name == "folder" and split == "all":
        return split
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    return SPLITS[split]


@cache
def _lists() -> dict:
    return json.loads(files("protoadapt.training.datasets").joinpath("splits.json").read_text(encoding="utf-8"))


def class_list(name: str, split: str) -> list[str]:
    """The published classes of a split, sorted; none for a user's folder."""
    return list(_lists().get(name, {}).get(split, []))


def expected_counts(name: str, split: str) -> dict[str, int]:
    """How many pictures each class should have; empty where the publication does not say."""
    classes, each = class_list(name, split), DATASETS[name].per_class
    counts = _lists().get(f"{name}-counts", {}).get(split, [each] * len(classes) if each else [])
    return dict(zip(classes, counts))


def had_at(name: str, data_dir: str | Path) -> str:
    """Where a dataset comes from, and the command that fetches it where there is one."""
    fetched = f", and `protoadapt data {name} --data {data_dir} --download` fetches it"
    return f"it is officially had at {DATASETS[name].home}{fetched if DATASETS[name].url else ''}"


def no_folder(name: str, data_dir: Path) -> UserError:
    if name == "folder":
        return UserError(
            f"there is no folder {str(data_dir)!r}: give one that holds a folder of pictures for each class"
        )
    title = DATASETS[name].title
    return UserError(f"there is no folder {str(data_dir)!r}: give the one that holds {title}; {had_at(name, data_dir)}")


def search(name: str, split: str, data_dir: Path, crop: str) -> Source | None:
    """The split as it lies in the data folder or in one of the usual folders inside it."""
    dataset, classes = DATASETS[name], class_list(name, split)
    if not data_dir.is_dir():
        raise no_folder(name, data_dir)
    for root in (data_dir, *(data_dir / folder for folder in dataset.folders)):
        for layout in dataset.layouts if root.is_dir() else ():
            source = layout(root, split, classes, crop)
            if source is not None:
                return source
    return None
