"""Is a dataset all there? Said in words."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from protoadapt.core.errors import UserError
from protoadapt.training.datasets import glyphs
from protoadapt.training.datasets.registry import DATASETS, class_list, expected_counts, find_dataset, no_folder, search

NOTHING = "nothing was found"
LISTED = 8  # names in a line


@dataclass(frozen=True)
class Report:
    """What was found. `str(report)` is the text for people."""

    complete: bool
    lines: tuple[str, ...]
    counts: dict[str, dict[str, int]]  # split → class → pictures

    def __str__(self) -> str:
        return "\n".join(self.lines)


def check(name: str, data_dir: str | Path | None = None) -> Report:
    """Count the classes and pictures of every split and compare with what was published. No picture is decoded."""
    name, dataset = find_dataset(name)
    if name == "glyphs":
        counts = {split: dict.fromkeys(class_list(name, split), glyphs.PER_CLASS) for split in dataset.images}
        return Report(True, ("Glyphs are drawn on demand: nothing has to be downloaded.",), counts)
    if data_dir is None:
        raise UserError(f"{dataset.title} needs a data folder: give the one that holds it with --data DIR")
    folder = Path(data_dir)
    if not folder.is_dir():
        raise no_folder(name, folder)
    counts, lines, faulty = {}, [], False
    for split in ("base", "val", "novel"):
        counts[split], summary, faults = _check_split(name, split, folder)
        lines += [f"{split}: {summary}", *(f"  {fault}" for fault in faults)]
        faulty = faulty or bool(faults)
    if all(f"{split}: {NOTHING}" in lines for split in counts):
        lines = [f"Nothing of it was found; expected is {dataset.looks_like}."]
    elif "box" in dataset.crops:
        lines.append(_check_boxes(name, folder))
    if name == "folder":
        head = f"{folder} {'cannot be used for training as it is' if faulty else 'can be used'}."
    else:
        head = f"{dataset.title} in {folder} is {'not ' if faulty else ''}complete."
        if faulty:
            lines.append(f"It is officially had at {dataset.home}.")
            if dataset.url:
                lines.append(f"`protoadapt data {name} --data {folder} --download` fetches {dataset.url}.")
    return Report(not faulty, (head, *lines, *([dataset.note] if dataset.note else [])), counts)


def _check_split(name: str, split: str, folder: Path) -> tuple[dict[str, int], str, list[str]]:
    """Pictures a class, a summary, and every way in which they differ from the publication."""
    try:
        source = search(name, split, folder, "none")
        if source is None:
            return {}, NOTHING, [f"expected is {DATASETS[name].looks_like}"]
        pictures = source.read()
    except UserError as error:
        return {}, "cannot be read", [str(error)]
    gone = {p.name for p in pictures if isinstance(p.content, str) and not os.path.isfile(p.content)}
    counts = dict(sorted(Counter(picture.label for picture in pictures if picture.name not in gone).items()))
    classes, expected = class_list(name, split), expected_counts(name, split)
    if source.classes is None and not set(counts) & set(classes):
        # A pickle without the names of the classes: that there are as many as there should be is all one can ask.
        classes = classes if len(counts) != len(classes) else list(counts)
        expected = dict.fromkeys(counts, DATASETS[name].per_class or 0)
    total, found = DATASETS[name].images.get(split), sum(counts.values())
    of_classes, of_total = f" of {len(classes)}" if classes else "", f" of {total:,}" if total else ""
    summary = f"{len(counts)}{of_classes} classes, {found:,}{of_total} pictures" + (
        f" in {source.root}" if source else ""
    )
    missing = [label for label in classes if label not in counts]
    other = [f"{label} {n} instead of {expected[label]}" for label, n in counts.items() if n != expected.get(label, n)]
    faults = [
        f"{words}: {_some(names)}"
        for words, names in (
            ("classes that are missing", missing),
            ("classes with another number of pictures", other),
            ("listed and not there", sorted(gone)),
        )
        if names
    ]
    if not faults and (found != total if total else not found):
        faults = [f"{total:,} pictures are expected, there are {found:,}" if total else "no pictures"]
    return counts, summary, faults


def _check_boxes(name: str, folder: Path) -> str:
    try:
        search(name, "base", folder, "box")
    except UserError as error:
        return f"boxes: {error}"
    return "boxes: there"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
