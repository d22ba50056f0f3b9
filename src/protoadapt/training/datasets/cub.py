"""CUB-200-2011 (Wah et al., 2011): the official folder, or its pictures in class folders with a list of boxes."""

import csv
import io
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.training.datasets.folders import File, class_files, inside, read_text, source_of_files, state_of
from protoadapt.vision.pictures.decode import Box
from protoadapt.vision.pictures.split import SplitSource

HOME = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
WHOLE = "use whole pictures with --crop none (in training --set crop=none)"


def official(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """CUB_200_2011 as published: images/ and its lists."""
    needed = ("images.txt", "image_class_labels.txt", "classes.txt")
    if not (root / "images").is_dir() or not all((root / name).is_file() for name in needed):
        return None
    images, numbers, names = (_list(root / name) for name in needed)
    wanted = set(classes)
    labels = {key: names.get(number, "") for key, number in numbers.items()}
    rows = [(f"images/{inside(name, root / 'images.txt')}", labels.get(key, "")) for key, name in images.items()]
    files = [File(name, label, state_of(root / name)) for name, label in rows if label in wanted]
    return _source(root, files, classes, crop) if files else None


def split_folders(root: Path, split: str, classes: list[str], crop: str) -> SplitSource | None:
    """Class folders with official names, alone or in train/ and test/, with boxes.csv or the official lists."""
    files = class_files(root, classes)
    return _source(root, files, classes, crop) if files else None


def _source(root: Path, files: list[File], classes: list[str], crop: str) -> SplitSource:
    if crop == "none":
        return source_of_files(root, files, classes)
    known, keys = _boxes(root), {file.name: "/".join(file.name.split("/")[-2:]) for file in files}
    if missing := [key for key in keys.values() if key not in known]:
        raise UserError(f"the list of boxes in {root} has none for {missing[0]}: download it again, or {WHOLE}")
    boxes = {name: known[key] for name, key in keys.items()}
    return source_of_files(root, files, classes, boxes, lists=repr(sorted(boxes.items())))


def _boxes(root: Path) -> dict[str, Box]:
    """'<class>/<file>' → box. boxes.csv has the size of the original picture, so that smaller copies are cut right."""
    for path in (root / "boxes.csv", root / "cub-boxes.csv"):
        if path.is_file():
            rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
            if "image" not in (rows.fieldnames or ()):
                raise UserError(f"{path} has no column 'image': download it again, or {WHOLE}")
            return {row["image"]: _box(path, row) for row in rows}
    if (root / "bounding_boxes.txt").is_file() and (root / "images.txt").is_file():
        images, lines = _list(root / "images.txt"), _list(root / "bounding_boxes.txt")
        keys = ("x", "y", "box_width", "box_height")
        return {
            images[key]: _box(root / "bounding_boxes.txt", dict(zip(keys, line.split())))
            for key, line in lines.items()
            if key in images
        }
    raise UserError(
        f"--crop box needs the boxes of CUB, which are not in {root}: put bounding_boxes.txt and images.txt there, "
        f"which are in CUB_200_2011.tgz from {HOME}, or boxes.csv with the columns "
        f"image,width,height,x,y,box_width,box_height, or {WHOLE}"
    )


def _box(path: Path, row: dict[str, str]) -> Box:
    try:
        x, y, width, height = (float(row[key]) for key in ("x", "y", "box_width", "box_height"))
        size = (int(row["width"]), int(row["height"])) if "width" in row else None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has a row that is not a box, {row}: download it again") from error
    return Box(x, y, width, height, size)


def _list(path: Path) -> dict[str, str]:
    """number → value of lines 'number value'."""
    pairs = (line.split(maxsplit=1) for line in read_text(path).splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
