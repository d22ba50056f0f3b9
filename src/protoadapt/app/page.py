"""The page: gradio components around a board. `steps` handles the events, `view` makes the markup.

Each open page has its own board in a `gr.State`. All events share one queue, so each begins where the previous one
ended; an uploaded file is removed as soon as its picture is on the board.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import gradio as gr
from torch import nn

from protoadapt.app import view
from protoadapt.app.board import LONGEST, Board
from protoadapt.app.intake import Limits
from protoadapt.app.steps import Steps
from protoadapt.labeling.outputs import as_csv
from protoadapt.report.label_page import labels_page
from protoadapt.vision.pictures.formats import SUFFIXES, readable

SESSIONS = 50
"""Boards that are kept, the most recently used: about forty megabytes each when full."""


def build(network: nn.Module, metadata: Mapping[str, Any], limits: Limits, folder: Path) -> gr.Blocks:
    """Builds the page. All its files are in `folder`."""
    steps = Steps(network, metadata, limits, folder)
    queue: dict[str, Any] = {"concurrency_id": "board", "concurrency_limit": 1, "api_visibility": "private"}
    queue |= {"trigger_mode": "multiple"}  # events during a step wait for their turn
    with gr.Blocks(title="Name your pictures", analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        blocks.state_session_capacity = SESSIONS
        board = gr.State(Board())
        _html(view.heading("Name your pictures", LEAD))
        with gr.Row(elem_id="steps"):
            with gr.Column():
                _html(view.step(1, "Show examples", "One to five pictures per class, of at least two classes."))
                name = gr.Textbox(
                    label="Class", placeholder="for example: oak leaf", max_length=LONGEST, elem_id="name"
                )
                examples = _dropzone("Pictures of this class", "examples")
                more = gr.Button("Add examples", size="md", elem_id="more")
            with gr.Column():
                note = f"All other pictures, unsorted, up to {limits.pictures:,}. They shape the classifier too."
                _html(view.step(2, "Drop the rest", note))
                others = _dropzone("Pictures without a name", "others")
        notice = _html(view.notice(), elem_id="notice")
        with gr.Row(elem_id="third"):
            _html(view.step(3, "Check and correct", "Click a picture to change its class: the others are named again."))
            table = gr.Button("Save table (csv)", size="md", min_width=0, elem_id="save-table")
            report = gr.Button("Save report", size="md", min_width=0, elem_id="save-report")
        gallery = _html(view.EMPTY, js_on_load=_text("page.js"), elem_id="board")
        known = {"model": metadata["model"], "dataset": metadata["trained_on"] or "unknown pictures"}
        _html(view.tag("p", FOOT.format(**known, formats=", ".join(readable()), mb=limits.bytes >> 20), class_="foot"))
        saved = gr.DownloadButton(visible="hidden", elem_id="saved")
        names = gr.JSON(visible="hidden")

        after = [board, gallery, notice]
        filled = [*after, name, examples]
        taking = {"js": NAMES, "show_progress_on": gallery, **queue}
        for event in (examples.upload, name.submit, more.click):
            event(steps.add_examples, [board, examples, names, name], filled, **taking)
        others.upload(steps.add_others, [board, others, names], [*after, others], **taking)
        gallery.named(steps.name, board, after, show_progress="hidden", **queue)
        for button, save in (
            (table, steps.saver("labels.csv", as_csv, False)),
            (report, steps.saver("report.html", labels_page, True)),
        ):
            done = button.click(save, board, [saved, notice], show_progress_on=gallery, **queue)
            done.success(None, saved, None, js=DOWNLOAD, api_visibility="private")
    return blocks


LEAD = "Add a few examples per class, drop the other pictures, correct mistakes. Every correction improves other names."
FOOT = (
    "Model {model}, trained on {dataset}. {formats} files of up to {mb} MB. Pictures are "
    "sent to the computer that serves this page and nowhere else, and are removed after the page is closed."
)
NAMES = "(board, files, names, ...rest) => [board, files, (files ?? []).map((file) => file.orig_name), ...rest]"
"""The original names of files: gradio removes characters that it considers unsafe from their paths."""
DOWNLOAD = """(file) => {
  if (!file) return;
  const link = Object.assign(document.createElement("a"), { href: file.url, download: file.orig_name });
  link.click();
}"""


def style() -> dict[str, Any]:
    """Colours, system fonts and our style sheet: nothing that has to be fetched."""
    system = ["system-ui", "sans-serif"]
    theme = gr.themes.Default(primary_hue="indigo", neutral_hue="slate", font=system, font_mono=["monospace"])
    return {"theme": theme, "css": _text("page.css")}


def _dropzone(label: str, name: str) -> gr.File:
    kinds = ["image", *sorted(SUFFIXES)]
    return gr.File(label=label, file_count="multiple", file_types=kinds, height=150, elem_id=name)


def _html(value: str, **settings: Any) -> gr.HTML:
    return gr.HTML(value, apply_default_css=False, **{"js_on_load": None, **settings})


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
