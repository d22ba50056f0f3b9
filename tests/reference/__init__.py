"""Slow, plain reference loops: one episode at a time, float64, straight from the equations.

They are the independent check of the package's fast code, so they import nothing from it. Every function has the form
``method(support (S,D), support_labels (S,), query (Q,D), n_way, *, unlabeled=None, base_mean=None, ...) -> (Q,W)``
with rows that sum to 1. A method that has no use for ``unlabeled`` or ``base_mean`` ignores it.
"""

from .alpha_tim import alpha_tim
from .balance_free import balance_free
from .bd_cspn import bd_cspn
from .cipa import cipa
from .fine_tune import fine_tune
from .ici import ici
from .ilpc import ilpc
from .laplacian_shot import laplacian_shot
from .protonet import protonet
from .pt_map import pt_map
from .semi_protonet import semi_protonet
from .simpleshot import simpleshot
from .soft_kmeans import soft_kmeans
from .tim import tim_adm, tim_gd

REFERENCE = {
    "alpha_tim": alpha_tim,
    "balance_free": balance_free,
    "bd_cspn": bd_cspn,
    "cipa": cipa,
    "fine_tune": fine_tune,
    "ici": ici,
    "ilpc": ilpc,
    "laplacian_shot": laplacian_shot,
    "protonet": protonet,
    "pt_map": pt_map,
    "semi_protonet": semi_protonet,
    "simpleshot": simpleshot,
    "soft_kmeans": soft_kmeans,
    "tim_adm": tim_adm,
    "tim_gd": tim_gd,
}
