"""The endpoint for programs: equal to `predict`, described, bounded, and quiet about what it cannot read."""

import queue
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra `app` is not installed")

from starlette.testclient import TestClient

from protoadapt.app.api import Service
from protoadapt.app.guard import Guard
from protoadapt.app.intake import FILES, Limits
from protoadapt.app.predict_api import Predictor
from protoadapt.app.server import page_app
from protoadapt.app.session import Boards
from protoadapt.labeling import label, load_classifier, predict


@pytest.fixture
def fitted(folder, model, without_paths):
    label([folder / "support"], folder / "images", folder / "named", model=model)
    return folder / "named" / "classifier.safetensors"


@pytest.fixture
def client(fitted, loaded, tmp_path):
    service = Service(*loaded, Limits(50_000, 50), Boards(tmp_path / "boards", loaded[1]["weights"], 50), listed=True)
    with TestClient(Guard(page_app(service, load_classifier(fitted))), base_url="http://127.0.0.1") as client:
        yield client


def test_it_answers_as_predict_does_one_by_one_and_many_at_once(client, fitted, folder, model):
    files = sorted((folder / "images").rglob("*.*"))
    expected = {row["file"]: row for row in predict(fitted, files, model=model)["pictures"]}
    together = client.post("/api/predict", files=[("files", (str(file), file.read_bytes())) for file in files]).json()
    assert [one["name"] for one in together["pictures"]] == [str(file) for file in files]
    assert together["skipped"] == []
    for one in together["pictures"]:
        row = expected[one["name"]]
        assert (one["label"], one["runner_up"], one["unknown"]) == (row["label"], row["runner_up"], row["unknown"])
        assert abs(one["confidence"] - row["confidence"]) < 1e-4
        assert max(one["probabilities"], key=one["probabilities"].get) == one["label"]
        assert abs(one["probabilities"][one["label"]] - one["confidence"]) < 1e-4
        assert set(one["probabilities"]) == {"red", "green", "blue"}
        assert isinstance(one["density"], float)

    def alone(file):
        return client.post("/api/predict", content=file.read_bytes()).json()["pictures"][0]["label"]

    with ThreadPoolExecutor(8) as clients:
        assert list(clients.map(alone, files)) == [one["label"] for one in together["pictures"]]


def test_bad_files_are_named_and_good_ones_answered(client, painted):
    sent = [("files", (name, content)) for name, content in {"a.png": painted("red"), "b.png": b"x"}.items()]
    answer = client.post("/api/predict", files=sent).json()
    assert [one["name"] for one in answer["pictures"]] == ["a.png"]
    assert answer["skipped"][0]["name"] == "b.png"
    assert "no picture" in answer["skipped"][0]["reason"]


@pytest.mark.parametrize("body", [b"", b"no picture", b"x" * 60_000])
def test_without_a_picture_it_says_so(client, body):
    answer = client.post("/api/predict", content=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("there is no picture that can be read")


def test_what_waits_is_bounded(client, painted, monkeypatch):
    def full(self, pixels):
        raise queue.Full

    monkeypatch.setattr(Predictor, "ask", full)
    answer = client.post("/api/predict", content=painted("red"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    many = [("files", (f"{i}.png", painted("red"))) for i in range(FILES + 1)]
    assert client.post("/api/predict", files=many).status_code == 400


def test_a_failure_of_the_network_fails_its_requests_only(loaded, fitted):
    predictor = Predictor(*loaded, load_classifier(fitted))
    wrong = predictor.ask(np.zeros((7, 1, 1), np.uint8))
    assert wrong.exception(timeout=60) is not None
    right = predictor.ask(np.zeros((3, 24, 24), np.uint8))
    assert right.result(timeout=60).ndim == 1


def test_it_is_described(client):
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/api/predict", "/health"}
    body = described["paths"]["/api/predict"]["post"]["requestBody"]["content"]
    assert set(body) == {"multipart/form-data", "image/*"}
    answer = described["components"]["schemas"]["Prediction"]["properties"]
    sure = {"confidence", "probabilities", "density", "margin"}
    assert set(answer) == {"name", "label", "runner_up", "unknown", "group", *sure}
    assert client.get("/health").json()["classes"] == ["blue", "green", "red"]
    assert client.get("/").status_code == 200, "the page is there too"
