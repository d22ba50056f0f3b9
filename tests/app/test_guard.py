"""Who is let in: by name on this computer, by token elsewhere, never on behalf of another site."""

import pytest

pytest.importorskip("fastapi", reason="the extra `app` is not installed")

from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from protoadapt.app.guard import Guard
from protoadapt.app.server import checked_token
from protoadapt.core.errors import UserError

TOKEN = "0123456789abcdef-_"
COOKIE = Guard(PlainTextResponse(""), TOKEN).cookie


def client(token=None, base="http://127.0.0.1:7860"):
    return TestClient(Guard(PlainTextResponse("inside"), token), base_url=base, follow_redirects=False)


@pytest.mark.parametrize("name", ["127.0.0.1:7860", "localhost", "LOCALHOST:1", "[::1]:7860", "[::1]", "127.8.8.8"])
def test_this_computer_is_let_in(name):
    answer = client().get("/", headers={"host": name})
    assert answer.text == "inside"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy, "no script and no style inside the markup"


@pytest.mark.parametrize(
    "name",
    [
        *("evil.example", "127.0.0.1.evil.example", "192.168.0.7:7860", "0.0.0.0", "", "[::1", "::1", "[127.0.0.1]"),
        *("a@b", "evil@localhost", "evil:x@127.0.0.1:7860", "localhost/evil", "localhost?x", "localhost#x"),
        *("localhost:", "localhost:x", "localhost:1:2", "localhost:+1", "[::1]evil", "[::1%lo]", "localhost evil"),
        *("localhost\\evil", "[::1]:", "lo\tcalhost", "localhost\t"),
    ],
    ids=repr,
)
def test_other_names_for_it_are_not(name):
    assert client().get("/", headers={"host": name}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1:9999", "http://localhost:7860", "null", ""]
)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_other_sites_are_not(origin, token):
    visitor = client(token)
    visitor.cookies.set(COOKIE, TOKEN)
    for foreign in ({"origin": origin}, {"sec-fetch-site": "cross-site"}):  # a form may be sent without an origin
        assert visitor.post("/api/boards", headers=foreign).status_code == 403
    assert visitor.get("/", headers={"sec-fetch-site": "cross-site"}).text == "inside", "a link may lead here"
    assert visitor.post("/api/boards", headers={"origin": "http://127.0.0.1:7860"}).text == "inside"


def test_a_token_is_asked_for_once_and_then_a_cookie():
    visitor = client(TOKEN, "http://192.168.0.7:7860")
    assert visitor.get("/").status_code == 401
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x", "é"):
        assert visitor.get("/", params={"token": wrong}).status_code == 401
        assert visitor.get("/", headers={"cookie": f"{COOKIE}={wrong}".encode()}).status_code == 401
    entered = visitor.get("//evil.example/", params={"token": TOKEN})
    assert (entered.status_code, entered.headers["location"]) == (303, "/"), "the token leaves the address"
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert visitor.get("/").text == "inside"
    assert visitor.post("/api/boards").text == "inside"
    assert client(TOKEN, "http://192.168.0.7:7860").get("/").status_code == 401, "another visitor"
    program = client(TOKEN, "http://192.168.0.7:7860")
    assert program.get("/", headers={"authorization": f"Bearer {TOKEN}"}).text == "inside"
    for wrong in ("Bearer x", f"Basic {TOKEN}", TOKEN, "Bearer"):
        assert program.get("/", headers={"authorization": wrong}).status_code == 401


def test_a_request_that_is_too_long_is_cut_off():
    inside = FastAPI()

    @inside.post("/")
    async def length(request: Request) -> int:
        return len(await request.body())

    visitor = TestClient(Guard(inside, largest=1000), base_url="http://127.0.0.1")
    assert visitor.post("/", content=b"x" * 1000).text == "1000"
    refused = visitor.post("/", content=b"x" * 1001)
    assert (refused.status_code, refused.headers["connection"]) == (413, "close")
    parts = (b"x" * 100 for _ in range(100))
    assert visitor.post("/", content=parts).status_code == 413, "whatever length it claims"


def test_only_this_computer_goes_without_a_token():
    for host in ("127.0.0.1", "::1", "localhost"):
        assert checked_token(host, None) is None
    for host in ("0.0.0.0", "::", "example.org"):
        assert len(checked_token(host, None)) >= 32
        assert checked_token(host, None) != checked_token(host, None)
    assert checked_token("::1", TOKEN) == checked_token("::", TOKEN) == TOKEN


@pytest.mark.parametrize("token", ["", "short", "with blanks in it, long", "ünïcode-ünïcode-ünï", "a" * 300])
def test_tokens_that_would_not_hold(token):
    with pytest.raises(UserError, match="16 to 256"):
        checked_token("0.0.0.0", token)


def test_a_request_with_two_lengths_is_refused():
    both = {"content-length": "1", "transfer-encoding": "chunked"}
    answer = client().post("/", content=b"x", headers=both)
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")


def test_answers_stay_in_no_cache_unless_they_say_so():
    assert client().get("/").headers["cache-control"] == "no-store"
    kept = PlainTextResponse("a picture", headers={"cache-control": "private, max-age=9"})
    answer = TestClient(Guard(kept), base_url="http://127.0.0.1").get("/")
    assert answer.headers["cache-control"] == "private, max-age=9"
