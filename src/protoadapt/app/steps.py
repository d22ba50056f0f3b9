"""What people do on the page, step by step: each takes the board as it was and gives it as it is, with what to show.

`gr.skip()` leaves a part of the page as it is. What comes from a browser may be anything.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import gradio as gr
from torch import nn

from protoadapt.app import view
from protoadapt.app.board import Board, add, class_name, drop, give, tell
from protoadapt.app.intake import Limits, Upload, take_in
from protoadapt.core.errors import UserError


@dataclass(frozen=True)
class Steps:
    """The handlers of one server. All files of its pages are in `folder`."""

    network: nn.Module
    about: Mapping[str, Any]
    limits: Limits
    folder: Path

    def add_examples(self, board: Board, files: list[str] | None, names: Any, name: str, progress=gr.Progress()):  # noqa: B008
        """Name and pictures may come in either order: what is there waits for the other, and is never sent back."""
        kept = gr.skip(), gr.skip()
        try:
            label = class_name(name, board)
        except UserError as error:
            return *kept, view.notice([_sentence(error)]), *kept
        if not files:
            return *kept, view.notice([f"Now drop pictures of “{name.strip()}”."]), *kept
        return *self._dropped(board, files, names, label, progress), "", None

    def add_others(self, board: Board, files: list[str] | None, names: Any, progress=gr.Progress()):  # noqa: B008
        return *self._dropped(board, files or [], names, None, progress), None

    def name(self, board: Board, event: gr.EventData):
        """A click on a picture: {key, label}, or {key, drop}."""
        asked = event._data if isinstance(event._data, dict) else {}
        key, label = asked.get("key"), asked.get("label")
        if not isinstance(key, str) or key not in board.pictures or not isinstance(label, str | None):
            return gr.skip(), self._shown(board), view.notice(["That picture is no longer here."])
        try:
            board = drop(board, key) if asked.get("drop") else give(board, key, label)
        except UserError as error:
            return gr.skip(), gr.skip(), view.notice([_sentence(error)])
        return board, self._shown(board), view.notice()

    def saver(self, file_name: str, write: Callable[[dict[str, Any]], str], paths: bool) -> Callable[[Board], Any]:
        """A step that leaves a file to download."""

        def save(board: Board):
            told = tell(board, self.about, paths)
            if told is None:
                return None, view.notice(["There is nothing to save yet: two classes need an example each."])
            file = Path(tempfile.mkdtemp(dir=self.folder), file_name)
            file.write_bytes(write(told).encode())
            return str(file), view.notice()

        return save

    def _shown(self, board: Board) -> view.Html:
        return view.show(board, tell(board, self.about))

    def _dropped(
        self, board: Board, files: Sequence[str], names: Any, label: str | None, progress: Any
    ) -> tuple[Board, view.Html, view.Html]:
        def tell_progress(done: int, total: int) -> None:
            progress((done, total), unit="pictures")

        uploads = [upload for upload in named_uploads(files, names) if Path(upload.path).is_relative_to(self.folder)]
        try:
            taken = take_in(uploads, board, self.network, self.about, self.limits, tell_progress)
        finally:
            for upload in uploads:
                Path(upload.path).unlink(missing_ok=True)
        board = add(board, taken.seen, taken.skipped, label)
        return board, self._shown(board), view.notice(skipped=taken.skipped)


def named_uploads(files: Sequence[str], names: Any) -> list[Upload]:
    """Paths as gradio has checked them, and the names that a browser claims for them, if it does."""
    if not isinstance(names, list) or len(names) != len(files) or not all(isinstance(name, str) for name in names):
        names = files
    return [Upload(str(Path(file).resolve()), PurePath(name).name[-255:]) for file, name in zip(files, names)]


def _sentence(error: UserError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."
