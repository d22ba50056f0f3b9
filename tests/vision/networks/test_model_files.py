"""Networks as files: what is written is read back, and what is damaged or not a model is one sentence."""

import pytest
import torch

from paper.networks import save_fp16
from protoadapt.core.errors import UserError
from protoadapt.vision.networks import model_files
from protoadapt.vision.networks.backbones import build, initialise

ABOUT = {"backbone": "resnet12", "width": None, "mean": [0.5] * 3, "std": [0.25] * 3, "size": 84, "crop": "none"}
ABOUT |= {"dataset": "cifar-fs"}


def test_a_resnet12_ships_in_under_16_mebibytes(tmp_path):
    network = build("resnet12")
    initialise(network, torch.Generator().manual_seed(0))
    network.eval()
    about = {**ABOUT, "class_names": ["a"]}
    save_fp16(network, about | {"dim": 7}, tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_size < 16 << 20
    loaded, found = model_files.load_model(tmp_path / "model.safetensors")
    assert (about | {"dim": 512}).items() <= found.items()
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), network(x), rtol=0, atol=0.01 * float(network(x).max()))


@pytest.mark.parametrize("content", [b"", b"not a model", b"\xff" * 100])
def test_what_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="truncated or not a model"):
        model_files.load_model(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="there is no model"):
        model_files.load_model(tmp_path / "elsewhere")


def test_weights_of_another_network_are_refused(tmp_path):
    about = {**ABOUT, "backbone": "conv4", "width": 8}
    save_fp16(build("conv4", 4), about, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="do not fit the network"):
        model_files.load_model(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    "lie",
    [
        *({key: None} for key in ("backbone", "mean", "std", "size", "crop", "dataset")),
        *({"mean": [1, 2]}, {"mean": "abc"}, {"mean": [float("nan")] * 3}, {"std": [0.0] * 3}),
        *({"size": 16.5}, {"width": "x"}, {"width": 2.0}, {"width": True}, {"backbone": ["a"]}),
    ],
    ids=str,
)
def test_what_a_model_says_of_itself_is_not_trusted(tmp_path, lie):
    save_fp16(build("conv4", 4), {**ABOUT, "backbone": "conv4", "width": 4, **lie}, tmp_path / "m.safetensors")
    with pytest.raises(UserError, match="does not describe its network"):
        model_files.load_model(tmp_path / "m.safetensors")
