"""Recipes: functions that return a `TrainConfig`.

The docstring of a recipe gives the command, what it trains, the time and the accuracy to expect. To add a recipe, write
such a function in one of the two modules.
"""

import inspect
import re
from collections.abc import Callable, Iterable

from protoadapt.core.errors import UserError, no_such
from protoadapt.training.config import TrainConfig, apply_overrides, split_override
from protoadapt.training.recipes import ablation, comparators

RECIPES: dict[str, Callable[..., TrainConfig]] = {
    match[1]: function
    for module in (ablation, comparators)
    for function in vars(module).values()
    if (match := re.match(r"protoadapt train (\w+) ", getattr(function, "__doc__", None) or ""))
}
"""Every function of the two modules whose docstring begins with its command, in their order."""


def recipe(name: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """The config of a recipe.

    Parameters
    ----------
    name : str
        A key of RECIPES.
    overrides : iterable of str
        "key=value" settings (see `apply_overrides`); a parameter of the recipe function is set in the same way:
        "dataset=cub" also chooses that dataset's crops and length, "teacher=RUN" names an earlier run.

    Examples
    --------
    >>> recipe("hct_r", ["dataset=folder", "epochs=20"])
    """
    earlier = earlier_run(name)
    texts = list(overrides)
    own = inspect.signature(RECIPES[name]).parameters
    arguments = {key: value for key, value in map(split_override, texts) if key in own}
    if earlier and not arguments.get(earlier):
        raise UserError(f"the recipe {name} needs an earlier run: name its folder with --set {earlier}=RUN")
    return apply_overrides(RECIPES[name](**arguments), [t for t in texts if split_override(t)[0] not in own])


def earlier_run(name: str) -> str:
    """The setting by which a recipe names an earlier run: "teacher", "init_from", or "" where it needs none."""
    if name not in RECIPES:
        raise no_such("recipe", name, RECIPES)
    return next((key for key in ("teacher", "init_from") if key in inspect.signature(RECIPES[name]).parameters), "")
