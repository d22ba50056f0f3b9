"""A session: every step can be undone, and what was answered survives a killed server."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app.test_board import cloud
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from protoadapt.app import session as session_module
from protoadapt.app.session import CROWD, EMPTY_IDLE, IDLE, LOG, Boards, computed, new_session, open_session
from protoadapt.core.errors import UserError
from protoadapt.core.threads import cores

WEIGHTS = "0" * 16


def same(one, other) -> bool:
    def state(session):
        pictures = [(p.name, p.key, p.feature.tobytes()) for p in session.board.pictures]
        words = [[step[0] for step in steps] for steps in (session.done, session.undone)]
        return replace(session.board, pictures=()), pictures, words

    return state(one) == state(other)


def add(session, pictures, labels=None, **more) -> None:
    session.add(pictures, [one.key for one in pictures], labels or [None] * len(pictures), **more)


@pytest.fixture
def session(tmp_path):
    fresh = new_session(tmp_path, WEIGHTS)
    pictures = cloud()
    add(fresh, pictures[:6], ["ant", "bee", "cat", None, None, None], drop="first")
    add(fresh, pictures[6:], drop="second")
    return fresh


moves = st.lists(
    st.one_of(
        st.tuples(st.just("label"), st.integers(0, 29), st.sampled_from(["ant", "bee", "unknown", None])),
        st.tuples(st.just("gone"), st.integers(0, 29), st.booleans()),
        st.tuples(st.just("undo"), st.none(), st.none()),
        st.tuples(st.just("redo"), st.none(), st.none()),
    ),
    max_size=15,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_a_session_opened_again_is_the_same(tmp_path, taken):
    session = new_session(tmp_path, WEIGHTS)
    add(session, cloud(), ["ant", "bee", *[None] * 28])
    for kind, place, value in taken:
        if kind in ("undo", "redo"):
            session.turn(kind)
        elif place < len(session.board.pictures) and {"ant", "bee"} <= set(session.board.classes):
            session.change({"labels" if kind == "label" else "gone": {str(place): value}}, f"{kind} {place}")
    assert same(open_session(session.folder, WEIGHTS), session)


def test_a_step_that_is_taken_is_answered_where_the_folder_has_no_room_for_its_name(tmp_path):
    session = new_session(tmp_path, WEIGHTS)
    (session.folder / "title").mkdir()  # in place of a full disk
    add(session, cloud(), folder="Trees")
    assert (session.revision, same(open_session(session.folder, WEIGHTS), session)) == (1, True)


def test_undo_and_redo_of_everything(session):
    session.change({"labels": {5: "cat"}}, "5 is a cat")
    session.change({"classes": ["ant", "bee", "cat", "dog"]}, "new class")
    whole = session.board
    assert [session.turn("undo") for _ in range(5)] == [True] * 4 + [False]
    assert (session.board.present, session.board.labels, session.board.classes) == ([], {}, ())
    assert [session.turn("redo") for _ in range(5)] == [True] * 4 + [False]
    assert session.board == whole
    session.turn("undo")
    session.change({"labels": {4: "bee"}}, "another way")
    assert not session.turn("redo"), "a new step leaves the old way"


def test_a_picture_dropped_again_keeps_its_label_comes_back_and_takes_a_new_one(session):
    session.change({"gone": {0: True}}, "off")
    add(session, cloud()[:1])
    assert (0 in session.board.gone, session.board.labels[0], len(session.board.pictures)) == (False, "ant", 30)
    session.change({"gone": {0: True, 1: True}}, "both off")
    add(session, cloud()[:2], ["Wasp", None])
    assert len(session.board.present) == 30, "with a label or without"
    assert session.board.labels[0] == "Wasp"
    assert session.board.classes == ("ant", "bee", "cat", "Wasp")


def test_a_line_that_was_cut_off_is_removed_and_the_rest_is_there(session):
    log = session.folder / LOG
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"patch": {"labels": {"5": "ca')
    again = open_session(session.folder, WEIGHTS)
    assert same(again, session)
    assert log.read_bytes() == whole
    again.change({"labels": {5: "cat"}}, "on")
    assert same(open_session(session.folder, WEIGHTS), again)


@pytest.mark.parametrize(
    "features", [np.zeros((6, 3), np.float32), np.full((6, 12), np.nan, np.float32), np.zeros((6, 12))]
)
def test_features_that_do_not_fit_are_a_sentence(session, features):
    save_file({"features": features}, session.folder / "features" / "000000.safetensors")
    with pytest.raises(UserError, match="damaged"):
        open_session(session.folder, WEIGHTS)


def test_a_session_from_elsewhere_leads_to_no_other_file(session):
    log = session.folder / LOG
    log.write_text(log.read_text().replace(session.board.pictures[0].key, "../../../x"))
    with pytest.raises(UserError, match="not its own"):
        open_session(session.folder, WEIGHTS)


@pytest.mark.parametrize(
    "damage",
    [
        *(b"[" * 100_000, b"no json", b"[]", b'{"x": 1}', b'{"patch": 7, "words": ""}'),
        *(b'{"patch": {}, "words": "", "add": [["a", "b", ""]]}', b'{"patch": {"labels": {"0": null}}, "words": 7}'),
    ],
)
def test_a_damaged_session_is_a_sentence(session, damage):
    log = session.folder / LOG
    log.write_bytes(log.read_bytes() + damage + b"\n")
    with pytest.raises(UserError):
        open_session(session.folder, WEIGHTS)


def test_another_model_is_refused(session):
    with pytest.raises(UserError, match="another model"):
        open_session(session.folder, "1" * 16)


def test_a_full_server_refuses_a_newcomer_and_erases_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(session_module, "_MOST", 2)
    boards = Boards(tmp_path, WEIGHTS, 100)
    one, two = boards.new(), boards.new()
    add(one, cloud())
    with pytest.raises(UserError, match="already holds 2 boards"):
        boards.new()
    assert boards.get(one.id) is one
    assert boards.get(two.id) is two
    two.seen = time.monotonic() - EMPTY_IDLE - 1
    assert boards.new().id != two.id, "an empty board that nobody looks at gives way"
    assert boards.get(two.id) is None
    assert not two.folder.exists()
    assert boards.get(one.id) is one
    one.seen = time.monotonic() - IDLE - 1
    boards.new()
    assert boards.get(one.id) is None
    assert not one.folder.exists(), "a board is forgotten with all its pictures"


def test_a_kept_board_leaves_the_memory_only(tmp_path):
    boards = Boards(tmp_path, WEIGHTS, 100, keep=True)
    session = boards.new()
    add(session, cloud(), folder="birds é")
    session.keep(session.board.pictures[0].key, [b"large", b"small"])
    session.seen = time.monotonic() - IDLE - 1
    boards.new()
    again = boards.get(session.id)
    assert again is not session
    assert same(again, session)
    assert [(one["id"], one["pictures"], one["title"]) for one in boards.kept()] == [(session.id, 1, "birds é")]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_an_odd_folder_is_listed_and_takes_nothing_down(tmp_path, make):
    boards = Boards(tmp_path, WEIGHTS, 100, keep=True)
    session, odd, broken = (boards.new() for _ in range(3))
    for one in (session, odd, broken):
        one.keep("0" * 64, [b"large", b"small"])
    (odd.folder / LOG).unlink()
    make(odd.folder / LOG)
    add(broken, cloud())
    (broken.folder / "features" / "000000.safetensors").unlink()
    make(broken.folder / "features" / "000000.safetensors")
    again = Boards(tmp_path, WEIGHTS, 100, keep=True)
    said = {one["id"]: one["reason"] for one in again.kept()}
    assert said == {session.id: "", odd.id: f"{LOG} is no ordinary file", broken.id: ""}
    assert again.get(odd.id) is None
    with pytest.raises(UserError, match="no ordinary file"):
        again.get(broken.id)
    assert again.get(session.id).id == session.id


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "", "x" * 15, "a" * 17, "é" * 16, "................"])
def test_a_board_s_name_leads_nowhere_else(tmp_path, name):
    (tmp_path / "home").mkdir()
    assert Boards(tmp_path / "home", WEIGHTS, 100, keep=True).get(name) is None


def test_all_boards_together_have_a_limit(tmp_path):
    boards = Boards(tmp_path, WEIGHTS, 10)
    add(boards.new(), cloud())
    assert boards.left() == CROWD * 10 - 30


def test_portions_of_a_drop_are_one_step_and_its_classes_have_one_order(tmp_path):
    pictures, seen = cloud(), []
    for order in ((0, 1, 2), (2, 0, 1)):
        session = new_session(tmp_path, WEIGHTS)
        add(session, pictures[3:4], ["zebra"])
        for portion in order:
            add(session, [pictures[portion]], [("plot 2", "plot 10", "ant")[portion]], drop="drop")
        seen.append(session.board.classes)
        assert same(open_session(session.folder, WEIGHTS), session)
        session.turn("undo")
        assert (session.board.present, session.board.classes) == ([0], ("zebra",))
        session.turn("redo")
        assert (session.board.present, session.board.classes) == ([0, 1, 2, 3], seen[-1])
    assert seen == [("zebra", "ant", "plot 2", "plot 10")] * 2


def test_whoever_asks_one_thread_computes_with_half_of_the_cores():
    before = torch.get_num_threads()
    with ThreadPoolExecutor(8) as asking:
        found = set(asking.map(lambda _: computed(threading.get_ident), range(8)))
    assert found == {computed(threading.get_ident)}
    assert threading.get_ident() not in found
    assert computed(torch.get_num_threads) == max(1, cores() // 2)
    assert torch.get_num_threads() == before, "other threads keep theirs"
    with pytest.raises(ZeroDivisionError):
        computed(divmod, 1, 0)
