"""The paper's tables and figures, and ours beside them, as plans."""

from dataclasses import replace

from paper.cub_plans import CUB_TABLES, WHOLE
from paper.length_plans import LENGTH_TABLES, at_length
from paper.main_plans import ALONE, CHOSEN, MANY_VIEWS, TIERED, WIDE_TABLE, learned, with_views
from paper.plan import Row, Run, Table, Task, Trial, given
from paper.quoted import CIPA_SWITCHES, paper_accuracy
from paper.training_plans import (
    ABLATED,
    ABLATION_METHODS,
    INFERENCE,
    SEEDS,
    SEMI_COSINE,
    TRAINED,
    trained,
    training_rows,
)
from protoadapt.core.methods import METHODS

# Inference alone, on the same features and episodes.
SLOW = ("tim_gd", "alpha_tim", "lr_ici", "ilpc")
ARENA = ("paddle", "bavardage")
"""Measured in the arena only."""


def all_methods(trial: Trial) -> Trial:
    """Every method of the engine, balanced."""
    fast = [name for name in METHODS if name not in (*SLOW, *ARENA)]
    return replace(trial, stem="all-methods", methods=tuple(fast), slow=SLOW)


CROSS = {"methods": ("protonet", "cipa", "simpleshot", "laplacian_shot"), "slow": ("lr_ici",), "episodes": 1_000}
CROSSED = {
    words: replace(trial, stem=f"{trial.stem}-methods", base="mini-imagenet", **CROSS)
    for words, (table, trial) in CHOSEN.items()
    if table == "mini-ImageNet → CUB"
}
COMPARED = {words: all_methods(trial) for words, trial in ALONE.items()} | CROSSED

MINI_SHORT = trained("hct_r", 2.0, *ABLATED["mini-ImageNet"])
ONE_VIEW_EACH = {words: (table, with_views(trial)) for words, (table, trial) in CHOSEN.items()}
MAIN = {  # HCT_R alone and one view, as in the paper: what is tested → the paper's table, and the trial
    "CIFAR-FS": ("CIFAR-FS", COMPARED["CIFAR-FS"]),
    "FC100": ONE_VIEW_EACH["FC100"],
    "mini-ImageNet": ("mini-ImageNet", MINI_SHORT),
    "tiered-ImageNet": ("tiered-ImageNet", TIERED),
    "CUB, boxes": ONE_VIEW_EACH["CUB, boxes"],
    "CUB, whole pictures": ("CUB", WHOLE["hct_r", 2.0]),
    "mini-ImageNet → CUB, boxes": ("mini-ImageNet → CUB", Trial(MINI_SHORT.run, "cub", "box", stem="cub-box")),
    "mini-ImageNet → CUB, whole pictures": ("mini-ImageNet → CUB", Trial(MINI_SHORT.run, "cub", stem="cub-whole")),
}
BEYOND = [
    ("mini-ImageNet", "mini-ImageNet", COMPARED["mini-ImageNet"]),
    *((words, *pair) for words, pair in ONE_VIEW_EACH.items() if pair not in MAIN.values()),
    *((words, table, with_views(trial, *MANY_VIEWS)) for words, (table, trial) in CHOSEN.items()),
]
"""Rows of their own: a second cycle, EPNet's episodes, several views."""


def main_rows() -> list[Row]:
    rows = [
        Row((words, learned(trial.run), str(trial.views), f"{trial.pooling:g}"), trial, paper=paper_accuracy(table))
        for words, table, trial in [*((words, *pair) for words, pair in MAIN.items()), *BEYOND]
    ]
    return sorted(rows, key=lambda row: list(MAIN).index(row.words[0]))


TRAINED_S2M2 = {
    "CIFAR-FS": next(row.trial for row in SEEDS if row.words[1] == TRAINED["s2m2_r"]),
    "mini-ImageNet": trained("s2m2_r", 2.0, *ABLATED["mini-ImageNet"]),
    "CUB, boxes, the paper's schedule": at_length("s2m2_r", "boxes"),
    "CUB, whole pictures": WHOLE["s2m2_r", 2.0],
}
"""The first seed of each: the comparators have no S2M2_R of their own."""

# What balanced classes hide: the claim that CIPA works under imbalance.
PAPERS_OWN = {"CUB, boxes, the paper's schedule": at_length("hct_r", "boxes", seed=1)}
UNEVEN = {
    words: replace(trial, stem="dirichlet", kind="dirichlet", methods=("protonet", "cipa", "pt_map"), episodes=1_000)
    for words, trial in [*((words, CHOSEN[words][1]) for words in ALONE), *PAPERS_OWN.items()]
}

# Table 6. The network of mini-ImageNet's HCT_R alone was not kept.
SWITCHES = tuple(spec for _, spec, _ in CIPA_SWITCHES.values())
SWITCHED = {
    words: replace(trial, stem="cipa-ablation", methods=SWITCHES, episodes=episodes)
    for words, trial, episodes in [
        ("mini-ImageNet, second cycle", ALONE["mini-ImageNet"], 10_000),
        *((words, CHOSEN[words][1], 600) for words in ("FC100", "CUB, boxes")),
        *((words, trial, 600) for words, trial in PAPERS_OWN.items()),
    ]
}

# Semi-supervised (appendix): mini-ImageNet, 5-way 1-shot, M unlabelled rows per class and 15 queries.
UNLABELLED = (1, 2, 4, 8, 16, 32, 64, 128)
SEMI_NETWORKS = {"Base": trained("classifier_baseline", None, *ABLATED["mini-ImageNet"]), "HCT_R": MINI_SHORT}
SEMI_METHODS = {
    "SemiPN (1 step)": SEMI_COSINE,
    "SemiPN (5 steps)": "semi_protonet(n_iter=5, metric=cosine)",
    "CIPA": "cipa",
    "CIPA, queries centred too": "cipa(query_center=unlabeled)",
}
SEMI = {
    (network, m): replace(
        trial, stem=f"semi-{m}", kind="semi", unlabeled=m, shots=(1,), methods=(*SEMI_METHODS.values(),), episodes=600
    )
    for network, trial in SEMI_NETWORKS.items()
    for m in UNLABELLED
}


TABLES: dict[str, Table] = {
    "main": Table(
        "HCT_R + CIPA beside the paper (its Tables 1 to 4)",
        "5-way, 15 queries per class. The paper has 10,000 episodes, and 600 for mini-ImageNet → CUB. The first row of "
        "each is HCT_R alone with one view per picture, as the paper's; what comes on top has rows of its own: a "
        "second cycle that learns from the first one's answers, 6,000 or 10,000 training episodes of EPNet (on whole "
        "pictures of CUB also windows from 168 pixels, DropBlock and all four rotations), or features averaged over "
        "eight views, pooled by the root of the mean square over all places (pooling 2; 1 is the mean). Where there "
        "were several candidates, validation classes chose ([log](log.md)). HCT_R alone had 30 "
        "epochs on mini-ImageNet: the network of 90 epochs that the second cycle starts from was not kept. CUB's "
        "boxes by the paper's own schedule have [a table](#the-papers-schedule-at-its-own-length-on-cub). The paper "
        "does not say whether CUB's pictures were cut to their bounding boxes, so both are here.",
        ("novel classes", "trained with", "views", "pooling"),
        tuple(main_rows()),
    ),
    "hct_ablation": Table(
        "How the embedding is trained (Table 5, and the appendix for three α)",
        "One budget and schedule for all rows of a dataset; one seed on mini-ImageNet and CUB, so that small "
        "differences there mean little. λ ~ Beta(α, α): Manifold Mixup and HCT at α = 1, which is what the paper's "
        "table shows, at α = 2, which is what its text says, and at 0.5. CUB is cut to boxes. The paper's numbers, in "
        "brackets, are over 600 episodes. Two networks were trained at a time: do not compare the seconds.",
        ("novel classes", "trained with", "α", "inference"),
        training_rows() + SEEDS,
    ),
    "cipa_ablation": Table(
        "What each part of CIPA gives (Table 6)",
        "CIPA's accuracy at 1-shot / 5-shot; all rows of a column are of the same features and episodes. "
        "mini-ImageNet's network is that of the second cycle, 10,000 episodes; the others are HCT_R alone, 600 "
        "episodes, as the paper's: trained by SGD, or by the paper's schedule (Adam, 300 epochs, seed 1). The last two "
        "rows are not the paper's: they were added after the others had been read, to see centring beside power.",
        ("row", "switched on"),
        tuple(
            Row(
                (letter, words), trial, spec, pair if trial is SWITCHED["mini-ImageNet, second cycle"] else (None, None)
            )
            for letter, (words, spec, pair) in CIPA_SWITCHES.items()
            for trial in SWITCHED.values()
        ),
    ),
    "inference": Table(
        "Inference methods on the same features and episodes",
        "15 queries per class. Imbalanced queries, few of many classes and queries of other classes are in "
        "[the arena](arena.md). On mini-ImageNet → CUB the network is the one after EPNet's episodes, methods that use "
        "a mean of base classes have mini-ImageNet's, and there are 1,000 episodes.",
        more=tuple(COMPARED.values()),
    ),
    "imbalance": Table(
        "Unequal classes: what the paper claims of CIPA and PT+MAP",
        "5-way, 75 queries in all whose class shares are drawn from Dirichlet(2); 1,000 episodes. The networks of "
        "CIFAR-FS and mini-ImageNet had EPNet's episodes after HCT_R.",
        more=tuple(UNEVEN.values()),
    ),
    "semi": Table(
        "Semi-supervised: more unlabelled pictures (appendix)",
        "mini-ImageNet, 5-way 1-shot, 15 queries; M unlabelled pictures per class from the 40 % of each novel class "
        "that support and queries are never drawn from. Support and queries are the same for all M. SemiPN uses the "
        "cosine. A curve is flat where no larger M gives half a point more.",
        more=tuple(SEMI.values()),
    ),
    "figure3": Table(
        "The path of the prototypes (Figure 3)",
        "A 10-way 1-shot task of mini-ImageNet: one joint t-SNE of the prepared rows and all 21 positions of each "
        "prototype.",
        tasks=(Task(ALONE["mini-ImageNet"].run, "mini-imagenet"),),
    ),
    **CUB_TABLES,
    **LENGTH_TABLES,
    "wide": WIDE_TABLE,
    "glyphs": Table(
        "Glyphs: all steps on built-in pictures",
        "A small network on letters and signs that are drawn on demand: two minutes on two cores, no download.",
        ("novel classes", "inference"),
        tuple(
            Row(("glyphs", words), trial, spec)
            for trial in [Trial(Run("glyphs", "hct_r", given(dataset="glyphs")), "glyphs", methods=ABLATION_METHODS)]
            for words, (spec, _) in INFERENCE.items()
        ),
    ),
}
