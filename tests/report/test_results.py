"""The page of results, tables of numbers, and the command that makes pages."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.label_files import rows_of
from helpers.pages import Parsed, labels

from benchmarks.synthetic import synthetic_features
from protoadapt.cli.report_command import report_command
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.protocol import Protocol
from protoadapt.core.results import RESULT, pack
from protoadapt.report.documents import report_page
from protoadapt.report.result_page import evaluation_page
from protoadapt.report.tables import OVER_CLASSES, comparison, embedding, measures, render

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.fixture(scope="module")
def compared() -> dict:
    """Three methods on the same forty episodes, as `compare --json` writes them."""
    return measured(Protocol(query=10), ["semi_protonet", "protonet", "cipa"])


def measured(protocol: Protocol, methods: list[str], run: str = "", **options) -> dict:
    table = synthetic_features(classes=8, rows=60, seed=len(run))  # a run of another name learned something else
    results = compare(table.features, table.labels, methods, protocol, episodes=40, **options)
    plain = [result.to_json(**table.about) for result in results]
    about = {"training": {"run": run}} if run else {}
    return {"schema": RESULT, "results": plain, "reference": "protonet", **about}


def place(value: str | None) -> float:
    return float((value or "").removesuffix("%"))


def test_tables_hold_the_numbers_and_charts_stand_where_they_say(compared):
    page = Parsed(evaluation_page([compared]))
    _, rows = comparison(compared["results"], "protonet")
    for result, row in zip(compared["results"], rows):
        cells = next(text for _, text in page.all("tr") if text.startswith(result["label"]))
        assert cells == result["label"] + row[1] + (row[2] or "reference") + row[3]
    dots = [place(a["cx"]) for a, _ in page.all("circle")]
    whiskers = [(place(a["x1"]), place(a["x2"])) for a, _ in page.all("line", "whisker")]
    means, halves = (np.array([r[key] for r in compared["results"]]) for key in ("accuracy", "ci95"))
    scale = (dots[0] - dots[2]) / (means[0] - means[2])  # the same for all: places are a line through the numbers
    assert dots == pytest.approx(dots[0] + scale * (means - means[0]), abs=0.02)
    for dot, half, (low, high) in zip(dots, halves, whiskers):
        assert (low, high) == pytest.approx((dot - scale * half, dot + scale * half), abs=0.02)
        assert 0 <= low <= high <= 100


def test_histograms_show_every_episode(compared):
    numbers = {"correct": pack(np.repeat([0, 25], [10, 30])), "queries": 50, "accuracy": 37.5, "ci95": 6.7951}
    numbers |= {"classes": None}
    page = Parsed(evaluation_page([{**compared["results"][0], **numbers}]))
    bars = {place(a["x"]): place(a["height"]) for a, _ in page.all("rect")}
    assert bars == pytest.approx({0.0: 100 / 3, 48.0: 100.0}, abs=0.01)


def test_only_results_on_the_same_episodes_share_a_table(compared):
    other = measured(Protocol(query=10), ["cipa"], seed=1)
    page = Parsed(evaluation_page([compared, *other["results"], compared]))
    tables = [text for a, text in page.all("table") if a.get("class") == "results"]
    assert len(tables) == 2
    assert "minus protonet" in tables[0]
    assert "minus" not in tables[1]
    assert len(page.all("circle")) == 4, "the same result twice is shown once"


def test_one_amount_of_unlabelled_pictures_makes_a_table():
    page = Parsed(evaluation_page([measured(Protocol("semi", query=5, unlabeled=4), ["protonet", "cipa"])]))
    assert [a["class"] for a, _ in page.all("table")] == ["results"]


def test_curves_have_a_point_an_epoch():
    history = [{"epoch": e, "ce": 4 / e, "loss": 5 / e, "accuracy": 10.0 * e} for e in range(1, 9)]
    history[3]["val_cipa_1"] = history[7]["val_cipa_1"] = 50.0
    history[5]["ce"] = float("nan")
    page = Parsed(evaluation_page([{**RUN, "history": history}]))
    assert [len(a["points"].split()) for a, _ in page.all("polyline")] == [7, 2, 8]
    assert "<b>mine</b>" in [text for _, text in page.all("h3")]
    first, *_, last = page.all("polyline")[2][0]["points"].split()
    assert (first, last) == ("0.0,900.0", "1000.0,200.0")


def test_the_results_kept_here_make_a_page():
    files = [file for file in sorted(RESULTS.glob("*/*.json")) if "hct_r" in file.parent.name]
    page = evaluation_page([json.loads(file.read_text()) for file in files])
    seen = Parsed(page)
    assert len(page) < 3_000_000
    assert {"#accuracy", "#provenance"} <= {a["href"] for a, _ in seen.all("a")}
    assert not re.search(r"https?:|\bnan\b|\binf\b", page.split("</style>")[1])
    assert "script-src" not in page


def test_results_without_counts_by_class_have_no_interval_over_classes(compared):
    bare = [{key: value for key, value in result.items() if key != "classes"} for result in compared["results"]]
    header, rows = comparison(bare, "protonet")
    assert OVER_CLASSES not in header
    assert all(len(row) == len(header) for row in rows)
    some, _ = comparison([bare[0], compared["results"][1]], "protonet")
    assert OVER_CLASSES in some
    assert "jackknife" not in render(bare, "protonet", "markdown")
    assert "jackknife" in render(compared["results"], "protonet", "markdown")
    caption, *_, note, _ = render(compared["results"], "protonet", "text").splitlines()
    assert len(caption) < 100
    assert note.startswith(f" {OVER_CLASSES}: ")
    assert "over classes" not in evaluation_page([{**compared, "results": bare}]).split("</style>")[1].lower()


RUN = {"schema": "protoadapt-run/1", "config": {"dataset": "glyphs", "backbone": "conv4", "epochs": 4, "seed": 0}}
RUN |= {"run": "<b>mine</b>", "best": None, "seconds": 1.5, "hardware": "2 cores", "history": [{"epoch": 1, "ce": 1.0}]}
PLANE = {
    "schema": "protoadapt-paths/1",
    "rows": [[0, 0], [4, 4], [1, 0.5]],
    "row_label": [0, 1, -1],
    "support": [True, True, False],
    "steps": [[[0, 0], [1, 1]], [[4, 4], [3, 3]]],
}


@pytest.mark.parametrize(
    "damaged",
    [
        *({**RUN, key: "x"} for key in ("config", "best", "seconds")),
        *({**PLANE, key: value} for key in ("rows", "steps", "row_label") for value in ("x", None)),
        {**PLANE, "support": [True, True]},
        {"schema": "protoadapt-labels/1"},
        {"schema": "protoadapt-check/1", "pictures": 7},
    ],
)
def test_what_is_not_as_it_was_written_is_one_sentence(damaged):
    with pytest.raises(UserError, match=r"^a\.json: it is damaged .*: write it again"):
        report_page({"a.json": damaged})


def test_hostile_words_in_results_stay_words(compared):
    bad = "<script>alert(1)</script>"
    result = {**compared["results"][0], "label": bad, "features": {"dataset": bad, "backbone": bad}, "hardware": bad}
    page = evaluation_page([result])
    assert "<script" not in page
    assert bad in Parsed(page).all("h1")[0][1]


def test_paths_are_a_line_per_class():
    document = json.loads((RESULTS / "mini-imagenet" / "adaptation.json").read_text())
    chart = Parsed(evaluation_page([document]))
    assert [len(a["points"].split()) for a, _ in chart.all("polyline")] == [21] * 10
    assert len([a for a, _ in chart.all("path") if (a.get("class") or "").endswith("example")]) == 10 + 1  # legend


@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser_nothing_sticks_out(opened, width):
    files = ("mini-imagenet-hct_r/novel-1shot.json", "mini-imagenet/adaptation.json", "mini-imagenet-hct_r/train.json")
    page = evaluation_page([json.loads((RESULTS / file).read_text()) for file in files])
    view = opened(page, width, color_scheme="dark")
    assert view.evaluate("document.documentElement.scrollWidth") == width


# Tables for programs and papers


def test_csv_holds_one_plain_number_a_cell(compared):
    rows = rows_of(render(compared["results"], "protonet", "csv"))
    for row, result in zip(rows, compared["results"]):
        assert row.pop("method") == result["label"]
        assert all(value == "" or np.isfinite(float(value)) for value in row.values())
        assert float(row["accuracy"]) == pytest.approx(result["accuracy"])
        assert float(row["ci95"]) == pytest.approx(result["ci95"])
    assert [*rows[0]][2:4] == ["minus protonet", "minus protonet ci95"]


def test_markdown_and_latex_say_what_was_measured(compared):
    assert render(compared["results"], None, "markdown").startswith(
        "synthetic clouds: 5-way 1-shot, 10 queries per class"
    )
    printed = render([{**compared["results"][0], "label": r"a_b{c}\d~#$%&^"}], None, "latex")
    assert (
        r"\caption{synthetic clouds: 5-way 1-shot, 10 queries per class, 40 episodes, seed 0, 95 \% CI; $\pm$ over"
        in printed
    )
    assert r"a\_b\{c\}\textbackslash{}d\~{}\#\$\%\&\^{}" in printed
    assert printed.count(r"\begin") == printed.count(r"\end") == 2


def cells(line: str) -> list[str]:
    """The cells of a line of LaTeX; one over several columns counts as many times."""
    out = []
    for cell in re.split(r"(?<!\\) & ", line.removesuffix(r" \\")):
        span = re.match(r"\\multicolumn{(\d)}", cell)
        out += [cell] * (int(span[1]) if span else 1)
    return out


def test_latex_sets_shots_side_by_side_with_the_best_in_bold_and_no_seconds(compared):
    five = measured(Protocol(shot=5, query=10), ["protonet", "cipa"])["results"]
    printed = render([*compared["results"], *five], "protonet", "latex").splitlines()
    (columns,) = [len(line.partition("{l")[2]) for line in printed if line.startswith(r"\begin{tabular}")]
    start, middle, end = (printed.index(rf"\{rule}rule") for rule in ("top", "mid", "bottom"))
    titles, rules, header = printed[start + 1 : middle]
    assert all(len(cells(line)) == columns == 7 for line in (titles, header, *printed[middle + 1 : end]))
    assert rules == r"\cmidrule(lr){2-4} \cmidrule(lr){5-7}"
    assert [cell.rpartition("{")[2] for cell in cells(titles)[1:]] == ["1-shot}"] * 3 + ["5-shot}"] * 3
    assert cells(header) == ["method", *["accuracy", "minus protonet", r"$\pm$ over classes"] * 2]
    body = {row[0]: row for row in map(cells, printed[middle + 1 : end])}
    assert [*body] == [r"semi\_protonet", "protonet", "cipa"]
    assert body[r"semi\_protonet"][4:] == [""] * 3, "not measured with five shots"
    for column, results in ((1, compared["results"]), (4, five)):
        best = max(results, key=lambda r: r["accuracy"])
        bold = [label.replace("\\", "") for label, row in body.items() if row[column].startswith(r"\textbf{")]
        assert bold == [best["label"]]
        assert body[bold[0].replace("_", r"\_")][column].startswith(rf"\textbf{{{best['accuracy']:.2f}}} $\pm$ ")
    assert "1- and 5-shot" in printed[2]
    assert "seconds" not in "".join(printed)
    assert "episodes/s" not in "".join(printed)


def test_several_protocols_make_several_tables_and_one_csv(compared):
    five = measured(Protocol(shot=5, query=10), ["protonet", "cipa"])["results"]
    both = [*compared["results"], *five]
    pages = render(both, "protonet", "markdown")
    assert pages == "\n\n".join(render(part, "protonet", "markdown") for part in (compared["results"], five))
    rows = rows_of(render(both, "protonet", "csv"))
    assert [row["method"] for row in rows] == [r["label"] for r in both]
    assert ["5-way 5-shot" in row["measured on"] for row in rows] == [False] * 3 + [True] * 2
    assert [float(row["accuracy"]) for row in rows] == pytest.approx([r["accuracy"] for r in both], abs=1e-4)


# The command


def write(file: Path, value: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


def test_the_kind_of_file_decides_the_page(compared, tmp_path, capsys):
    out = tmp_path / "report.html"
    report_command([write(tmp_path / "labels.json", labels())], out)
    assert "Label these next" in out.read_text()
    folder = tmp_path / "runs" / "a"
    write(folder / "compare.json", compared)
    write(folder / "checkpoints" / "step-1" / "state.json", {"step": 1})
    write(folder / "benchmark.json", {"schema": "protoadapt-benchmark/1", "results": [{"seconds": 1}]})
    (folder / "broken.json").write_text('{"schema": ')
    report_command([tmp_path / "runs"], out)
    assert "semi_protonet" in out.read_text()
    assert "broken.json" in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["labels.json", "report.html", "runs"]


def test_what_cannot_be_reported_is_said_and_nothing_is_written(compared, tmp_path):
    out, mine = tmp_path / "out.html", write(tmp_path / "labels.json", labels())
    out.write_text(before := '<meta content="protoadapt, results">')
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "cut.json").write_text('{"schema": "protoadapt-la')
    cases = [
        ([tmp_path / "none.json"], "no file"),
        ([empty], "no result in"),
        ([tmp_path / "cut.json"], "truncated or not JSON (Unterminated string"),
        ([write(tmp_path / "other.json", {"a": 1})], "not a result, run or labels file"),
        ([write(tmp_path / "list.json", [1])], "not a result, run or labels file"),
        ([write(tmp_path / "other.json", compared | {"schema": []})], "not a result, run or labels file"),
        ([mine, write(tmp_path / "r.json", compared)], "labels.json: it has a report of its own"),
        ([write(tmp_path / "bad.json", {"schema": RESULT, "results": [{}]})], "bad.json: a result is damaged"),
        ([write(tmp_path / "half.json", {"schema": "protoadapt-labels/1"})], "half.json: it is damaged"),
    ]
    for given, words in cases:
        with pytest.raises(UserError, match=re.escape(words)):
            report_command(given, out)
        assert out.read_text() == before
    with pytest.raises(UserError, match="also read"):
        report_command([mine], mine)
    assert not [*tmp_path.glob(".*")]


def test_a_table_is_printed_or_written_instead_of_a_page(compared, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    five = measured(Protocol(shot=5, query=10), ["protonet", "cipa"])
    files = [write(tmp_path / "1.json", compared), write(tmp_path / "5.json", five)]
    report_command(files, form="latex")
    printed = capsys.readouterr().out
    assert printed == render([*compared["results"], *five["results"]], "protonet", "latex") + "\n"
    report_command(files, tmp_path / "table.tex", form="latex")
    assert (tmp_path / "table.tex").read_text() == printed
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(UserError, match="there is no table format 'pdf'"):
        report_command(files, form="pdf")
    with pytest.raises(UserError, match=r"labels.json: there is no result to make a table of"):
        report_command([write(tmp_path / "labels.json", labels())], form="text")


def test_without_out_only_a_page_of_the_same_kind_is_replaced(compared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine, other = write(tmp_path / "named" / "labels.json", labels()), write(tmp_path / "r.json", compared)
    for _ in range(2):
        report_command([mine])
        assert 'content="protoadapt, labels"' in (tmp_path / "named" / "report.html").read_text()
    assert not (tmp_path / "report.html").exists()
    for _ in range(2):
        report_command([other])
    before = (tmp_path / "report.html").read_bytes()
    here = write(tmp_path / "labels.json", labels())
    with pytest.raises(UserError, match=r"'.*report.html' was not written by this command"):
        report_command([here])
    assert (tmp_path / "report.html").read_bytes() == before
    report_command([here], tmp_path / "report.html")
    with pytest.raises(UserError, match=r"'report.html' was not written by this command"):
        report_command([other])
    (tmp_path / "named" / "report.html").write_text("notes of mine")
    with pytest.raises(UserError, match="move it away, or write elsewhere"):
        report_command([mine])


def test_links_to_pictures_are_kept_where_they_lead_to_them(tmp_path):
    mine = write(tmp_path / "named" / "labels.json", labels(folder="../photos"))
    report_command([mine])
    report_command([mine], tmp_path / "report.html")
    assert b'"../photos/a.jpg"' in (tmp_path / "named" / "report.html").read_bytes()
    assert b"photos" not in (tmp_path / "report.html").read_bytes()


def test_what_is_unusual_about_the_features_is_said():
    features = {"backbone": "resnet12", "views": 1, "pooling": 1.0, "crop": "box"}
    assert embedding({"features": features}) == "resnet12, crop box"
    views = features | {"views": 8, "pooling": 2.0}
    assert embedding({"features": views}) == "resnet12, crop box, views 8, pooling 2.0"


def test_a_table_for_a_terminal_of_80_columns_cuts_no_number():
    """Long settings become footnotes; what is still too wide continues below, behind the methods again."""
    tuned = "bapa(n_iter=20, sigma=0.3333333, lam=8.1234567, kappa=2.1236789)"
    document = measured(Protocol("open", way=3, query=10), ["paddle(scale=10)", tuned, "bapa"])
    printed = render(document["results"], "paddle(scale=10)", "text")
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    assert "minus paddle [1]" in printed
    assert f" [2] {tuned}\n" in printed
    for value in measures(document["results"], "paddle(scale=10)"):
        assert f"{value['accuracy']:.2f} ± {value['ci95']:.2f}" in printed
        assert f" {value['episodes/s']:,.0f}\n" in printed
    assert tuned in render(document["results"], "paddle(scale=10)", "markdown")


def test_a_wide_terminal_has_the_settings_in_the_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    printed = render(measured(Protocol(query=10), ["paddle(scale=10)", "bapa"])["results"], None, "text")
    assert "paddle(scale=10) " in printed
    assert "[1]" not in printed
