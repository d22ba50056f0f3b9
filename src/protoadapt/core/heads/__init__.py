"""Trained heads; this dict is the registry.

To add one: write a file with a subclass of `head.EpisodeHead` and list it here. It is then an objective of training
(under the same name), it is saved beside the backbone, and `protoadapt evaluate FILE --head RUN` runs it.
"""

from protoadapt.core.heads.deepemd import DeepEMD
from protoadapt.core.heads.graphs import GNN, TPN, EPNet
from protoadapt.core.heads.head import EpisodeHead as EpisodeHead
from protoadapt.core.heads.head import HeadShape as HeadShape
from protoadapt.core.heads.head import as_method as as_method
from protoadapt.core.heads.leo import LEO
from protoadapt.core.heads.metaoptnet import MetaOptNetRidge, MetaOptNetSVM
from protoadapt.core.heads.metric import FEAT, TADAM, MatchingNet, MatchingNetFCE, RelationNet
from protoadapt.core.heads.snail import SNAIL

HEADS: dict[str, type[EpisodeHead]] = {
    "matching": MatchingNet,
    "matching_fce": MatchingNetFCE,
    "relation": RelationNet,
    "metaopt_ridge": MetaOptNetRidge,
    "metaopt_svm": MetaOptNetSVM,
    "feat": FEAT,
    "epnet": EPNet,
    "tpn": TPN,
    "deepemd": DeepEMD,
    "gnn": GNN,
    "leo": LEO,
    "snail": SNAIL,
    "tadam": TADAM,
}
"""Name → head. A head's name is also that of its objective and of its tensors in a checkpoint."""
