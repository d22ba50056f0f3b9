"""The command line as a user meets it: its words, its exit codes, and what it leaves on disk."""

import csv
import io
import json
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.command import run

import protoadapt
from benchmarks.slow_methods import STEPS, shortened
from protoadapt import save_features
from protoadapt.cli import main
from protoadapt.core.features import synthetic_features
from protoadapt.core.results import right_answers


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    file = tmp_path_factory.mktemp("features") / "f.safetensors"
    save_features(file, synthetic_features(classes=8, rows=40))
    return file


def test_evaluate_prints_a_table_and_writes_json(features, tmp_path):
    done = run(
        "evaluate", features, "--method", "cipa", "--episodes", 50, "--set", "tau=15", "--json", tmp_path / "r.json"
    )
    assert done.returncode == 0, done.stderr
    assert "5-way 1-shot" in done.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["arguments"]["tau"] == 15
    assert f"{result['accuracy']:.2f} ± {result['ci95']:.2f}" in done.stdout


def test_small_classes_are_left_out_on_request(tmp_path):
    """As if their rows were not in the file."""
    table = synthetic_features(classes=8, rows=40)
    few = table.labels.clone()
    few[(few == 3).nonzero()[5:]] = -1  # class 3 keeps five rows
    none = table.labels.masked_fill(table.labels == 3, -1)
    for name, labels in (("few", few), ("none", none)):
        save_features(tmp_path / f"{name}.safetensors", replace(table, labels=labels))
    refused = run("evaluate", tmp_path / "few.safetensors", "--episodes", 50)
    assert refused.returncode == 2
    assert "16 rows per class (shot 1 + query 15); the classes have 5 to 40" in refused.stderr
    assert "--min-rows 16" in refused.stderr
    answers = []
    for name, words in (("few", ("--min-rows", 16)), ("none", ())):
        done = run(
            "evaluate", tmp_path / f"{name}.safetensors", "--episodes", 50, *words, "--json", tmp_path / "r.json"
        )
        assert ("1 class with fewer than 16 rows" in done.stderr) == (name == "few")
        answers.append(json.loads((tmp_path / "r.json").read_text())["correct"])
    assert answers[0] == answers[1]


def test_dirichlet_draws_that_do_not_fit_are_told(tmp_path, features):
    """Classes of 20 rows cannot be more than 19 of 75 queries: hardly a draw of Dirichlet(2) is like that."""
    save_features(tmp_path / "small.safetensors", synthetic_features(classes=8, rows=20))
    words = ("evaluate", tmp_path / "small.safetensors", "--protocol", "dirichlet", "--episodes", 20)
    assert "draws need more rows than a class has" in run(*words).stderr
    assert "note" not in run(*words, "--query", 4).stderr


def test_compare_gives_paired_differences_in_every_format(features, tmp_path):
    words = ("compare", features, "--methods", "protonet,cipa(sigma=1, tau=5)", "--episodes", 50)
    table = run(*words, "--format", "csv", "--json", tmp_path / "r.json")
    assert table.returncode == 0, table.stderr
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [row["method"] for row in rows] == ["protonet", "cipa(sigma=1, tau=5)"]
    result = json.loads((tmp_path / "r.json").read_text())
    first, second = (right_answers(r) for r in result["results"])
    assert float(rows[1]["minus protonet"]) == pytest.approx(100 * (second - first).mean() / 75, abs=1e-4)
    about, _, header, *_ = run(*words, "--format", "markdown").stdout.splitlines()
    assert "5-way 1-shot, 15 queries per class, 50 episodes" in about
    assert header.startswith("| method | accuracy |")
    printed = run(*words, "--format", "latex").stdout
    assert r"\begin{tabular}" in printed
    assert r"\caption{synthetic clouds: 5-way 1-shot" in printed
    assert "minus cipa(sigma=1, tau=5)" in run(*words, "--reference", "cipa(sigma=1, tau=5)").stdout


def test_a_users_own_method_runs_without_touching_the_package(features, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from protoadapt import METHODS\n"
        "def sharp(episodes, *, tau=50.0):\n"
        "    return METHODS['protonet'](episodes, tau=tau)\n"
    )
    done = run("evaluate", features, "--method", "mine:sharp", "--set", "tau=20", "--episodes", 20, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine:sharp(tau=20)" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--way", "9"), "lower --way to 8"),
        (("--shot", "30"), "lower --shot"),
        (("--method", "cipi"), "did you mean 'cipa'"),
        (("--set", "tua=1"), "cipa has no setting 'tua': did you mean 'tau'"),
        (("--set", "tau"), "name=value"),
        (("--set", "tau=hot"), "tau is 'hot': it must be a number from"),
        (("--set", "tau=nan"), "tau is 'nan': it must be a number from"),
        (("--set", "n_iter=2.5"), "n_iter is 2.5: it must be a whole number from 0 to 100,000"),
        (("--protocol", "odd"), "choose balanced"),
        (("--protocol", "semi"), "set --unlabeled to 1"),
        (("--unlabeled", "20"), "choose the semi protocol"),
        (("--protocol", "semi", "--unlabeled", "0"), "set --unlabeled to 1"),
        (("--alpha", "1"), "choose the dirichlet protocol"),
        (("--episodes", "0"), "a whole number from 1"),
        (("--format", "html"), "table format"),
        (("--device", "gpu"), "there is no device 'gpu': give cpu, cuda, cuda:N or auto"),
        (("--base", "nowhere.npz"), "no feature file"),
        (("--method", "no.module:f"), "cannot be imported"),
        (("--method", ":"), "write module:function; the module is missing"),
        (("--method", "os:"), "write module:function; the function is missing"),
        (("--method", "nomod:f"), "run in the folder of nomod.py, or add it to PYTHONPATH"),
        (("--method", "CIPA"), "did you mean 'cipa'"),
        (("--method", "none"), "there is no method 'none': choose from alpha_am, "),
        (("--method", "protonet;cipa"), "separate methods by commas"),
        (("--method", "builtins:dict"), "has no readable signature: a method is a function of Episodes"),
        (("--method", "os:getcwd"), "it must take episodes and return (E, Q, W) probabilities"),
        (("--set", "n_iter=1000000000"), "n_iter"),
        (("--set", "tau={[]:1}"), "it must be a number from"),
        (("--episodes", "1000000000000"), "to 100,000,000"),
        (("--device", "meta"), "there is no device 'meta'"),
        (("--set", "tau=1", "--set", "tau=2"), "the setting 'tau' is given twice"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(features, tmp_path, words, said):
    done = run("evaluate", features, "--episodes", 3, *words, "--json", tmp_path / "out" / "r.json")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_inputs_are_never_overwritten(features):
    before = features.read_bytes()
    done = run("evaluate", features, "--episodes", 3, "--json", features)
    assert done.returncode == 2
    assert "is also read" in done.stderr
    assert features.read_bytes() == before


def test_a_users_method_that_fails_is_told_where(features, tmp_path):
    (tmp_path / "mine.py").write_text("def f(episodes):\n    return {}['x']\n")
    done = run("evaluate", features, "--method", "mine:f", "--episodes", 3, cwd=tmp_path)
    assert done.returncode == 2
    assert "KeyError: 'x' (mine.py, line 2)" in done.stderr


def test_bad_files_are_one_sentence(tmp_path):
    np.savez(
        tmp_path / "neg.npz",
        features=np.random.default_rng(0).normal(size=(200, 4)),
        labels=np.repeat(np.arange(5), 40),
    )
    np.savez(tmp_path / "short.npz", features=np.ones((200, 4)), labels=np.repeat(np.arange(5), 39))
    np.savez(tmp_path / "rowless.npz", features=np.ones((0, 4)), labels=np.ones(0, int))
    np.savez(tmp_path / "objects.npz", features=np.array([{}, {}]), labels=np.arange(2))
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "cut.npz").write_bytes((tmp_path / "neg.npz").read_bytes()[:300])
    for name, said in (
        ("neg", "power=signed"),
        ("short", "one label per row"),
        ("cut", "truncated"),
        ("none", "no feature file"),
        ("rowless", "has no rows"),
        ("objects", "features hold Python objects: save a numeric array"),
        ("folder", "is a folder: give a feature file"),
    ):
        done = run("evaluate", tmp_path / f"{name}.npz", "--episodes", 5)
        assert done.returncode == 2, name
        assert said in done.stderr
        assert "Traceback" not in done.stderr


def test_a_base_of_another_dimension_is_refused(features, tmp_path):
    np.savez(tmp_path / "base.npz", features=np.ones((4, 8)), labels=np.arange(4))
    done = run("evaluate", features, "--base", tmp_path / "base.npz", "--episodes", 3)
    assert done.returncode == 2
    assert "'base.npz' has 8 dimensions and the features have 64" in done.stderr


def test_seeds_beyond_the_largest_name_both_options(features):
    done = run("compare", features, "--episodes", 3, "--seed", 2**32 - 1, "--seeds", 2)
    assert done.returncode == 2
    assert "--seed 4294967295 with --seeds 2" in done.stderr


def test_a_report_is_made_of_results(features, tmp_path):
    (tmp_path / "other.json").write_text("{}")
    for file, problem in ((tmp_path / "other.json", "is not a result"), (features, "truncated or not JSON")):
        done = run("report", file, cwd=tmp_path)
        assert done.returncode == 2
        assert problem in done.stderr
        assert "`evaluate --json` or `compare --json`" in done.stderr


def test_one_episode_has_no_interval(features):
    printed = run("evaluate", features, "--episodes", 1).stdout
    assert "1 episode," in printed
    assert "±" not in printed


def test_what_compare_reads_in_its_own_way_is_noted(features, tmp_path):
    save_features(tmp_path / "g.safetensors", synthetic_features(classes=8, rows=40, dim=16))
    words = ("--methods", "protonet,protonet", "--episodes", 2)
    done = run("compare", features, tmp_path / "g.safetensors", *words)
    assert (done.returncode, done.stderr.count("note: ")) == (0, 2)
    assert "features of 16 and 64 dimensions" in done.stderr


def test_zero_and_duplicate_rows_are_answered(tmp_path):
    """Five classes of forty equal rows, one of them zero: only the zero row can be named wrongly."""
    rows = np.repeat(np.eye(5, 8), 40, axis=0)
    rows[::40] = 0
    np.savez(tmp_path / "f.npz", features=rows, labels=np.repeat(np.arange(5), 40))
    names = ["protonet", "cipa", "pt_map", "soft_kmeans"]
    words = ("--methods", ",".join(names), "--shot", 5, "--episodes", 20, "--json", tmp_path / "r.json")
    done = run("compare", tmp_path / "f.npz", *words)
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [result["method"] for result in results] == names
    for result in results:
        assert 93 <= result["accuracy"] <= 100, result["method"]  # at most 5 of 75 queries are zero rows
        assert f"{result['accuracy']:.2f}" in done.stdout


def test_methods_prints_every_setting_with_default_meaning_and_range():
    from protoadapt import METHODS
    from protoadapt.core.methods.settings import declarations

    blocks = run("methods").stdout.split("\n\n")
    shown = {block.split("\n")[0]: " ".join(block.split()) for block in blocks if block.strip()}
    assert list(shown) == list(METHODS)
    for name, function in METHODS.items():
        for setting in declarations(function).values():
            assert f" {setting.name}=" in shown[name]
            assert f"{setting.setting.help} ({setting.range})" in shown[name]
    assert "sigma=0.2: step size" in shown["cipa"]
    assert "(a number from 0 to 1)" in shown["cipa"]
    assert "l2=true:" in shown["cipa"]
    assert " ".join(run("methods", "cipa").stdout.split()) == shown["cipa"]
    assert "did you mean 'cipa'" in run("methods", "cipi").stderr


def test_a_users_own_method_is_described_too(tmp_path):
    (tmp_path / "mine.py").write_text("def f(episodes, *, tau, sharp: bool = False):\n    'Sharp prototypes.'\n")
    shown = run("methods", "mine:f", cwd=tmp_path).stdout.split()
    assert " ".join(shown) == "mine:f Sharp prototypes. tau=VALUE: sharp=false: (true or false)"


def test_version():
    from protoadapt import __version__ as VERSION

    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"protoadapt {VERSION}\n")


def test_all_methods_without_a_base_mean_are_those_that_need_none(tmp_path, monkeypatch):
    from protoadapt import METHODS
    from protoadapt.core.methods import NEED_BASE_MEAN

    for name in STEPS:  # two steps suffice: who runs is the question here
        monkeypatch.setitem(METHODS, name, partial(METHODS[name], **shortened(name, 2)))
    bare = tmp_path / "bare.npz"
    rows = synthetic_features(classes=6, rows=12)
    np.savez(bare, features=rows.features.numpy(), labels=rows.labels.numpy())
    words = ("--methods", "all", "--episodes", 1, "--query", 2, "--way", 3, "--format", "csv")
    done = run("compare", bare, *words)
    assert done.returncode == 0, done.stderr
    shown = {row["method"] for row in csv.DictReader(io.StringIO(done.stdout))}
    assert shown == set(METHODS) - NEED_BASE_MEAN
    assert all(name in done.stderr for name in NEED_BASE_MEAN)
    named = run("compare", bare, "--methods", "protonet,simpleshot", "--episodes", 1, "--query", 2, "--way", 3)
    assert (named.returncode, "--base FILE" in named.stderr) == (2, True)


def test_a_method_of_ones_own_lies_in_the_current_folder(features, tmp_path):
    """And what lies beside it is imported for it alone, not in place of a package."""
    (tmp_path / "helper_of_mine.py").write_text("from protoadapt.core.methods.protonet import protonet as nearest\n")
    (tmp_path / "my_method.py").write_text("from helper_of_mine import nearest\n")
    (tmp_path / "sklearn.py").write_text("raise SystemExit('this must not run')\n")
    done = run("evaluate", features, "--method", "my_method:nearest", "--episodes", 20, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5-way 1-shot" in done.stdout


def test_a_terminal_of_ascii_only(features):
    """The table has ± in it: it must not end in a traceback, whatever the terminal knows."""
    done = run("evaluate", features, "--method", "protonet", "--episodes", "20", encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert r"\xb1" in done.stdout


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried …"),
        ImportError("lib.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_machine_out_of_memory_is_a_sentence(error, capsys):
    def short():
        raise error

    with pytest.raises(SystemExit) as ended:
        main(short)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: there is not enough memory")


def test_other_errors_stay_what_they_are():
    def wrong():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        main(wrong)


def test_a_warning_of_ours_is_a_note_and_another_says_where_it_comes_from():
    run("--version")
    ours = warnings.formatwarning("a piece is broken", UserWarning, protoadapt.__file__, 7)
    assert ours == "note: a piece is broken\n"
    assert warnings.formatwarning("old", UserWarning, "/x/torch.py", 7) == "/x/torch.py:7: UserWarning: old\n"
    assert "7: FutureWarning: old" in warnings.formatwarning("old", FutureWarning, protoadapt.__file__, 7)
