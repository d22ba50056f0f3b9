"""Any network of timm as a source of features. It cannot be trained here: it has no mixing layers."""

from typing import Any

from torch import Tensor, nn

from protoadapt.core.errors import UserError, install


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
        self.trained_on = str(network.pretrained_cfg.get("tag") or "as timm says")

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).float()


def timm_features(name: str, pretrained: bool = True) -> TimmFeatures:
    """The network `name` of timm with its published weights. timm is an optional extra."""
    try:
        import timm
    except ImportError as error:
        raise UserError(f"timm:{name} needs timm: {install('timm')}") from error
    except RuntimeError as error:  # torchvision, which timm imports, made for another torch
        raise UserError(f"timm does not load here ({error}): install the torchvision that fits this torch") from error
    try:
        network = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # an unknown name, weights that nobody published, no way to where they are
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"timm has no network {name!r} to give ({reason}): timm.list_models(pretrained=True) lists those it has, "
            f"and the first use fetches the weights"
        ) from error
    return TimmFeatures(network.eval())
