"""`protoadapt recipes`."""

import inspect
from textwrap import indent


def recipes_command() -> None:
    """List the training recipes.

    Each with its command, its training time and the accuracy to expect.
    """
    from protoadapt.training.recipes import RECIPES

    for name, function in RECIPES.items():
        print(f"{name}\n{indent(inspect.getdoc(function) or '', '    ')}\n")
    print("Accuracies are 5-way 1-shot / 5-shot over 10,000 episodes of novel classes, with CIPA, and times are of one")
    print("H200, where a recipe does not say otherwise.")
