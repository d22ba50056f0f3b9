"""The page as a process: the token, the limits on what comes in, the folder that goes with it."""

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
        assert not config["analytics_enabled"]
        assert "googleapis" not in page.text
        later.enter_context(
            visitor.stream("GET", "/gradio_api/heartbeat/x")
        )  # a page that is open when the server ends


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
    assert "pip install 'protoadapt[app]'" in mistake()
