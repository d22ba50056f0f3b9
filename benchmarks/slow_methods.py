"""Methods that take long, for tests and benchmarks: what to shorten, and how many episodes suffice."""

from typing import Any

STEPS = {
    "tim_gd": "n_iter",
    "alpha_tim": "n_iter",
    "alpha_am": "n_iter",
    "tim_adm": "n_iter",
    "transductive_fine_tuning": "n_epochs",
    "ilpc": "n_steps",
    "lr_ici": "n_lambdas",
}
"""The setting that counts the steps of a method."""

EPISODES = {
    "tim_gd": 256,
    "alpha_tim": 256,
    "alpha_am": 32,
    "bavardage": 256,
    "paddle": 2000,
    "tim_adm": 2000,
    "transductive_fine_tuning": 2000,
    "ilpc": 64,
    "lr_ici": 64,
}
"""Episodes for about ten seconds of a benchmark; other methods take 10,000."""
GPU_EPISODES = {"ilpc": 2048, "lr_ici": 2048, "tim_gd": 2048, "alpha_tim": 2048, "alpha_am": 256}
"""On a GPU, whose time for a batch of these hardly depends on how many episodes are in it."""


def shortened(name: str, steps: int) -> dict[str, Any]:
    """Arguments with which a slow method takes so many steps; none for other methods."""
    return {STEPS[name]: steps} if name in STEPS else {}
