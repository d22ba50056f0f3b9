"""What mkdocs builds beside the written pages: commands, methods, the Python API, the notebook and all results.

Nothing of this is committed. mkdocs.yml names this file as a hook.
"""

import csv
import html
import inspect
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from typer.testing import CliRunner

import protoadapt
from protoadapt.cli.verbs import app
from protoadapt.core.methods import METHODS, declarations, family
from protoadapt.core.results import class_interval, read_results
from protoadapt.report.tables import markdown

ROOT = Path(__file__).resolve().parent.parent
FURTHER = {
    "Label pictures": ("labeling.label", "labeling.predict", "labeling.classifier.load_classifier"),
    "Networks and training": ("vision.networks.load", "training.config.TrainConfig", "training.loop.train"),
}
"""Documented functions that `import protoadapt` does not bring, by heading."""
COLUMNS = (
    "network",
    "test",
    "protocol",
    "way",
    "shot",
    "unlabelled",
    "method",
    "accuracy",
    "± episodes",
    "± classes",
    "episodes",
    "file",
)


def on_files(files: Files, config: Any) -> Files:
    """mkdocs asks for this before it reads the pages."""
    for name, text in written().items():
        files.append(File.generated(config, name, content=text))
    return files


def written() -> dict[str, str]:
    """Files of the site by name."""
    return {
        "commands.md": commands_page(),
        "methods.md": methods_page(),
        "api.md": api_page(),
        "notebook.md": notebook_page(),
        "results.md": results_page(),
        "results.csv": results_csv(),
    }


def commands_page() -> str:
    """What `protoadapt COMMAND --help` says."""
    parts = ["# Commands", "What `protoadapt COMMAND --help` says."]
    for command in app.registered_commands:
        words = [command.name, "--help"]
        said = CliRunner().invoke(app, words, prog_name="protoadapt", env={"COLUMNS": "120"}).stdout
        lines = "\n".join(line.rstrip() for line in said.strip().splitlines())
        parts += [f"## {command.name}", f"```text\n{lines}\n```"]
    return "\n\n".join(parts)


def methods_page() -> str:
    """The docstrings of the methods, with their equations and settings."""
    parts = [
        "# Methods and their settings",
        "Names are those of `--method`, settings those of `--set`. Every method takes `Episodes` of E episodes, Q "
        "queries and W classes and returns class probabilities (E, Q, W). Each is tested against a slow loop written "
        "from its paper's equations.",
    ]
    for name, function in METHODS.items():
        module = sys.modules[function.__module__]
        parts += [f"## {name}", prose(module.__doc__), prose((function.__doc__ or "").split(">>>")[0])]
        settings = declarations(function).values()
        rows = [[f"`{s.name}`", f"`{s.default}`", s.help, s.range] for s in settings]
        table = markdown(["setting", "default", "meaning", "range"], rows).replace("---:", "---")  # words: to the left
        parts += [table] if rows else []
    return "\n\n".join([*parts, "## The loop that six of them share", fenced(inspect.cleandoc(family.__doc__ or ""))])


def prose(docstring: str | None) -> str:
    """A docstring as Markdown, with indented lines (arguments, equations) as they are."""
    text = inspect.cleandoc(docstring or "")
    if not re.search(r"^\s{2,}|\S\s{3,}\S", text, re.MULTILINE):
        return text
    first, _, rest = text.partition("\n\n")
    return f"{first}\n\n{fenced(rest)}" if rest else fenced(first)


def fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def api_page() -> str:
    """What can be imported, for mkdocstrings to fill in."""
    parts = ["# Python API", "`import protoadapt` loads nothing heavy: each name is loaded when it is first used."]
    classes = {name: f"{home}.{name}" for name, home in protoadapt.HOME.items() if name != "METHODS"}
    for heading, names in {"import protoadapt": tuple(classes.values()), **FURTHER}.items():
        parts += [f"## {heading}", *(f"::: protoadapt.{name}" for name in names)]
    return "\n\n".join(parts)


def notebook_page() -> str:
    """docs/notebook.ipynb as Markdown; the tests execute it."""
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    code = [cell["cell_type"] == "code" for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if is_code else text for text, is_code in zip(texts, code))


def results_rows() -> list[list[str]]:
    """One row per stored result, as COLUMNS."""
    rows = []
    for file in sorted((ROOT / "results").rglob("*.json")):
        document = json.loads(file.read_text())
        for record in read_results(document) if "results" in document else []:
            protocol, over_classes = record["protocol"], class_interval(record)
            rows.append(
                [
                    file.parent.name,
                    re.sub(r"-\dshot$", "", file.stem),
                    protocol["kind"],
                    str(protocol["way"]),
                    str(protocol["shot"]),
                    str(protocol["unlabeled"]),
                    record["label"],
                    f"{record['accuracy']:.2f}",
                    f"{record['ci95']:.2f}",
                    "" if over_classes is None else f"{over_classes:.2f}",
                    str(record["episodes"]),
                    str(file.relative_to(ROOT / "results")),
                ]
            )
    return rows


def results_csv() -> str:
    with io.StringIO(newline="") as out:
        csv.writer(out).writerows([COLUMNS, *results_rows()])
        return out.getvalue()


def results_page() -> str:
    """All results as a table that docs/sort.js sorts and filters."""
    rows = results_rows()

    def line(cells: Any, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    shown = COLUMNS[:-1]
    body = "\n".join(line(row[: len(shown)], "td") for row in rows)
    return (
        "---\nhide: [navigation, toc]\n---\n\n"
        f"# All results\n\n{len(rows)} accuracies in percent, each from a JSON file under `results/`. Click a heading "
        "to sort; type words to filter, such as `mini-imagenet cipa`. The intervals are of 95 %: over episodes, and "
        "over the choice of classes ([why two](compare.md#two-intervals)). "
        "[The same as csv](results.csv), with the file of each.\n\n"
        '<input id="filter" type="search" placeholder="filter" aria-label="filter">\n'
        f'<table id="results"><thead>{line(shown, "th")}</thead>\n<tbody>\n{body}\n</tbody></table>\n'
    )
