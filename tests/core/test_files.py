"""Files that are there whole or not at all."""

import errno
import os
import threading

import pytest

from protoadapt.core.errors import UserError
from protoadapt.core.files import written_whole


def test_threads_that_write_the_same_file_do_not_meet(tmp_path):
    both = threading.Barrier(2)
    wrong = []

    def write(letter):
        try:
            with written_whole(tmp_path / "a") as partial:
                both.wait(30)
                partial.write_text(letter * 1000)
                both.wait(30)
                wrong.extend({letter} ^ set(partial.read_text()))
                both.wait(30)
        except Exception as error:
            both.abort()
            wrong.append(error)

    threads = [threading.Thread(target=write, args=letter) for letter in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert (tmp_path / "a").read_text() in ("x" * 1000, "y" * 1000)
    assert os.listdir(tmp_path) == ["a"]


def test_a_name_as_long_as_can_be(tmp_path):
    with written_whole(tmp_path / ("é" * 125 + ".json")) as partial:
        partial.write_text("whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


def test_only_what_is_about_the_file_is_said_of_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), written_whole(tmp_path / "a"):
        (tmp_path / "elsewhere").read_text()
    with pytest.raises(UserError, match="make room"), written_whole(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(UserError, match="cannot be written"), written_whole(tmp_path / "a") as partial:
        partial.mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"), written_whole(tmp_path / "file" / "a"):
        raise AssertionError("nothing can be written there")
    assert os.listdir(tmp_path) == ["file"]
