"""Trained heads, one paper per file; this dict is the registry.

To add one: write a file with a subclass of `head.EpisodeHead` and list it here. It is then an objective of training
(under the same name), it is saved beside the backbone, and `protoadapt evaluate FILE --head RUN` runs it.
"""

from protoadapt.core.heads.epnet import EPNet
from protoadapt.core.heads.feat import FEAT
from protoadapt.core.heads.head import EpisodeHead as EpisodeHead
from protoadapt.core.heads.head import HeadShape as HeadShape
from protoadapt.core.heads.head import as_method as as_method
from protoadapt.core.heads.matching import MatchingNet
from protoadapt.core.heads.metaoptnet import MetaOptNetRidge

HEADS: dict[str, type[EpisodeHead]] = {
    "matching": MatchingNet,
    "metaopt_ridge": MetaOptNetRidge,
    "feat": FEAT,
    "epnet": EPNet,
}
"""Name → head. A head's name is also that of its objective and of its tensors in a checkpoint."""
