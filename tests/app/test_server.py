"""The page as a process: the token, the limits on what comes in, the folder that goes with it."""

import json
import os
import signal
import socket
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

pytest.importorskip("gradio", reason="the extra `app` is not installed")

import httpx

from protoadapt.app.server import HARD
from protoadapt.cli import main
from protoadapt.vision.pictures import formats


def test_elsewhere_with_a_token_and_nothing_beyond_the_page(tmp_path, served, painted):
    with ExitStack() as later, served(tmp_path, "--host", "0.0.0.0", "--max-mb", "1", ends_by=signal.SIGINT) as address:
        told = urlsplit(address)
        assert told.query.startswith("token=")
        base = f"http://127.0.0.1:{told.port}"
        stranger = httpx.Client(base_url=base, timeout=60)
        for path in (
            "/",
            "/config",
            "/gradio_api/info",
            "/theme.css",
            "/static/img/logo.svg",
            "/gradio_api/heartbeat/x",
        ):
            assert stranger.get(path).status_code == 401, path
        assert stranger.post("/gradio_api/upload", files={"files": ("a.png", painted("red"))}).status_code == 401

        visitor = httpx.Client(base_url=base, timeout=60, follow_redirects=True)
        page = visitor.get(f"/?{told.query}")
        assert page.status_code == 200
        assert told.query not in str(page.url)
        for outside in ("/etc/passwd", sys.executable, f"{tmp_path}/../x", "http://127.0.0.1:1/x", "pyproject.toml"):
            assert visitor.get(f"/gradio_api/file={outside}").status_code in (403, 404), outside
        taken = visitor.post("/gradio_api/upload", files={"files": ("../../../é a.png", painted("red"))})
        (path,) = taken.json()
        assert path.startswith(f"{tmp_path}/protoadapt-"), "a file stays in the folder, whatever it is called"
        beyond = visitor.post("/gradio_api/upload", files={"files": ("b.png", b"\0" * ((HARD << 20) + 1))})
        assert beyond.status_code == 413
        foreign = visitor.post("/gradio_api/upload", files={"files": ("c.png", b"")}, headers={"origin": "http://a.b"})
        assert foreign.status_code == 403
        config = visitor.get("/config").json()
        assert f"{', '.join(formats.readable())} files of up to" in json.dumps(config)
        assert not config["analytics_enabled"]
        assert "googleapis" not in page.text
        later.enter_context(
            visitor.stream("GET", "/gradio_api/heartbeat/x")
        )  # a page that is open when the server ends


def answer(visitor, data, kind=1, session="x"):
    """What the page says to an event, as its queue tells it: the status of the request, and the last message."""
    event = {"fn_index": kind, "data": data, "session_hash": session}
    asked = visitor.post("/gradio_api/queue/join", json=event)
    if asked.status_code != 200:
        return asked.status_code, asked.text
    with visitor.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as told:
        for line in told.iter_lines():
            if line.startswith("data:") and json.loads(line[5:])["msg"] == "process_completed":
                return 200, json.loads(line[5:])
    raise AssertionError("the queue ended without an answer")


def test_a_request_names_no_file_but_an_upload_and_nothing_is_fetched(tmp_path, served, painted):
    with served(tmp_path) as address, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        visitor = httpx.Client(base_url=address, timeout=60)
        (there,) = visitor.post("/gradio_api/upload", files={"files": ("a.png", painted("red"))}).json()
        os.symlink("/etc/passwd", f"{there}.link")
        for path in (
            "/etc/passwd",
            f"{there}/../../../../../../../../../etc/passwd",
            f"{there}.link",
            "pyproject.toml",
            f"http://127.0.0.1:{elsewhere.getsockname()[1]}/a.png",
            "file:///etc/passwd",
            "\0",
        ):
            file = {"path": path, "meta": {"_type": "gradio.FileData"}}
            for data in ([None, None, None, file], [None, [file], [], "red"], [None, None, [{"a": file}], "red"]):
                status, said = answer(visitor, data)
                assert (status, said) == (403, "This file was not uploaded here.\n"), path
                straight = visitor.post("/gradio_api/run/predict", json={"fn_index": 1, "data": data})
                assert straight.status_code == 403, path
        with pytest.raises(BlockingIOError):
            elsewhere.accept()

        file = {"path": there, "orig_name": "a.png", "meta": {"_type": "gradio.FileData"}}
        status, said = answer(visitor, [None, None, None, file], session="y")
        assert status == 200
        assert there not in json.dumps(said), "a file is no name, and where it lies is not said"
        (there,) = visitor.post("/gradio_api/upload", files={"files": ("a.png", painted("red"))}).json()
        status, said = answer(visitor, [None, [file | {"path": there}], ["a.png"], "red"], session="z")
        assert said["success"]
        assert 'data-name="a.png"' in json.dumps(said).replace('\\"', '"')
        for path in ("/docs", "/redoc", "/openapi.json"):
            assert visitor.get(path).status_code == 404, path


def test_gradio_itself_refuses_files_too(tmp_path, loaded, monkeypatch):
    """Without our guard: its own check must be in force."""
    from starlette.testclient import TestClient

    from protoadapt.app.intake import Limits
    from protoadapt.app.server import _page

    for name in [name for name in os.environ if name.startswith("GRADIO_")] + ["GRADIO_TEMP_DIR", "HF_HUB_OFFLINE"]:
        monkeypatch.setenv(name, os.environ.get(name, ""))  # put back at the end
    with TestClient(_page(*loaded, Limits(1 << 20, 50), tmp_path)) as page:
        file = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
        _, said = answer(page, [None, None, None, file])
        assert not said["success"]
        assert not [*tmp_path.rglob("passwd")]


@pytest.fixture
def mistake(monkeypatch, capsys):
    """mistake("--port", "1"): the one sentence that `serve` ends with."""

    def said(*words):
        monkeypatch.setattr(sys, "argv", ["protoadapt", "serve", *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        sentence = capsys.readouterr().err
        assert ended.value.code == 2
        assert sentence.startswith("error: ")
        assert sentence.count("\n") == 1
        return sentence

    return said


def test_mistakes_are_one_sentence(mistake, model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1 port {port} cannot be used" in mistake("--model", model, "--port", port)
    assert "16 to 256" in mistake("--model", model, "--host", "0.0.0.0", "--token", "short")
    assert "no.such.host.invalid" in mistake("--model", model, "--host", "no.such.host.invalid")
    assert "there is no model 'lite1'" in mistake("--model", "lite1")


def test_without_the_extra_it_says_what_to_install(mistake, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert "pip install -c constraints.txt '.[app]'" in mistake()
