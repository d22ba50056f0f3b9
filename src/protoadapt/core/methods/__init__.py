"""Inference methods: Episodes → class probabilities (E, Q, W). One paper per file; this dict is the registry.

A method is a function `name(episodes, *, …) -> Tensor`, pure and batched over episodes. Its settings are declared in
its signature (`settings`); every method keeps the laws of tests/core/test_laws.py.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from protoadapt.core.episodes import Episodes
from protoadapt.core.methods.affinities import bpa
from protoadapt.core.methods.alpha_tim import alpha_tim
from protoadapt.core.methods.bapa import bapa
from protoadapt.core.methods.bavardage import bavardage
from protoadapt.core.methods.bd_cspn import bd_cspn
from protoadapt.core.methods.cipa import cipa
from protoadapt.core.methods.embedding_propagation import embedding_propagation
from protoadapt.core.methods.fine_tune import transductive_fine_tuning
from protoadapt.core.methods.laplacian_shot import laplacian_shot
from protoadapt.core.methods.matching_net import matching_net
from protoadapt.core.methods.paddle import paddle
from protoadapt.core.methods.protonet import protonet
from protoadapt.core.methods.pt_map import pt_map
from protoadapt.core.methods.ridge import ridge
from protoadapt.core.methods.semi_protonet import semi_protonet
from protoadapt.core.methods.settings import declarations as declarations
from protoadapt.core.methods.simpleshot import simpleshot
from protoadapt.core.methods.soft_kmeans import soft_kmeans
from protoadapt.core.methods.specs import Method as Method
from protoadapt.core.methods.specs import parse_assignments as parse_assignments
from protoadapt.core.methods.specs import parse_value as parse_value
from protoadapt.core.methods.specs import resolve
from protoadapt.core.methods.specs import split_specs as split_specs
from protoadapt.core.methods.tim import tim_adm, tim_gd
from protoadapt.core.methods.whitening import whiten

METHODS: dict[str, Callable[..., Tensor]] = {
    "protonet": protonet,
    "simpleshot": simpleshot,
    "semi_protonet": semi_protonet,
    "cipa": cipa,
    "bapa": bapa,
    "pt_map": pt_map,
    "soft_kmeans": soft_kmeans,
    "bd_cspn": bd_cspn,
    "laplacian_shot": laplacian_shot,
    "tim_adm": tim_adm,
    "tim_gd": tim_gd,
    "alpha_tim": alpha_tim,
    "paddle": paddle,
    "bavardage": bavardage,
    "transductive_fine_tuning": transductive_fine_tuning,
    "matching_net": matching_net,
    "ridge": ridge,
    "embedding_propagation": embedding_propagation,
}

TRANSFORMS: dict[str, Callable[..., Episodes]] = {"bpa": bpa, "whiten": whiten}
"""What can stand before a method: "bpa+cipa"."""
NEED_BASE_MEAN = frozenset({"simpleshot", "bd_cspn", "laplacian_shot", "bavardage"})
"""Methods that centre by the mean of the base classes' features."""
NEED_BASE_COVARIANCE = frozenset({"bavardage"})
"""Methods that use the base classes' covariance too."""


def method(spec: str | Callable[..., Tensor] | Method, **arguments: Any) -> Method:
    """A method with its arguments fixed and checked, to be called with `Episodes`.

    `spec` is a name ("cipa"), a name with arguments ("cipa(sigma=1, tau=15)"), a transform and a method ("bpa+cipa"),
    `Method`; `arguments` win over those in `spec`.

    >>> method("cipa(sigma=1)", tau=15).label
    'cipa(sigma=1, tau=15)'
    """
    return resolve(spec, arguments, METHODS, TRANSFORMS)
