"""The paper's tables and figures, and ours beside them, as plans."""

from dataclasses import replace

from paper.cub_plans import CUB_TABLES
from paper.length_plans import LENGTH_TABLES
from paper.main_plans import CIFAR_FS, CUB_BOX, FC100, MAIN, MANY_VIEWS, MINI, ONE_VIEW, WIDE_TABLE, with_views
from paper.plan import Row, Run, Table, Task, Trial, given
from paper.quoted import CIPA_SWITCHES, paper_accuracy
from paper.training_plans import (
    ABLATED,
    ABLATION_METHODS,
    INFERENCE,
    SEEDS,
    SEMI_COSINE,
    trained,
    training_rows,
)
from protoadapt.core.methods import METHODS

# Inference alone, on the same features and episodes.
SLOW = ("tim_gd", "alpha_tim", "lr_ici", "ilpc")
ARENA = ("paddle", "bavardage")
"""Measured in the arena only."""
COMPARED = {"CIFAR-FS": CIFAR_FS, "FC100": FC100, "mini-ImageNet": MINI, "CUB, boxes": CUB_BOX}


def all_methods(trial: Trial) -> Trial:
    """Every method of the engine, balanced."""
    fast = [name for name in METHODS if name not in (*SLOW, *ARENA)]
    return replace(trial, stem="all-methods", methods=tuple(fast), slow=SLOW)


# Semi-supervised (appendix): mini-ImageNet, 5-way 1-shot, M unlabelled rows per class and 15 queries.
UNLABELLED = (1, 2, 4, 8, 16, 32, 64, 128)
SEMI_NETWORKS = {
    "Base": trained("classifier_baseline", None, *ABLATED["mini-ImageNet"]),
    "HCT_R": trained("hct_r", 2.0, *ABLATED["mini-ImageNet"]),
}
SEMI_METHODS = {
    "SemiPN (1 step)": SEMI_COSINE,
    "SemiPN (5 steps)": "semi_protonet(n_iter=5, metric=cosine)",
    "CIPA": "cipa",
    "CIPA, queries centred too": "cipa(query_center=unlabeled)",
}
SEMI = {
    (network, m): replace(
        trial,
        stem=f"semi-{m}",
        kind="semi",
        unlabeled=m,
        shots=(1,),
        methods=tuple(SEMI_METHODS.values()),
        episodes=600,
    )
    for network, trial in SEMI_NETWORKS.items()
    for m in UNLABELLED
}


TABLES: dict[str, Table] = {
    "main": Table(
        "HCT_R + CIPA beside the paper (its Tables 1 to 4)",
        "5-way, 15 queries per class. The paper has 10,000 episodes, and 600 for mini-ImageNet → CUB. "
        "One view per picture is as in the paper; the other rows average the features of "
        "eight views, pooled by the root of the mean square over all places (pooling 2; 1 is the mean). "
        "The networks of CIFAR-FS, mini-ImageNet and whole pictures of CUB had 10,000, 6,000 and 6,000 training "
        "episodes of EPNet after HCT_R, mini-ImageNet's also a second cycle before them that learned from the first "
        "one's answers; the others are HCT_R alone. Where there were "
        "several candidates, validation classes chose ([log](log.md)). The paper does not say "
        "whether CUB's pictures were cut to their bounding boxes, so both are here.",
        ("novel classes", "views", "pooling"),
        tuple(
            Row((words, str(views), f"{pooling:g}"), with_views(trial, views, pooling), "cipa", paper_accuracy(table))
            for words, (table, trial) in MAIN.items()
            for views, pooling in (ONE_VIEW, MANY_VIEWS)
        ),
    ),
    "hct_ablation": Table(
        "How the embedding is trained (Table 5, and the appendix for three α)",
        "One budget and schedule for all rows of a dataset; one seed on mini-ImageNet and CUB, so that small "
        "differences there mean little. λ ~ Beta(α, α): Manifold Mixup and HCT at α = 1, which is what the paper's "
        "table shows, at α = 2, which is what its text says, and at 0.5. CUB is cut to boxes. The paper's numbers, in "
        "brackets, are over 600 episodes. Two networks were trained at a time, so that each took 1.6 to 2.6 times its "
        "own seconds: do not compare them.",
        ("novel classes", "trained with", "α", "inference"),
        training_rows() + SEEDS,
    ),
    "cipa_ablation": Table(
        "What each part of CIPA gives (Table 6)",
        "All rows on the same features and episodes of mini-ImageNet, the network after its second cycle. The paper's "
        "are over 600 episodes.",
        ("row", "switched on"),
        tuple(
            Row((letter, words), replace(MINI, stem="cipa-ablation", methods=every), spec, pair)
            for every in [tuple(spec for _, spec, _ in CIPA_SWITCHES.values())]
            for letter, (words, spec, pair) in CIPA_SWITCHES.items()
        ),
    ),
    "inference": Table(
        "Inference methods on the same features and episodes",
        "15 queries per class. Imbalanced queries, few of many classes and queries of other classes are in "
        "[the arena](arena.md).",
        more=tuple(map(all_methods, COMPARED.values())),
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
        tasks=(Task(MINI.run, "mini-imagenet"),),
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
