"""Networks as files: what is written is read back, and what is damaged or not a model is one sentence."""

import pytest
from helpers.networks import ABOUT

from paper.networks import save_fp16
from protoadapt.core.errors import UserError
from protoadapt.vision.networks import model_files
from protoadapt.vision.networks.backbones import build


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
