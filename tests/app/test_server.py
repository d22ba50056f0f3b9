"""The server: half-sent requests; the page as a process with its token, killed, and the folder that goes with it."""

import os
import signal
import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

import httpx
import uvicorn
from helpers.command import refused

from protoadapt.app.server import kept_folder, kept_token, listening_socket, protocol
from protoadapt.core.errors import UserError


async def inside(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def serving(seconds):
    """A server with such connections, and its port."""
    with listening_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(inside, log_level="critical", http=protocol(seconds), lifespan="off"))
        thread = threading.Thread(target=server.run, args=[[listener]], daemon=True)
        thread.start()
        yield server, listener.getsockname()[1]
        server.should_exit = True
        thread.join(20)


def visitor_of(address) -> httpx.Client:
    """A visitor who opened the address that the server said, with its token."""
    opened = urlsplit(address)
    visitor = httpx.Client(base_url=f"http://127.0.0.1:{opened.port}", timeout=60, follow_redirects=True)
    page = visitor.get(f"/?{opened.query}")
    assert (page.status_code, "token" in str(page.url)) == (200, False)
    return visitor


def half(port) -> socket.socket:
    """A connection that begins a request and does not end it."""
    one = socket.create_connection(("127.0.0.1", port), timeout=20)
    one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    return one


def is_closed(one: socket.socket) -> bool:
    """Whether the server closes it: reads until then."""
    try:
        while one.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True  # else `recv` would have run out of time


def test_a_half_sent_request_is_closed():
    with serving(0.3) as (_, port):
        silent = socket.create_connection(("127.0.0.1", port), timeout=20)
        assert is_closed(half(port))
        assert is_closed(silent), "so is one that says nothing at all"
        one = half(port)
        one.sendall(b"\r\n")
        assert b"200" in one.recv(1000)
        one.sendall(b"GET / HTTP/1.1\r\n")
        assert is_closed(one), "so is the second request of a connection"


HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n\r\n"


class Wire(SimpleNamespace):
    """A connection without a network, whose time goes on as `go` says; what it asks of its loop and transport."""

    def __init__(self, kind=None):
        super().__init__(now=0.0, timers={}, unsent=0, aborted=False)
        for name in ("close", "pause_reading", "resume_reading", "write", "get_extra_info"):
            setattr(self, name, lambda *_: None)
        self.config = uvicorn.Config(inside, log_level="critical", lifespan="off")
        self.connection = (kind or protocol(10.0))(self.config, uvicorn.server.ServerState(), {}, self)
        self.connection.connection_made(self)

    def time(self):
        return self.now

    def call_later(self, seconds, function):
        timer = Mock(run=function, cancel=lambda: self.timers.pop(timer, None))
        self.timers[timer] = self.now + seconds
        return timer

    def create_task(self, work):
        work.close()
        return Mock()

    def get_write_buffer_size(self):
        return self.unsent

    def is_closing(self):
        return self.aborted

    def abort(self):
        self.aborted = True

    def go(self, seconds):
        self.now += seconds
        for timer in [one for one, at in self.timers.items() if at <= self.now]:
            timer.cancel()
            timer.run()


def test_a_body_that_drips_is_closed_and_a_slow_one_is_not():
    for portion, closed in ((1, True), (30_000, False)):
        wire = Wire()
        wire.connection.data_received(HEAD)
        for _ in range(10):
            wire.connection.data_received(b"x" * portion)
            wire.connection.cycle.body.clear()  # as the page takes it
            wire.go(10.0)
        assert wire.aborted == closed


def test_an_answer_may_take_long_but_has_to_be_taken():
    wire = Wire()
    wire.unsent = 9_000_000
    wire.connection.on_response_complete()
    for _ in range(10):
        wire.unsent -= 30_000
        wire.go(10.0)
    assert not wire.aborted
    wire.go(10.0)
    assert wire.aborted


def test_who_is_furthest_behind_gives_way_to_a_newcomer():
    kind = protocol(10.0, 2)
    slow, fast = Wire(kind), Wire(kind)
    for wire, part in ((slow, b"x"), (fast, b"x" * 30_000)):
        wire.connection.data_received(HEAD + part)
        wire.now = 5.0
    newcomer = Wire(kind)
    assert (slow.aborted, fast.aborted, newcomer.aborted) == (True, False, False)


def test_no_part_of_an_answer_waits_for_the_other_side():
    with serving(60.0) as (server, port), httpx.Client() as visitor:  # whose connection stays open
        visitor.get(f"http://127.0.0.1:{port}/")
        (connection,) = server.server_state.connections
        held = connection.transport.get_extra_info("socket")
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_elsewhere_with_a_token_and_nothing_beyond_the_page(tmp_path, served, painted):
    with served(tmp_path, "--host", "0.0.0.0", "--max-mb", "1", ends_by=signal.SIGINT) as address:
        stranger = httpx.Client(base_url=f"http://127.0.0.1:{urlsplit(address).port}", timeout=60)
        for path in ("/", "/api/about", "/static/live.js", "/api/boards/aaaaaaaaaaaaaaaa"):
            assert stranger.get(path).status_code == 401, path
        visitor = visitor_of(address)
        board = "/api/boards/" + visitor.post("/api/boards").json()["id"]
        sent = visitor.post(f"{board}/pictures", files={"files": ("a.png", painted("red"))})
        assert sent.json()["skipped"] == []
        assert visitor.post("/api/boards", headers={"origin": "http://a.b"}).status_code == 403
        with pytest.raises(httpx.HTTPError):  # cut off, or answered 413, before all of it is sent
            visitor.post(f"{board}/pictures", files={"files": ("a.png", b"x" * (16 << 20))}).raise_for_status()


def test_a_request_that_has_begun_is_answered_before_the_server_ends(tmp_path, served):
    with served(tmp_path) as address:
        place = ("127.0.0.1", urlsplit(address).port)
        board = httpx.post(f"{address}api/boards", timeout=30).json()["id"]
        body = b"file,label\r\na.png,red\r\n"
        head = f"POST /api/boards/{board}/table HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        begun = socket.create_connection(place, timeout=30)
        begun.sendall(head.encode() + body[:9])
        httpx.get(f"{address}api/about", timeout=30)  # by whose answer the server has seen the other request
        os.kill(served.pid, signal.SIGTERM)
        while socket.socket().connect_ex(place) == 0:
            pass  # until it takes nobody new
        begun.sendall(body[9:])
        assert b"labels no picture of this board" in b"".join(iter(lambda: begun.recv(1000), b""))
        begun.close()


def test_a_killed_server_loses_nothing_that_it_answered(tmp_path, served, painted):
    home, temporary = tmp_path / "kept", tmp_path / "temporary"
    temporary.mkdir()
    with served(temporary, "--keep", str(home), ends_by=signal.SIGKILL) as address:
        visitor = visitor_of(address)
        name = visitor.post("/api/boards").json()["id"]
        board = f"/api/boards/{name}"
        files = [("files", ("x", painted(colour, i))) for colour in ("red", "blue") for i in range(3)]
        form = {"labels": '["red", null, null, "blue", null, null]'}
        visitor.post(f"{board}/pictures", data=form, files=files)
        revision = visitor.get(board).json()["revision"]
        steps = [{"patch": {"labels": {"1": "blue"}}, "words": "wrong"}, {"undo": 1}]
        before = visitor.post(f"{board}/changes?revision={revision}", json=steps).json()
        small = visitor.get(f"{board}/small/4").content
        assert httpx.get(f"http://127.0.0.1:{urlsplit(address).port}/api/about", timeout=60).status_code == 401
        assert {file.stat().st_mode & 0o077 for file in (home, *home.rglob("*"))} == {0}, "nor do others read a file"
    temporary = tmp_path / "again"
    temporary.mkdir()
    with served(temporary, "--keep", str(home)) as address:
        visitor = httpx.Client(
            base_url=f"http://127.0.0.1:{urlsplit(address).port}", cookies=visitor.cookies, timeout=60
        )
        assert [one["id"] for one in visitor.get("/api/about").json()["kept"]] == [name]
        after = visitor.get(board).json()
        assert after == before | {"revision": after["revision"]}
        assert (after["redo"], visitor.get(f"{board}/small/4").content) == ("wrong", small)


def test_a_folder_of_boards_is_closed_to_others_unless_it_holds_other_files(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / ".token").write_text("known-to-somebody-else")
    with kept_folder(tmp_path):
        token = kept_token(tmp_path)
        assert (tmp_path.stat().st_mode & 0o777, kept_token(tmp_path)) == (0o700, token)
        assert token != "known-to-somebody-else"
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds other files"), kept_folder(tmp_path):
        pass
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_mistakes_are_one_sentence(model, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1 port {port} cannot be used" in refused("serve", "--model", model, "--port", port)
    (tmp_path / "token").write_text("short\n")
    assert "16 to 256" in refused("serve", "--model", model, "--token-file", tmp_path / "token")
    assert "nothing-here" in refused("serve", "--model", model, "--token-file", tmp_path / "nothing-here")
    assert "no.such.host.invalid" in refused("serve", "--model", model, "--host", "no.such.host.invalid")
    assert "nothing is given for --host" in refused("serve", "--model", model, "--host", "")
    assert "there is no model 'lite9'" in refused("serve", "--model", "lite9")
    (tmp_path / "file").write_text("")
    assert "cannot be used" in refused("serve", "--model", model, "--port", 0, "--keep", tmp_path / "file")
    with kept_folder(tmp_path / "kept"):  # a server of its own has it
        assert "in use by another" in refused("serve", "--model", model, "--port", 0, "--keep", tmp_path / "kept")
