"""Is a dataset on disk complete? A report in plain sentences."""

import os
from pathlib import Path
from typing import NamedTuple

from protoadapt.core.errors import UserError
from protoadapt.training.datasets import registry
from protoadapt.training.datasets.registry import DATASETS, class_list, find_dataset

NOTHING = "no pictures found"
_LISTED = 8  # names per line


class Report(NamedTuple):
    """What was found of a dataset, in plain sentences."""

    complete: bool
    text: str


def check_dataset(name: str, data_dir: str | Path | None = None) -> Report:
    """Count the classes and pictures of every split and compare them with the publication. No picture is decoded.

    Example: `assert check_dataset("cub", "data").complete`.
    """
    name, dataset = find_dataset(name)
    if not dataset.layouts:
        return Report(True, "Glyphs are drawn on demand: there is nothing to download.")
    folder = registry.data_folder(name, data_dir)
    splits = {split: _check_split(name, split, folder) for split in ("base", "val", "novel")}
    faulty = any(faults for _, faults in splits.values())
    if name == "folder":
        lines = [f"{folder} {'cannot be used for training as it is' if faulty else 'can be used'}."]
    else:
        lines = [f"{dataset.title} in {folder} is {'not ' if faulty else ''}complete."]
    if all(summary == NOTHING for summary, _ in splits.values()):
        lines.append(f"No pictures of it were found. Expected layout: {dataset.looks_like}.")
    else:
        for split, (summary, faults) in splits.items():
            lines += [f"{split}: {summary}", *(f"  {fault}" for fault in faults)]
    if faulty and name != "folder":
        lines.append(f"To complete it, {registry.download_hint(name, folder)}.")
    return Report(not faulty, "\n".join(lines))


def _check_split(name: str, split: str, folder: Path) -> tuple[str, list[str]]:
    """A summary, and every difference from the publication."""
    dataset = DATASETS[name]
    try:
        source = registry.search(name, split, folder, "none")
        pictures = source.read() if source else []
    except UserError as error:
        return "cannot be read", [str(error)]
    if source is None:
        return NOTHING, [f"expected layout: {dataset.looks_like}"]
    gone = sorted(p.name for p in pictures if isinstance(p.content, str) and not os.path.isfile(p.content))
    there = {picture.label for picture in pictures}
    classes = class_list(name, split) if source.classes else []  # pickles may name classes in words
    found = len(pictures) - len(gone)
    total = dataset.images.get(split, found)
    differences = {
        "missing classes": [label for label in classes if label not in there],
        "listed files that do not exist": gone,
    }
    faults = [f"{words}: {_some(names)}" for words, names in differences.items() if names]
    if found != total:
        faults.append(f"{total:,} pictures are expected, but there are {found:,}")
    of_classes = f" of {len(classes)}" if classes else ""
    of_total = f" of {total:,}" if dataset.images else ""
    return f"{len(there)}{of_classes} classes, {found:,}{of_total} pictures in {source.root}", faults


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
