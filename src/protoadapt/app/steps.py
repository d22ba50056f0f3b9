"""Event handlers of the page: each takes a board and returns the new one with the parts of the page to show.

`gr.skip()` leaves a part of the page as it is. Input from a browser is not trusted.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import gradio as gr
from torch import nn

from protoadapt.app import view
from protoadapt.app.board import Board, add, class_name, drop, name_board, set_label
from protoadapt.app.intake import Limits, Upload, read_uploads
from protoadapt.core.errors import UserError


@dataclass(frozen=True)
class Steps:
    """The event handlers of one server, whose files are all in `folder`."""

    network: nn.Module
    metadata: Mapping[str, Any]
    limits: Limits
    folder: Path

    def add_examples(self, board: Board, files: list[str] | None, names: Any, name: str, progress=gr.Progress()):  # noqa: B008
        """A class name and its pictures may come in either order: the first waits for the second."""
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
        request = event._data if isinstance(event._data, dict) else {}
        key, label = request.get("key"), request.get("label")
        if not isinstance(key, str) or key not in board.pictures or not isinstance(label, str | None):
            return gr.skip(), self._shown(board), view.notice(["That picture is no longer here."])
        try:
            board = drop(board, key) if request.get("drop") else set_label(board, key, label)
        except UserError as error:
            return gr.skip(), gr.skip(), view.notice([_sentence(error)])
        return board, self._shown(board), view.notice()

    def saver(self, file_name: str, write: Callable[[dict[str, Any]], str], paths: bool) -> Callable[[Board], Any]:
        """A handler that writes a file to download."""

        def save(board: Board):
            result = name_board(board, self.metadata, paths)
            if result is None:
                return None, view.notice(["There is nothing to save yet: add an example of each of two classes."])
            file = Path(tempfile.mkdtemp(dir=self.folder), file_name)
            file.write_bytes(write(result).encode())
            return str(file), view.notice()

        return save

    def _shown(self, board: Board) -> view.Html:
        return view.show(board, name_board(board, self.metadata))

    def _dropped(
        self, board: Board, files: Sequence[str], names: Any, label: str | None, progress: Any
    ) -> tuple[Board, view.Html, view.Html]:
        def on_progress(done: int, total: int) -> None:
            progress((done, total), unit="pictures")

        uploads = [upload for upload in named_uploads(files, names) if Path(upload.path).is_relative_to(self.folder)]
        try:
            pictures, skipped = read_uploads(uploads, board, self.network, self.metadata, self.limits, on_progress)
        finally:
            for upload in uploads:
                Path(upload.path).unlink(missing_ok=True)
        board = add(board, pictures, skipped, label)
        return board, self._shown(board), view.notice(skipped=skipped)


def named_uploads(files: Sequence[str], names: Any) -> list[Upload]:
    """Paths that gradio has checked, with the file names that the browser sent, if it sent any."""
    if not isinstance(names, list) or len(names) != len(files) or not all(isinstance(name, str) for name in names):
        names = files
    return [Upload(str(Path(file).resolve()), PurePath(name).name[-255:]) for file, name in zip(files, names)]


def _sentence(error: UserError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."
