"""Downloads from a server on this machine that breaks off or lies."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from protoadapt.core.errors import UserError
from protoadapt.core.web import fetch
from protoadapt.training.datasets import DATASETS, download
from protoadapt.training.datasets.fetch import unpack

CONTENT = np.random.default_rng(0).bytes(300_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def __init__(self, how: dict[str, Any], *args: Any) -> None:
        self.how = how
        super().__init__(*args)

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        content = self.how["content"]
        if self.how.get("code"):
            return self.send_error(self.how["code"])
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        stop = self.how["breaks"].pop(0) if self.how["breaks"] else len(content)
        self.wfile.write(content[:stop])  # fewer bytes than promised, then the connection closes
        return None


@pytest.fixture
def server() -> Iterator[dict[str, Any]]:
    how: dict[str, Any] = {"content": CONTENT, "breaks": []}
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, how))
    Thread(target=http.serve_forever, daemon=True).start()
    how["url"] = f"http://127.0.0.1:{http.server_port}/file.tar.gz"
    yield how
    http.shutdown()
    http.server_close()


def test_a_file_is_there_once_it_is_complete(server: dict, tmp_path: Path) -> None:
    server["breaks"] = [60_000]
    with pytest.raises(UserError, match="run this again, or download the file by hand"):
        fetch(server["url"], tmp_path / "a", MD5)
    assert list(tmp_path.iterdir()) == []
    reports: list[tuple[int, int | None]] = []
    fetch(server["url"], tmp_path / "a", MD5, lambda done, total: reports.append((done, total)))
    assert reports[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_wrong_content_is_not_kept(server: dict, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="instead of 0123"):
        fetch(server["url"], tmp_path / "a", "0123")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [404, 503])
def test_errors_of_the_server(server: dict, tmp_path: Path, code: int) -> None:
    server["code"] = code
    with pytest.raises(UserError, match=f"cannot be downloaded .*{code}.*or download the file by hand"):
        fetch(server["url"], tmp_path / "a", MD5)
    with pytest.raises(UserError, match="cannot be downloaded"):
        fetch("http://127.0.0.1:1/nobody", tmp_path / "a", MD5)


def tarball(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_download_unpacks(server: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tarball(**{"cifar-100-python/meta": b"m", "cifar-100-python/train": b"t", "cifar-100-python/test": b"t"})
    server["content"] = content
    changed = replace(DATASETS["cifar-fs"], url=server["url"], md5=hashlib.md5(content).hexdigest())
    monkeypatch.setitem(DATASETS, "cifar-fs", changed)
    report = download("cifar-fs", tmp_path / "data")
    assert (tmp_path / "data" / "cifar-100-python" / "train").read_bytes() == b"t"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["cifar-100-python"]
    assert not report.complete  # these are no pictures
    with pytest.raises(UserError, match="move it away"):
        download("cifar-fs", tmp_path / "data")


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "link"])
def test_archives_cannot_write_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo(name)
        if name == "link":
            info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(info)
    with suppress(UserError):
        unpack(tmp_path / "a.tar", tmp_path / "data")
    assert {path.name for path in (tmp_path / "data").rglob("*")} <= {"evil"}
    assert not (tmp_path / "evil").exists()
    assert not Path("/evil").exists()
