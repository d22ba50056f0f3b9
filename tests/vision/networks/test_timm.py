"""Networks of timm: facts, weights from files and downloads, engines. All weights here are random."""

import hashlib
import io
import json
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import numpy as np
import pytest
import torch
from helpers.command import answered, refused
from helpers.evil import Evil
from helpers.timm_here import random_weights, timm_or_skip
from PIL import Image
from safetensors.torch import save_file

from protoadapt import UserError
from protoadapt.core import web
from protoadapt.labeling import label, predict
from protoadapt.vision import networks
from protoadapt.vision.embed import check_pooling
from protoadapt.vision.networks import timm_names
from protoadapt.vision.networks.engines import AGREE, OnnxPooled, agreement
from protoadapt.vision.networks.onnx_engine import OnnxEngine
from protoadapt.vision.networks.timm_features import load_timm
from protoadapt.vision.networks.timm_names import TIMM, Known, Source, download_weights
from protoadapt.vision.pictures.decode import decode_bytes

TINY = "test_vit.r160_in1k"


@pytest.mark.parametrize("name", TIMM)
def test_what_is_said_of_a_network_is_what_timm_records(name):
    timm, known = timm_or_skip(), TIMM[name]
    settings = timm.get_pretrained_cfg(known.timm)
    size = {"img_size": known.size} if "dinov2" in name else {}
    with torch.device("meta"):
        network = timm.create_model(known.timm, num_classes=0, **size)
    assert known.licence == settings.license
    assert known.size == settings.input_size[-1] or (name.startswith("dinov2") and known.size == 224)
    assert known.dim == network.num_features
    assert known.mb == round(4e-6 * sum(weight.numel() for weight in network.parameters()))
    assert settings.hf_hub_id == f"timm/{known.timm.replace('_quickgelu', '')}"


def test_dinov2_takes_224_pixels_of_weights_for_518(tmp_path):
    random_weights(TIMM["dinov2-small"].timm, tmp_path / "w.pth")
    source = Source(TIMM["dinov2-small"].timm, tmp_path / "w.pth", 224, "0" * 16)
    network, about = load_timm(source)
    assert (about["size"], about["dim"], about["licence"]) == (224, 384, "apache-2.0")
    assert network.pos_embed.shape[1] == 1 + 16 * 16


def test_weights_come_from_files_of_many_forms(tmp_path):
    """A classifier in the file is left over, and no code in it runs."""
    own = random_weights(TINY, tmp_path / "plain.pth")
    weights = own.state_dict()
    torch.save({"state_dict": weights}, tmp_path / "checkpoint.pth")
    torch.save({f"module.{key}": value for key, value in weights.items()}, tmp_path / "parallel.pth")
    save_file(weights | {"head.weight": torch.zeros(2, own.num_features)}, tmp_path / "safe.safetensors")
    x = torch.rand(2, 3, 160, 160)
    for name in ("plain.pth", "checkpoint.pth", "parallel.pth", "safe.safetensors"):
        network, about = networks.load(f"timm:{TINY}@{tmp_path / name}", engine="torch")
        with torch.inference_mode():
            torch.testing.assert_close(network(x), own(x))
        assert about["backbone"] == f"timm:{TINY}"

    weights.pop("norm.bias")
    save_file(weights, tmp_path / "part.safetensors")
    (tmp_path / "text.pth").write_text("no weights")
    torch.save(Evil(open, str(tmp_path / "pwned"), "w"), tmp_path / "evil.pth")
    for name, sentence in {
        "part.safetensors": "it lacks 'norm.bias'",
        "text.pth": "holds no weights",
        "evil.pth": "holds no weights",
        "missing.pth": "there is no file",
    }.items():
        with pytest.raises(UserError, match=sentence):
            networks.load(f"timm:{TINY}@{tmp_path / name}")
    assert not (tmp_path / "pwned").exists()
    with pytest.raises(UserError, match="timm has no network 'huge'"):
        networks.load(f"timm:huge@{tmp_path / 'plain.pth'}")


@pytest.mark.parametrize("name", [TINY, "test_convnext.r160_in1k"])
def test_onnxruntime_computes_them_on_a_cpu_and_later_without_torch(tmp_path, name):
    random_weights(name, tmp_path / "w.pth")
    model = f"timm:{name}@{tmp_path / 'w.pth'}"
    (slow, own), (fast, about) = networks.load(model, engine="torch"), networks.load(model)
    assert (own["engine"], about["engine"]) == ("torch", "onnxruntime")
    assert isinstance(fast, OnnxPooled)
    assert agreement(slow, fast, about["size"], pictures=3) >= AGREE
    with pytest.raises(UserError, match="pools its features itself"):
        check_pooling(fast, 3.0)
    kept, again = networks.load_for_files(model)
    assert isinstance(kept, OnnxEngine)
    assert again == about
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 160, 160), dtype=np.uint8)
    np.testing.assert_allclose(kept.features(pixels), fast(torch.from_numpy(pixels)).numpy())


def test_a_classifier_finds_its_network_again_while_the_file_is_the_same(folder, without_paths):
    random_weights(TINY, folder / "w.pth")
    model = f"timm:{TINY}@{folder / 'w.pth'}"
    label([folder / "support"], folder / "images", folder / "out", model=model)
    picture = folder / "images" / "day 0" / "red-0.png"
    assert len(predict(folder / "out", [picture])["pictures"]) == 1
    assert f"backbone: timm:{TINY}\n" in answered("models", model)
    torch.manual_seed(7)
    random_weights(TINY, folder / "w.pth")
    with pytest.raises(UserError, match="has other weights"):
        predict(folder / "out", [picture])


class Hub(BaseHTTPRequestHandler):
    def __init__(self, files, *args):
        self.files = files
        super().__init__(*args)

    def log_message(self, *args):
        pass

    def do_GET(self):
        content = self.files.get(self.path)
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A server of weights, and an empty cache; "tiny" names the network, at a size of its own."""
    pytest.importorskip("huggingface_hub")
    random_weights(TINY, tmp_path / "w.pth")
    save_file(torch.load(tmp_path / "w.pth"), tmp_path / "w.safetensors")
    content = (tmp_path / "w.safetensors").read_bytes()
    listed = [{"path": "model.safetensors", "lfs": {"oid": hashlib.sha256(content).hexdigest()}}]
    files = {f"/api/models/timm/{TINY}/tree/main": json.dumps(listed).encode()}
    files[f"/timm/{TINY}/resolve/main/model.safetensors"] = content
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, files))
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(TIMM, "tiny", Known(TINY, 64, 96, 1, "mit", "noise"))
    yield files
    server.shutdown()
    server.server_close()


def test_weights_are_downloaded_when_a_person_asks_and_checked(hub, tmp_path):
    with pytest.raises(UserError, match="`protoadapt models --get tiny` downloads them, or give a file"):
        networks.load("tiny")
    reports = []
    file = download_weights("tiny", lambda done, total: reports.append((done, total)))
    assert reports[-1] == (file.stat().st_size, file.stat().st_size)
    hub.clear()  # nothing is asked again
    assert "tiny: " in answered("models", "--get", "tiny")
    assert download_weights(f"timm:{TINY}") == file
    _, about = networks.load("tiny", engine="torch")
    assert (about["size"], about["dim"]) == (96, 64)
    assert networks.load(f"timm:{TINY}", engine="torch")[1]["size"] == 160
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="is not what was downloaded: remove it"):
        networks.load("tiny")


def test_a_download_that_is_cut_or_wrong_leaves_nothing(hub, tmp_path):
    weights = f"/timm/{TINY}/resolve/main/model.safetensors"
    hub[weights] = hub[weights][:-1] + b"x"
    assert "its sha256 is" in refused("models", "--get", "tiny")

    def cancelled(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download_weights("tiny", cancelled)
    assert [*(tmp_path / "cache").rglob("*.*")] == []
    assert "did you mean 'tiny'" in refused("models", "--get", "tony")
    for odd in ("timm:a b", "timm:../x", "timm:x*"):
        assert "is no name of a network" in refused("models", "--get", odd)
    assert "does not say what 'nobody' is (<HTTPError 404" in refused("models", "--get", "timm:nobody")


def test_without_a_connection_the_answer_comes_soon(hub, monkeypatch):
    """Also where looking up the address takes for ever."""
    monkeypatch.setattr(timm_names, "ANSWER", 0.05)
    monkeypatch.setattr(web, "urlopen", lambda *_, **__: Event().wait())
    assert "check the name and the connection, or download its weights by hand" in refused("models", "--get", "tiny")


def test_timm_beside_a_torchvision_of_another_torch_prints_the_line_to_type(tmp_path, monkeypatch):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "timm":
                raise RuntimeError("operator torchvision::nms does not exist")

    (tmp_path / "w.pth").write_bytes(b"")
    for name in [name for name in sys.modules if name.split(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(UserError, match=r"nms does not exist.*pip install --force-reinstall torch torchvision"):
        networks.load(f"timm:{TINY}@{tmp_path / 'w.pth'}")


SQUASHED = "convnext_tiny.in12k_ft_in1k_384"


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenetv3_small_050", "deit_tiny_patch16_224", "efficientnet_lite0", SQUASHED]
)
def test_real_timm_networks_get_timms_own_transform(tmp_path, name):
    """Size, crop, interpolation, mean and std against `timm.data.create_transform`, on wide, tall and tiny pictures."""
    timm, rng = timm_or_skip(), np.random.default_rng(0)
    own = random_weights(name, tmp_path / "w.pth")
    _, metadata = networks.load(f"timm:{name}@{tmp_path / 'w.pth'}", engine="torch")
    transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=own))
    mean, std = (np.array(metadata[key])[:, None, None] for key in ("mean", "std"))
    assert metadata["resize"].mode == ("squash" if name == SQUASHED else "center")
    for height, width in ((300, 500), (401, 217), (50, 60), (224, 224), (1, 9)):
        image = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        for kind in ("PNG", "JPEG"):
            file = io.BytesIO()
            image.save(file, kind)
            ours = decode_bytes(file.getvalue(), metadata["size"], metadata["resize"])
            theirs = transform(Image.open(file).convert("RGB")).numpy()
            np.testing.assert_allclose((ours / 255 - mean) / std, theirs, atol=1e-5)
