"""Trained few-shot heads as files: they are saved in the model file of a run, beside the backbone."""

from dataclasses import dataclass
from pathlib import Path

import torch

from protoadapt.core.errors import UserError, intact
from protoadapt.core.features import Features
from protoadapt.core.heads import HEADS, EpisodeHead, HeadShape, as_method
from protoadapt.core.methods import Method
from protoadapt.vision.networks.model_files import load_into, load_weights


@dataclass(frozen=True)
class TrainedHead:
    """The head of a run: its name in HEADS, the module, and the hash of the model file that holds it."""

    name: str
    module: EpisodeHead
    weights: str
    path: Path

    @property
    def method(self) -> Method:
        """The head as an inference method, for `evaluate` and `compare`."""
        return Method(self.name, as_method(self.name, self.module), {})

    def check(self, table: Features) -> None:
        """Raises UserError unless these are features of the head's own backbone, with places where it needs them."""
        if self.module.conditions:
            raise UserError(
                f"{self.name} runs its network again for each episode, from pictures, which a feature file does not "
                f"hold: measure it with `python -m benchmarks.comparators`"
            )
        theirs = table.metadata.get("weights")
        if theirs and theirs != self.weights:
            raise UserError(
                f"the features are of another network ({theirs}) than the head in {str(self.path)!r} ({self.weights}): "
                f"extract them with `protoadapt extract {self.path}`"
            )
        if self.module.places and table.maps is None:
            raise UserError(
                f"{self.name} looks at the places of the last stage, which the feature file does not hold: extract it "
                f"with --maps"
            )


def load_head(path: str | Path) -> TrainedHead:
    """The few-shot head of a run, a checkpoint or a model file.

    Raises UserError where the run has none.

    >>> head = load_head("runs/feat")
    >>> compare(table.features, table.labels, ["cipa", head.method])
    """
    tensors, metadata = load_weights(path)
    stated = metadata.get("head")
    if stated is None:
        raise UserError(
            f"{str(path)!r} has no few-shot head, as its recipe trains a classifier: use --method, or give a run that "
            f"trains one of {', '.join(HEADS)}"
        )
    with intact(f"{str(path)!r} does not describe its head", "train it again"):
        name = stated.pop("name")
        shape = HeadShape(**stated | {"channels": tuple(stated["channels"])})
        with torch.device("meta"):  # takes no memory: a file may ask for any amount, and must hold as much itself
            sizes = {key: tensor.shape for key, tensor in HEADS[name](shape).state_dict().items()}
    own = {k.removeprefix(f"{name}."): t for k, t in tensors.items() if k.startswith(f"{name}.")}
    if sizes != {key: tensor.shape for key, tensor in own.items()}:
        raise UserError(f"the weights in {str(path)!r} do not fit its head ({name}, {shape}): train it again")
    module = HEADS[name](shape)
    load_into(module, own, path)
    return TrainedHead(name, module.eval().requires_grad_(False), metadata["weights"], Path(path))
