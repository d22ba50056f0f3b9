"""CUB-200-2011 again: from small files, and on whole pictures. 80 epochs, as Table 5's rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from paper.plan import Difference, Row, Table, Trial
from paper.quoted import TRAINING, Pair
from paper.training_plans import ABLATED, INFERENCE, TRAINED, trained

SMALL = "cub-84"
COPIES = {SMALL: "CUB's pictures as 84 × 84 JPEG files (`python -m paper.small_files`)"}
"""Copies of a dataset with other files, by their name in `--data NAME=DIR`."""
FULL = "full-size"
# Whole pictures get windows from a quarter of the area, as the recipe `hct_r` advises.
CROPS: dict[str, tuple[str, str, dict[str, Any]]] = {  # name, crop, budget
    "whole pictures": ("whole", "none", {"epochs": 80, "scale": 0.25}),
    "boxes": ("box", "box", {"epochs": 80}),
}
PAPER_CUB = TRAINING["CUB"]
WHOLE_INFERENCE = {words: INFERENCE[words] for words in ("PN", "CIPA")}
WHOLE_METHODS = tuple(spec for spec, _ in WHOLE_INFERENCE.values())


def apart(one: Pair, other: Pair) -> Pair:
    """The difference of two pairs of the paper's numbers."""
    first, last = (a - b if a is not None and b is not None else None for a, b in zip(one, other))
    return first, last


def small_files(name: str, crop: str, budget: dict[str, Any]) -> dict[tuple[str, str], Trial]:
    """HCT_R by (trained on, tested on)."""
    methods = ("cipa",) if crop == "box" else WHOLE_METHODS
    full = replace(trained("hct_r", 2.0, f"cub-full-{name}", "cub", crop, budget), methods=methods)
    small = replace(trained("hct_r", 2.0, f"{SMALL}-{name}", "cub", crop, budget), copy=SMALL, methods=("cipa",))
    small = replace(small, run=replace(small.run, copy=SMALL))
    return {
        (FULL, FULL): full,
        ("84 px", "84 px"): small,
        (FULL, "84 px"): replace(full, copy=SMALL, stem="novel-84", methods=("cipa",)),
        ("84 px", FULL): replace(small, copy="", stem="novel-full"),
    }


SMALL_FILES = {words: small_files(*where) for words, where in CROPS.items()}
_, WHOLE_CROP, WHOLE_BUDGET = CROPS["whole pictures"]
WHOLE = {
    key: replace(trained(*key, "cub-full-whole", "cub", WHOLE_CROP, WHOLE_BUDGET), methods=WHOLE_METHODS)
    for key in PAPER_CUB
    if key[1] in (None, 2.0)
}
BOXES = {key: trained(*key, *ABLATED["CUB"]) for key in WHOLE}


def small_files_differences() -> Iterator[Difference]:
    compared = {
        "trained and tested on 84 px − on full-size": (("84 px", "84 px"), (FULL, FULL)),
        "trained on full-size, tested on 84 px − on full-size": ((FULL, "84 px"), (FULL, FULL)),
        "trained on 84 px, tested on full-size − on 84 px": (("84 px", FULL), ("84 px", "84 px")),
        "tested on full-size, trained on 84 px − on full-size": (("84 px", FULL), (FULL, FULL)),
    }
    for words, files in SMALL_FILES.items():
        for what, (one, other) in compared.items():
            yield Difference((what, words), (files[one], "cipa"), (files[other], "cipa"))


def training_differences() -> Iterator[Difference]:
    for names in (("hct", "manifold_mixup"), ("hct_r", "s2m2_r")):
        one, other = ((name, 2.0) for name in names)
        paper = apart(PAPER_CUB[one][2], PAPER_CUB[other][2])
        for where, trials in (("whole pictures", WHOLE), ("boxes", BOXES)):
            words = (f"{TRAINED[one[0]]} − {TRAINED[other[0]]}", where)
            yield Difference(words, (trials[one], "cipa"), (trials[other], "cipa"), paper)
    for key, trial in WHOLE.items():
        yield Difference(("boxes − whole pictures", TRAINED[key[0]]), (BOXES[key], "cipa"), (trial, "cipa"))


SECONDS = "Two networks were trained at a time: do not compare the seconds."
CUB_TABLES = {
    "small_files": Table(
        "What small files cost: CUB from 84-px files",
        "HCT_R on CUB's full-size pictures and on the same pictures as mini-ImageNet has them: 84 × 84 pixels, JPEG "
        "quality 75, 4:2:0 (`python -m paper.small_files`). The network gets 84 × 84 pixels either way. Boxes are cut "
        f"out of the files, so those from 84-px files are enlarged. One seed, 80 epochs; CIPA's numbers. {SECONDS}",
        ("novel classes", "trained on", "tested on"),
        tuple(Row((words, *key), trial) for words, files in SMALL_FILES.items() for key, trial in files.items()),
        differences=tuple(small_files_differences()),
    ),
    "cub_whole": Table(
        "How the embedding is trained, on whole pictures of CUB (Table 5)",
        "As Table 5's rows on boxes, but on whole pictures from the full-size files, with windows from a quarter of "
        "the area; α = 2; one seed. The paper does not say whether its rows are of boxes or of whole pictures. Its "
        f"numbers, in brackets, are over 600 episodes. {SECONDS}",
        ("novel classes", "trained with", "α", "inference"),
        tuple(
            Row(("CUB", TRAINED[recipe], f"{alpha:g}" if alpha else "", words), trial, spec, pair)
            for (recipe, alpha), trial in WHOLE.items()
            for words, (spec, column) in WHOLE_INFERENCE.items()
            for pair in [PAPER_CUB[recipe, alpha][column]]
        ),
        differences=tuple(training_differences()),
    ),
}
