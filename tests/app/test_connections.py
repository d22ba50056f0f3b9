"""Half-sent requests: closed in time, bounded in number, and never in the way of a whole one."""

import asyncio
import logging
import socket
import threading

import pytest

pytest.importorskip("uvicorn", reason="the extra `app` is not installed")

import httpx
import uvicorn

from protoadapt.app.connections import LINES, MOST, SPARE, Few, listening_socket, most_connections, protocol


async def inside(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def serving():
    """serving(most, seconds): the port of a server with such connections."""
    servers = []

    def start(most, seconds):
        listener = listening_socket("127.0.0.1", 0)
        config = uvicorn.Config(inside, log_level="critical", http=protocol(most, seconds), lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        servers.append((server, thread, listener))
        start.server = server
        return listener.getsockname()[1]

    yield start
    for server, thread, listener in servers:
        server.should_exit = True
        thread.join(20)
        listener.close()


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


def test_a_half_sent_request_is_closed(serving):
    port = serving(50, 0.2)
    silent = socket.create_connection(("127.0.0.1", port), timeout=20)
    assert is_closed(half(port))
    assert is_closed(silent), "so is one that says nothing at all"


def test_so_is_the_second_request_of_a_connection(serving):
    one = half(serving(50, 0.5))
    one.sendall(b"\r\n")
    assert b"200" in one.recv(1000)
    one.sendall(b"GET / HTTP/1.1\r\n")
    assert is_closed(one)


def test_a_whole_request_is_served_however_many_are_half_sent(serving):
    port = serving(10, 60.0)
    crowd = [half(port) for _ in range(30)]
    assert httpx.get(f"http://127.0.0.1:{port}/", timeout=20).text == "ok"
    assert all(is_closed(one) for one in crowd[:20]), "the oldest give way"
    crowd[-1].sendall(b"\r\n")
    assert b"200" in crowd[-1].recv(1000), "the newest may still go on"


def test_no_part_of_an_answer_waits_for_the_other_side(serving):
    with httpx.Client() as visitor:  # whose connection stays open
        visitor.get(f"http://127.0.0.1:{serving(50, 60.0)}/")
        (connection,) = serving.server.server_state.connections
        held = connection.transport.get_extra_info("socket")
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_there_are_fewer_connections_than_open_files(monkeypatch):
    import resource

    for soft, most in ((150, 150 - SPARE), (resource.RLIM_INFINITY, MOST), (1 << 20, MOST), (10, 4)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, soft=soft: (soft, soft))
        assert most_connections() == most


def test_failures_are_written_a_few_times():
    few = Few()
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "no more sockets", None, (ValueError, None, None))
    assert sum(few.filter(record) for _ in range(1000)) == LINES
    assert record.exc_info is None
