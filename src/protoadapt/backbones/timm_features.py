"""Any network of timm as a source of features. It cannot be trained here: it has no mixing layers."""

from typing import Any

from torch import Tensor, nn

from protoadapt.errors import UserError


class TimmFeatures(nn.Module):
    """The pooled features (B, D) of a timm network, before its classifier."""

    def __init__(self, network: Any):
        super().__init__()
        self.network = network
        self.dim: int = network.num_features
        # What the network was trained with: extraction must normalise the same way.
        self.mean = tuple(network.pretrained_cfg["mean"])
        self.std = tuple(network.pretrained_cfg["std"])
        self.input_size = int(network.pretrained_cfg["input_size"][-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).float()


def timm_features(name: str, pretrained: bool = True) -> TimmFeatures:
    """The network `name` of timm with its published weights. timm is an optional extra."""
    try:
        import timm
    except ImportError as error:
        raise UserError(f"timm:{name} needs timm, which is not installed: pip install 'protoadapt[timm]'") from error
    try:
        network = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except RuntimeError as error:
        raise UserError(f"timm has no network {name!r} to give ({error}): timm.list_models() lists them") from error
    return TimmFeatures(network.eval())
