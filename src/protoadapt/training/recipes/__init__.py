"""Recipes: functions that return a `TrainConfig`.

The docstring of a recipe gives the command, what it trains, the time and the accuracy to expect.
"""

import inspect
from collections.abc import Callable, Iterable

from protoadapt.core.errors import UserError, no_such
from protoadapt.training.config import TrainConfig, apply_overrides, split_override
from protoadapt.training.recipes import ablation, comparators

LISTED = (
    ablation.classifier_baseline,
    ablation.manifold_mixup,
    ablation.hct,
    ablation.s2m2_r,
    ablation.hct_r,
    ablation.paper,
    ablation.hct_r_distilled,
    ablation.hct_r_taught,
    ablation.protonet,
    comparators.matching_net,
    comparators.matching_net_fce,
    comparators.relation_net,
    comparators.metaoptnet,
    comparators.metaoptnet_svm,
    comparators.feat,
    comparators.epnet,
    comparators.tpn,
    comparators.deepemd,
    comparators.gnn,
    comparators.leo,
    comparators.snail,
    comparators.tadam,
    comparators.cc_rot,
)
RECIPES: dict[str, Callable[..., TrainConfig]] = {function.__name__: function for function in LISTED}
EARLIER = {"teacher": "learns from", "init_from": "starts from"}
"""Parameters of a recipe that name an earlier run, which the user must give."""


def recipe(name: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """The config of a recipe.

    Parameters
        name       a key of RECIPES
        overrides  "key=value" settings (see `apply_overrides`); a parameter of the recipe function is set in the same
                   way: "dataset=cub" also chooses that dataset's crops and length, "teacher=RUN" names an earlier run

    Example: `recipe("hct_r", ["dataset=folder", "epochs=20"])`.
    """
    if name not in RECIPES:
        raise no_such("recipe", name, RECIPES)
    function, arguments, settings = RECIPES[name], {}, []
    for text in overrides:
        key, value = split_override(text)
        if key in inspect.signature(function).parameters:
            arguments[key] = value
        else:
            settings.append(text)
            if earlier_run(name) == "teacher" and key.startswith("phases.") and key.endswith(".teacher"):
                arguments.setdefault("teacher", value)  # the teacher of a phase, named by itself
    if (earlier := earlier_run(name)) and not arguments.get(earlier):
        raise UserError(
            f"the recipe {name} {EARLIER[earlier]} an earlier run: name its folder with --set {earlier}=RUN"
        )
    return apply_overrides(function(**arguments), settings)


def earlier_run(name: str) -> str:
    """The setting by which a recipe names an earlier run: "teacher", "init_from", or "" where it needs none."""
    return next((key for key in EARLIER if key in inspect.signature(RECIPES[name]).parameters), "")


def trains_same(name: str, config: TrainConfig) -> bool:
    """Whether a recipe trains the objectives of a config, such as that of a run to be resumed."""
    earlier = earlier_run(name) if name in RECIPES else ""
    return recipe(name, [f"{earlier}=any"] if earlier else []).objectives == config.objectives
