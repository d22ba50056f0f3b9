"""Rival methods that need fitting or slow optimisation, run as any user's own: `--method paper.rivals.unem:unem`."""

from dataclasses import replace

from protoadapt.core.methods import Method, method

BY_NAME = {name: f"paper.rivals.{name}:{name}" for name in ("lr_ici", "ilpc")}
"""Rivals that plans and stored results know by their bare names."""


def planned_method(spec: str) -> Method:
    """The method that a plan or a stored result names: one of the package, or a rival by its bare name.

    >>> planned_method("ilpc(sinkhorn=False)").label
    'ilpc(sinkhorn=False)'
    """
    name = spec.partition("(")[0]
    return replace(method(BY_NAME[name] + spec[len(name) :]), name=name) if name in BY_NAME else method(spec)
