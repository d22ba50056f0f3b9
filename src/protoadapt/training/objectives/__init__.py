"""Training objectives, one file each.

To add one: write a file with an `OBJECTIVE` (see `objective` for the contract) and list it in `OBJECTIVES`. Learner,
config and loop know objectives by this table only.
"""

from collections.abc import Iterable
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.heads import HEADS
from protoadapt.training.objectives import (
    cross_entropy,
    distillation,
    episodic_heads,
    episodic_protonet,
    feat_contrast,
    hct,
    manifold_mixup,
    rotation,
)
from protoadapt.training.objectives.objective import MakeHead, Needs, Objective, Outputs, Sizes

OBJECTIVES: dict[str, Objective] = {
    **{name: episodic_heads.objective(name) for name in HEADS},
    "feat_contrast": feat_contrast.OBJECTIVE,
    "ce": cross_entropy.OBJECTIVE,
    "rotation": rotation.OBJECTIVE,
    "manifold_mixup": manifold_mixup.OBJECTIVE,
    "hct": hct.OBJECTIVE,
    "distill": distillation.OBJECTIVE,
    "protonet": episodic_protonet.OBJECTIVE,
}
"""Name in a phase's weights → objective. Heads are built in this order; the first accuracy of a phase is logged."""


def combined_needs(names: Iterable[str]) -> Needs:
    """What objectives that train together need; an error where two want different rows in the same place."""
    needs = {name: OBJECTIVES[name].needs for name in names}
    return Needs(
        heads=combined_heads(needs),
        rotated=any(need.rotated for need in needs.values()),
        partner=_only(needs, "partner", "mix the rows with different views"),
        episodes=any(need.episodes for need in needs.values()),
        teacher=any(need.teacher for need in needs.values()),
        places=any(need.places for need in needs.values()),
        noise=any(need.noise for need in needs.values()),
        conditions=any(need.conditions for need in needs.values()),
    )


def combined_heads(names: Iterable[str]) -> dict[str, MakeHead]:
    """The heads of these objectives, in the order of OBJECTIVES; an error where two make a different one of a name."""
    heads: dict[str, MakeHead] = {}
    wanted = set(names)
    for name in OBJECTIVES:
        for head, make in OBJECTIVES[name].needs.heads.items() if name in wanted else ():
            if heads.setdefault(head, make) is not make:
                raise UserError(f"{name} and an earlier objective make different heads {head!r}: rename one of them")
    return heads


def _only(needs: dict[str, Needs], kind: str, conflict: str) -> Any:
    """The one value that the objectives want, or that of an objective without needs."""
    users = {getattr(need, kind): name for name, need in needs.items() if getattr(need, kind)}
    if len(users) > 1:
        raise UserError(f"{' and '.join(users.values())} {conflict}: choose one of them per phase")
    return next(iter(users), getattr(Needs(), kind))


__all__ = ["OBJECTIVES", "Needs", "Objective", "Outputs", "Sizes", "combined_heads", "combined_needs"]
