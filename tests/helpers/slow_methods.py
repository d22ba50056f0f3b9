"""Methods that take long: what to shorten."""

from typing import Any

STEPS = {
    "tim_gd": "n_iter",
    "alpha_tim": "n_iter",
    "tim_adm": "n_iter",
    "transductive_fine_tuning": "n_epochs",
}
"""The setting that counts the steps of a method."""


def shortened(name: str, steps: int) -> dict[str, Any]:
    """Arguments with which a slow method takes so many steps; none for other methods."""
    return {STEPS[name]: steps} if name in STEPS else {}
