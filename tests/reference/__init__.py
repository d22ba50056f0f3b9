"""Slow, plain reference loops: one episode at a time, float64, straight from the equations.

They are the independent check of the package's fast code, so they import nothing from it. Every function has the form
``method(support (S,D), support_labels (S,), query (Q,D), n_way, *, unlabeled=None, base_mean=None, ...) -> (Q,W)``
with rows that sum to 1. A method that has no use for ``unlabeled`` or ``base_mean`` ignores it;
one that needs the base classes' covariance takes ``base_covariance`` (D,D) too.
"""

from .alpha_tim import alpha_tim
from .bapa import bapa
from .bavardage import bavardage
from .bd_cspn import bd_cspn
from .cipa import cipa
from .embedding_propagation import embedding_propagation
from .laplacian_shot import laplacian_shot
from .matching_net import matching_net
from .paddle import paddle
from .protonet import protonet
from .pt_map import pt_map
from .ridge import ridge
from .semi_protonet import semi_protonet
from .simpleshot import simpleshot
from .soft_kmeans import soft_kmeans
from .tim import tim_adm, tim_gd
from .transductive_fine_tuning import transductive_fine_tuning

REFERENCE = {
    "alpha_tim": alpha_tim,
    "bavardage": bavardage,
    "paddle": paddle,
    "bapa": bapa,
    "bd_cspn": bd_cspn,
    "cipa": cipa,
    "transductive_fine_tuning": transductive_fine_tuning,
    "laplacian_shot": laplacian_shot,
    "protonet": protonet,
    "pt_map": pt_map,
    "semi_protonet": semi_protonet,
    "simpleshot": simpleshot,
    "soft_kmeans": soft_kmeans,
    "matching_net": matching_net,
    "ridge": ridge,
    "embedding_propagation": embedding_propagation,
    "tim_adm": tim_adm,
    "tim_gd": tim_gd,
}
