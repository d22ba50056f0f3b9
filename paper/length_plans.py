"""The paper's own schedule at its own length: Adam 1e-3, no weight decay, padded crops and flips, 300 epochs.

What the paper leaves open is ours and the same in every row: batch 128, the weight average, the choice of the epoch by
validation classes. It does not say whether the learning rate falls: HCT_R is trained with a cosine and with a constant
rate. The rows, the seeds and the methods are fixed here before a novel class is read.
"""

from collections.abc import Iterator

from paper.cub_plans import CROPS
from paper.plan import Row, Run, Table, Trial, given
from paper.quoted import TRAINING
from paper.training_plans import ABLATION_METHODS, INFERENCE, TRAINED

POWER = ("cipa(power=off)", "cipa(n_iter=0)", "cipa(power=off, n_iter=0)")  # of HCT_R: what it gives after Adam
METHODS = (*ABLATION_METHODS, "bapa", "pt_map")
SEEDS = {"s2m2_r": (0, 1, 2), "hct_r": (0, 1, 2)}  # of the others: one
OFTEN = {"validate_every": 10, "checkpoint_every": 100}


def at_length(objective: str, crop: str, seed: int = 0, schedule: str = "cosine") -> Trial:
    """A row of Table 5 on CUB, trained by the recipe `paper`."""
    name, kind, _ = CROPS[crop]
    own = (f"-{schedule}" if schedule != "cosine" else "") + (f"-seed{seed}" if seed else "")
    settings = given(dataset="cub", objective=objective, crop=kind, **OFTEN, seed=seed, schedule=schedule)
    methods = (*METHODS, *POWER) if objective == "hct_r" else METHODS
    return Trial(Run(f"cub-{name}-paper-{objective}{own}", "paper", settings), "cub", kind, methods=methods)


def _rows(crop: str) -> Iterator[Row]:
    for objective in TRAINED:
        for schedule in ("cosine", "constant") if objective == "hct_r" else ("cosine",):
            for seed in SEEDS.get(objective, (0,)) if schedule == "cosine" else (0,):
                trial = at_length(objective, crop, seed, schedule)
                alpha = None if objective == "classifier_baseline" else 2.0
                for words, (spec, column) in INFERENCE.items():
                    paper = TRAINING["CUB"][objective, alpha][column]
                    yield Row((crop, TRAINED[objective], schedule, str(seed), words), trial, spec, paper)


LENGTH_TABLES = {
    "paper_length": Table(
        "The paper's schedule at its own length, on CUB",
        "Adam 1e-3, no weight decay, padded crops and flips, 300 epochs; α = 2. Batch 128, the weight average and the "
        "choice of the epoch on validation classes are ours, since the paper does not state them; nor does it say "
        "whether the learning rate falls. Pictures are cut and reduced from the full-size files. Three networks were "
        "trained at a time: do not compare the seconds. The paper's numbers are over 600 episodes.",
        ("novel classes", "trained with", "learning rate", "seed", "inference"),
        tuple(row for crop in CROPS for row in _rows(crop)),
    )
}
