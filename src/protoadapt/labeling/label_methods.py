"""The methods of `label`, by name; not in `classifier`: scikit-learn is slow to load and `predict` needs none of it."""

from protoadapt.core.estimators import (
    BAPAClassifier,
    CIPAClassifier,
    ProtoNetClassifier,
    PrototypeClassifier,
    PTMAPClassifier,
    SemiProtoNetClassifier,
    SoftKMeansClassifier,
)

ESTIMATORS: dict[str, type[PrototypeClassifier]] = {
    "bapa": BAPAClassifier,
    "cipa": CIPAClassifier,
    "protonet": ProtoNetClassifier,
    "semi_protonet": SemiProtoNetClassifier,
    "soft_kmeans": SoftKMeansClassifier,
    "pt_map": PTMAPClassifier,
}
