"""How the embedding is trained: the rows of Table 5 and of the appendix, one budget for all of a dataset."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paper.plan import Row, Run, Trial, given
from paper.quoted import TRAINING

SEMI_COSINE = "semi_protonet(metric=cosine)"
TRAINED = {
    "classifier_baseline": "classifier baseline",
    "manifold_mixup": "Manifold Mixup",
    "hct": "HCT",
    "s2m2_r": "S2M2_R",
    "hct_r": "HCT_R",
}
ABLATED: dict[str, tuple[str, str, str, dict[str, Any]]] = {  # name, dataset, crop, budget
    "mini-ImageNet": ("mini-imagenet", "mini-imagenet", "none", {"epochs": 30, "validate_every": 3}),
    "CUB": ("cub-box", "cub", "box", {"epochs": 80}),
}
INFERENCE = {"PN": ("protonet", 0), "SemiPN, cosine": (SEMI_COSINE, 1), "CIPA": ("cipa", 2)}
ABLATION_METHODS = tuple(spec for spec, _ in INFERENCE.values())


def trained(
    recipe: str,
    alpha: float | None,
    name: str,
    dataset: str,
    crop: str,
    budget: Mapping[str, Any],
    seed: int | None = None,
) -> Trial:
    """A row of an ablation: the recipe with the dataset's own schedule."""
    mixed = recipe in ("manifold_mixup", "hct")
    own_name = f"{name}-{recipe}" + (f"-alpha{alpha:g}" if mixed else "") + ("" if seed is None else f"-seed{seed}")
    chosen = {"crop": crop if crop != "none" else None, "alpha": alpha, "seed": seed}
    settings = {"dataset": dataset, **budget, **{key: one for key, one in chosen.items() if one is not None}}
    return Trial(Run(own_name, recipe, given(**settings)), dataset, crop, methods=ABLATION_METHODS)


def training_rows() -> tuple[Row, ...]:
    return tuple(
        Row((data, TRAINED[recipe], f"{alpha:g}" if alpha else "", words), trained(recipe, alpha, *where), spec, pair)
        for data, where in ABLATED.items()
        for (recipe, alpha), pairs in TRAINING[data].items()
        for words, (spec, column) in INFERENCE.items()
        for pair in [pairs[column]]
    )


SEED_METHODS = ("protonet", "cipa")
SEEDS = tuple(
    Row((f"CIFAR-FS, seed {seed}", TRAINED[recipe], "2", words), replace(trial, methods=SEED_METHODS), spec)
    for recipe in ("s2m2_r", "hct_r")
    for seed in (0, 1, 2)
    for trial in [trained(recipe, 2.0, "cifar-fs", "cifar-fs", "none", {"epochs": 16, "validate_every": 2}, seed)]
    for words, (spec, _) in INFERENCE.items()
    if spec in SEED_METHODS
)
