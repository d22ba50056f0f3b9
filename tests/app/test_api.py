"""What the page asks its server, in-process: pictures in, labels changed, files out, and nothing it should not do."""

import asyncio
import errno
import json
import os
import re
import threading
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("fastapi", reason="the extra `app` is not installed")

import httpx
from helpers.label_files import rows_of
from starlette.testclient import TestClient

from protoadapt.app import api
from protoadapt.app.api import Service, clean_path, static_files
from protoadapt.app.guard import Guard
from protoadapt.app.intake import Limits
from protoadapt.app.server import page_app
from protoadapt.app.session import Boards
from protoadapt.labeling.classifier import load_classifier


@pytest.fixture
def client(tmp_path, loaded):
    boards = Boards(tmp_path, loaded[1]["weights"], 50)
    app = page_app(Service(*loaded, Limits(50_000, 50), boards, listed=True))
    return TestClient(Guard(app, largest=17 << 20), base_url="http://127.0.0.1")


@pytest.fixture
def board(client):
    return "/api/boards/" + client.post("/api/boards").json()["id"]


@pytest.fixture
def add(client, board, painted):
    """add({"red/1.png": ("red", 1)}, labels): uploads pictures."""

    def send(files, labels=None, **more):
        form = {"paths": json.dumps(list(files)), "labels": json.dumps(labels or [None] * len(files)), **more}
        parts = [("files", ("picture", one if isinstance(one, bytes) else painted(*one))) for one in files.values()]
        return client.post(f"{board}/pictures", data=form, files=parts)

    return send


@pytest.fixture
def filled(client, board, add):
    """A board of two classes with an example each, and four other pictures; its address."""
    examples = {"red/0.png": ("red", 0), "blue/0.png": ("blue", 0)}
    add(examples, ["red", "blue"])
    add({f"{colour} {i}.png": (colour, i) for colour in ("red", "blue") for i in (5, 6)})
    return board


JSON = {"content-type": "application/json"}


def step(client, board, *steps, since=0):
    revision = client.get(board).json()["revision"]
    return client.post(f"{board}/changes?revision={revision}&since={since}", content=json.dumps(steps), headers=JSON)


def labels(state):
    return [state["classes"][code] for code in state["answers"]["label"]]


def test_pictures_are_named_and_a_change_names_them_again(client, filled):
    state = client.get(filled).json()
    assert [one["name"] for one in state["pictures"]][:3] == ["red/0.png", "blue/0.png", "red 5.png"]
    assert (state["classes"], state["labels"]) == (["blue", "red"], {"0": "red", "1": "blue"})
    assert labels(state) == ["red", "blue", "red", "red", "blue", "blue"]
    assert sorted(state["next"]) == [2, 3, 4, 5]
    after = step(client, filled, {"patch": {"labels": {"2": "blue"}}, "words": "no"}, since=6).json()
    assert (after["labels"]["2"], after["pictures"], after["undo"]) == ("blue", [], "no")
    back = step(client, filled, {"undo": 1}).json()
    assert (back["labels"], back["redo"], labels(back)) == (state["labels"], "no", labels(state))
    assert step(client, filled, {"redo": 1}).json()["labels"] == after["labels"]


def test_a_picture_says_why_and_groups_are_sent(client, filled, add):
    add({f"sea {i}.png": ("green", i) for i in range(20)})
    state = client.get(filled).json()
    assert len({place for group in state["groups"] for place in group} & set(range(6, 26))) >= 16
    assert any("has one example" in said or "have one example" in said for said in state["findings"])
    found = client.get(f"{filled}/alike/6").json()
    assert set(found["examples"]) == {"red", "blue"}
    assert len(found["similar"]) == 25
    assert client.get(f"{filled}/alike/99").status_code == 404


def test_a_page_that_missed_a_change_gets_the_board(client, filled):
    stale = client.post(f"{filled}/changes?revision=0", json=[{"patch": {"labels": {"2": "blue"}}, "words": "x"}])
    assert (stale.status_code, stale.json()["labels"]) == (409, {"0": "red", "1": "blue"})
    assert client.get(filled).json()["labels"] == {"0": "red", "1": "blue"}


@pytest.mark.parametrize("bad", [{"labels": {"9": "red"}}, {"labels": {"0": "dog"}}, 7])
def test_a_bad_change_is_a_sentence_and_changes_nothing(client, filled, bad):
    before = client.get(filled).json()
    answer = step(client, filled, {"patch": bad})
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")
    assert client.get(filled).json() == before


LONE = "\ud800"  # half of a character, which JSON can hold and no file or answer can


@pytest.mark.parametrize(
    "body",
    [b"", b"[" * 100_000, b"7", b'{"undo": 1}', b'[{"words": "\xff"}]', json.dumps([{}] * 1001).encode()]
    + [json.dumps([{"patch": {"labels": {"1" * 5000: "red"}}}]).encode()]
    + [b'[{"patch": {"labels": {"0": ' + b"[" * 900 + b"]" * 900 + b"}}}]", b" " * (16 << 20) + b"[]"],
)
def test_changes_that_are_none_are_a_sentence(client, board, body):
    answer = client.post(f"{board}/changes?revision=0", content=body, headers=JSON)
    assert answer.status_code in (400, 413)
    assert len(answer.json().get("error") or answer.json()["detail"]) < 200
    assert client.get(board).json()["revision"] == 0


def test_text_that_no_file_can_hold_does_not_end_a_board(client, filled, add):
    answer = step(client, filled, {"patch": {"labels": {"2": "blue"}}, "words": LONE})
    assert (answer.status_code, answer.json()["undo"]) == (200, "?")
    sent = add({f"{LONE}.png": ("red", 9), f"{LONE}.txt": b"no picture"}, [LONE, None]).json()
    assert sent["skipped"][0][0] == "?.txt"
    for address in (filled, f"{filled}/labels.csv", f"{filled}/report.html"):
        assert client.get(address).status_code == 200, address


@pytest.mark.parametrize("field", ["paths", "labels"])
@pytest.mark.parametrize("value", ["[1]", "[" * 100_000, "{}", '["a", "b"]', "no JSON"])
def test_names_and_labels_that_do_not_fit_the_files_are_refused(client, board, painted, field, value):
    answer = client.post(f"{board}/pictures", data={field: value}, files={"files": ("a.png", painted("red"))})
    assert (answer.status_code, client.get(board).json()["pictures"]) == (400, [])
    assert field in answer.json()["error"].lower()


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/plain"])
@pytest.mark.parametrize(
    "body", [b"", b"a&" * 1000, b"--x\r\nContent-Disposition: form-data; name=files; filename=a\r\n\r\n?"]
)
def test_a_form_without_files_is_refused(client, board, kind, body):
    answer = client.post(f"{board}/pictures", content=body, headers={"content-type": kind})
    assert (answer.status_code, client.get(board).json()["revision"]) == (400, 0)


def test_a_full_disk_is_a_sentence_and_nothing_is_changed(client, filled, monkeypatch):
    before = client.get(filled).json()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        answer = step(client, filled, {"patch": {"labels": {"2": "blue"}}, "words": "x"})
    assert (answer.status_code, "No space" in answer.json()["error"]) == (503, True)
    assert client.get(filled).json() == before
    assert step(client, filled, {"patch": {"labels": {"2": "blue"}}, "words": "x"}).json()["labels"]["2"] == "blue"


def test_files_that_take_long_leave_threads_to_other_requests(client, filled, monkeypatch):
    """Forty threads answer; if as many files could be made at once, the page would wait for them."""
    freed, made, wanted = threading.Event(), [], 50

    def saved_file(*about):
        made.append(freed.wait(60))
        return b""

    monkeypatch.setattr(api, "saved_file", saved_file)

    async def ask():
        around = httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://127.0.0.1")
        async with around as visitor, asyncio.TaskGroup() as group:
            for _ in range(wanted):
                group.create_task(visitor.get(f"{filled}/labels.csv"))
            for _ in range(wanted):
                assert (await visitor.get(f"{filled}?names=false")).status_code == 200
            freed.set()

    asyncio.run(ask())
    assert made == [True] * wanted


def test_bad_files_are_named_and_names_lead_nowhere(client, board, add, tmp_path):
    files = {"../../evil.png": ("red", 1), "/etc/x.png": ("red", 2), "C:\\a\\b.png": ("red", 3)}
    answer = add({**files, "note.png": b"no picture"})
    assert [name for name, _ in answer.json()["skipped"]] == ["note.png"]
    state = client.get(board).json()
    assert [one["name"] for one in state["pictures"]] == ["evil.png", "etc/x.png", "C:/a/b.png"]
    assert {path.name for path in tmp_path.iterdir()} == {board.rsplit("/", 1)[-1]}
    assert not [path for path in tmp_path.rglob("*.png")], "nothing lies under a visitor's name"
    assert clean_path("a/" * 20 + "b.png") == "a/" * 7 + "b.png"


def test_folders_name_classes_as_in_label(client, board, add):
    folders = ["and%2For", "x" * 100, "unknown", "Unknown", " ", "\x00"]
    add({f"{i}.png": ("red", i) for i in range(6)}, folders)
    state = client.get(board).json()
    assert state["classes"] == ["and/or", "x" * 80]
    assert state["labels"] == {"0": "and/or", "1": "x" * 80}


def test_copies_of_pictures_and_nothing_else(client, filled):
    for size in ("small", "large"):
        answer = client.get(f"{filled}/{size}/0")
        assert answer.headers["content-type"] == "image/webp"
        assert answer.content[:4] == b"RIFF"
    other = "/api/boards/" + client.post("/api/boards").json()["id"]
    assert client.get(other).json()["pictures"] == [], "boards are apart"
    wrong = [f"{filled}/small/99", f"{filled}/small/-1", f"{filled}/huge/0", f"{filled}/operations.jsonl"]
    wrong += [f"{other}/small/0", "/api/boards/" + "x" * 16, "/static/../server.py", "/static/..%2fserver.py"]
    for path in (*wrong, "/static/server.py", "/docs", "/openapi.json", "/api/../x"):
        assert client.get(path).status_code in (404, 422), path


def test_a_table_labels_pictures_by_path_or_by_name(client, filled):
    text = "file,label\r\nred 5.png,red\r\nsomewhere/blue 5.png,sea\r\ngone.png,red\r\nblue/0.png,unknown\r\n"
    answer = client.post(f"{filled}/table", content=text.encode()).json()
    assert answer == {"labelled": 3, "n_missing": 1}
    assert client.get(filled).json()["labels"] == {"0": "red", "1": "unknown", "2": "red", "4": "sea"}
    for wrong in (b"", b"a,b\n1,2", b"\xff\xfe", b"file,label\nnowhere.png,red"):
        assert client.post(f"{filled}/table", content=wrong).status_code == 400


def test_downloads(client, filled, tmp_path, board):
    rows = rows_of(client.get(f"{filled}/labels.csv").text)
    assert [row["label"] for row in rows] == ["red", "blue", "red", "red", "blue", "blue"]
    assert [row["guess"] for row in rows] == ["(page)", "(page)", "red", "red", "blue", "blue"]
    report = client.get(f"{filled}/report.html")
    assert report.text.count("data:image/webp;base64,") == 6
    assert "attachment" in report.headers["content-disposition"]
    (tmp_path / "c.safetensors").write_bytes(client.get(f"{filled}/classifier.safetensors").content)
    assert load_classifier(tmp_path / "c.safetensors").classes == ["blue", "red"]


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(file.read_bytes()[:-1]), Path.unlink])
def test_a_damaged_copy_is_not_shown_and_made_again_when_its_picture_is_dropped_again(
    client, board, filled, add, tmp_path, damage
):
    for file in (tmp_path / board.rsplit("/", 1)[-1] / "pictures").iterdir():
        damage(file)
    answer = client.get(f"{filled}/small/0")
    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    assert client.get(f"{filled}/report.html").text.count("data:image/webp;base64,") == 0
    add({"red/0.png": ("red", 0)})
    assert client.get(f"{filled}/small/0").content[:4] == b"RIFF"
    assert client.get(f"{filled}/report.html").text.count("data:image/webp;base64,") == 1


def test_exports_are_zip_files_to_unpack_beside_the_pictures(client, filled):
    for form, file in (("imagefolder", "metadata.csv"), ("fiftyone", "data.json"), ("label-studio", "tasks.json")):
        with ZipFile(BytesIO(client.get(f"{filled}/{form}.zip").content)) as archive:
            assert file in archive.namelist()


@pytest.mark.parametrize("name", ["labels.csv", "report.html", "fiftyone.zip"])
def test_there_is_nothing_to_save_before_two_classes(client, board, name):
    answer = client.get(f"{board}/{name}")
    assert (answer.status_code, "nothing to save yet" in answer.json()["error"]) == (400, True)


def test_labels_of_one_class_are_saved(client, board, add):
    add({"photos/0.png": ("red", 0), "photos/1.png": ("red", 1)})
    client.post(
        f"{board}/changes?revision=1", json=[{"patch": {"classes": ["=red"], "labels": {"1": "=red"}}, "words": "x"}]
    )
    assert rows_of(client.get(f"{board}/labels.csv").text) == [{"file": "photos/1.png", "label": "'=red"}]


def test_the_map_has_a_place_for_every_picture_and_paths_for_every_class(client, filled):
    found = client.get(f"{filled}/map").json()
    assert [len(point) for point in found["points"]] == [2] * 6
    assert {name: len(path) for name, path in found["paths"].items()} == {"blue": 5, "red": 5}
    step(client, filled, {"patch": {"gone": {"5": True}}, "words": "off"})
    assert client.get(f"{filled}/map").json()["points"][5] is None


def test_no_file_of_the_page_writes_markup():
    pages = static_files()
    for name, content in pages.items():
        assert not re.search(rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", content), name
    assert not re.search(b"<script>|style=", pages["index.html"])


def test_too_many_files_and_too_large_requests_are_refused(client, board, add):
    assert add({f"{i}.png": b"x" for i in range(65)}).status_code == 400
    assert add({"a.png": b"x" * (17 << 20)}).status_code == 413
    assert client.get(board).json()["pictures"] == []


def test_the_report_has_the_classes_in_the_order_of_the_page_and_the_folder_s_name(client, filled, add):
    add({"red 9.png": ("red", 9)}, folder="  sea\n birds ")
    ordered = step(client, filled, {"patch": {"classes": ["red", "blue"]}, "words": "order"})
    assert ordered.json()["classes"] == ["red", "blue"]
    page = client.get(f"{filled}/report.html").text
    data = json.loads(re.search(r'id="board-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert (data["classes"], data["title"]) == (["red", "blue"], "sea birds")
    assert all(data["files"][i].startswith(data["classes"][k]) for i, k in enumerate(data["label"]))
    names = re.search(r'id="motion".*?</figure>', page, re.DOTALL)[0]
    assert names.index("red") < names.index("blue")
