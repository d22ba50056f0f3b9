"""Networks beyond the main rows: the paper's schedule, larger stored pictures, episodes on top of HCT_R."""

from dataclasses import replace

from paper.choice_plans import CHOICES, CIFAR_FS, CIFAR_FS_EPNET, MINI_ADAM, STORED_CUB
from paper.cub_plans import BOX_HCT_R, POWER_METHODS, WHOLE_HCT_R
from paper.plan import Difference, Row, Run, Table, Trial
from paper.quoted import paper_accuracy
from paper.training_plans import trained

ADAM_METHODS = ("protonet", *POWER_METHODS, "pt_map", "bapa")
ADAM_NOVEL = Trial(MINI_ADAM, "mini-imagenet", methods=ADAM_METHODS)

CUB_METHODS = ("protonet", "cipa", "pt_map", "bapa")

# Windows cut from pictures that are stored larger than the network's input.
SIDES = (126, 168)
STORED = {key: replace(trial, methods=CUB_METHODS) for key, trial in STORED_CUB.items()}
AS_BEFORE = {"whole pictures": WHOLE_HCT_R, "boxes": BOX_HCT_R}
ADAM = ("optimizer=adam", "lr=0.001", "warmup=0", "weight_decay=0.0005")
STORED_ADAM = replace(
    trained("hct_r", 2.0, "cub-store168-adam-whole", "cub", "none", ("epochs=110", "scale=0.25", "store=168", *ADAM)),
    methods=CUB_METHODS,
)

# Episodes on top of HCT_R: does meta-learning add anything?
HEAD_METHODS = ("protonet", "cipa", "bapa", "pt_map")
META = {
    "EPNet": Trial(CIFAR_FS_EPNET, "cifar-fs", stem="head", methods=HEAD_METHODS),
    "FEAT": Trial(Run("cifar-fs-feat", "feat", ("epochs=60",), start=CIFAR_FS), "cifar-fs", methods=HEAD_METHODS),
}

RECORD_TABLES = {
    **{name: choice.table for name, choice in CHOICES.items()},
    "mini_adam": Table(
        "The paper's schedule on mini-ImageNet",
        "HCT_R with Adam 1e-3, padded crops, no jitter and weight decay 5e-4, 100 epochs, one seed. Other networks "
        "were trained at the same time, so do not compare the seconds.",
        ("novel classes", "inference"),
        tuple(
            Row(
                ("mini-ImageNet", spec),
                ADAM_NOVEL,
                spec,
                paper_accuracy("mini-ImageNet") if spec == "cipa" else (None, None),
            )
            for spec in ADAM_METHODS
        ),
    ),
    "stored_size": Table(
        "Windows from larger pictures: CUB",
        "HCT_R whose windows are cut from pictures stored with 126 or 168 pixels per side (`store=168`) and scaled to "
        "84, where the rows of 84 cut them from 84 pixels; 80 epochs, one seed, full-size files. Testing is the same "
        "for all. One row is a longer run with Adam and weight decay 5e-4. All numbers are CIPA's. Other "
        "networks were trained at the same time, so do not compare the seconds.",
        ("novel classes", "stored side", "optimizer"),
        tuple(
            Row((words, side, optimizer), trial)
            for words, before in AS_BEFORE.items()
            for side, optimizer, trial in (
                ("84", "SGD", before),
                *((str(side), "SGD", STORED[words, side]) for side in SIDES),
                *([("168", "Adam, 110 epochs", STORED_ADAM)] if words == "whole pictures" else []),
            )
        ),
        differences=tuple(
            Difference((f"{side} − 84", words), (trial, "cipa"), (AS_BEFORE[words], "cipa"))
            for (words, side), trial in STORED.items()
        ),
    ),
    "meta_learning": Table(
        "Episodes on top of HCT_R: does meta-learning add anything?",
        "CIFAR-FS: the network of the main row, then 10,000 training episodes of EPNet (Rodríguez et al. 2020) or "
        "12,000 of FEAT (Ye et al. 2020), 5-way 5-shot, best epoch by the head's own accuracy on validation classes. "
        "The last method of each list is the trained head.",
        more=tuple(META.values()),
    ),
}
