"""`evaluate`, `compare` and `methods` as a user meets them: words, exit codes, and what is left on disk."""

import json

import numpy as np
import pytest
from helpers.command import answered, refused, run
from helpers.label_files import rows_of

from benchmarks.synthetic import synthetic_features
from protoadapt import METHODS, save_features
from protoadapt.core.methods.settings import declarations
from protoadapt.core.results import compare_runs, read_results, right_answers


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    file = tmp_path_factory.mktemp("features") / "f.safetensors"
    save_features(file, synthetic_features(classes=8, rows=40))
    return file


def test_evaluate_prints_a_table_and_writes_json(features, tmp_path):
    words = ("--method", "cipa", "--episodes", 50, "--set", "tau=15", "--json", tmp_path / "r.json")
    printed = answered("evaluate", features, *words)
    assert "5-way 1-shot" in printed
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["arguments"]["tau"] == 15
    assert f"{result['accuracy']:.2f} ± {result['ci95']:.2f}" in printed
    one = answered("evaluate", features, "--episodes", 1)
    assert "1 episode," in one
    assert "±" not in one, "one episode has no interval"


def test_compare_gives_paired_differences(features, tmp_path):
    words = ("compare", features, "--methods", "protonet,cipa(sigma=1, tau=5)", "--episodes", 50)
    printed = answered(*words, "--format", "csv", "--json", tmp_path / "r.json")
    rows = rows_of(printed)
    assert [row["method"] for row in rows] == ["protonet", "cipa(sigma=1, tau=5)"]
    first, second = (right_answers(r) for r in read_results(json.loads((tmp_path / "r.json").read_text())))
    assert float(rows[1]["minus protonet"]) == pytest.approx(100 * (second - first).mean() / 75, abs=1e-4)


def test_several_files_are_runs_and_every_format_has_their_numbers(tmp_path):
    """The numbers themselves are tested with `compare_runs`."""
    files = [tmp_path / f"{seed}.safetensors" for seed in range(2)]
    for seed, file in enumerate(files):
        save_features(file, synthetic_features(classes=8, rows=20, seed=seed))
    words = ("--methods", "protonet,cipa,soft_kmeans", "--episodes", 40, "--query", 5)
    printed = answered("compare", *files, *words, "--format", "csv", "--json", tmp_path / "r.json")
    table = {row["method"]: row for row in rows_of(printed)}
    runs = compare_runs(read_results(json.loads((tmp_path / "r.json").read_text())), "protonet")
    for summary in runs:
        row = table[summary.pop("label")]
        assert {key: float(row[key]) for key in summary} == pytest.approx(summary, rel=1e-3, abs=1e-4)
    for form in ("text", "markdown", "latex"):
        shown = answered("compare", *files, *words, "--format", form)
        assert "40 episodes per run" in shown
        assert "; 2 runs" in shown
        assert all(f"{float(row['accuracy']):.2f}" in shown for row in table.values())
        assert f"{float(table['cipa']['difference']):+.2f}" in shown
    (tmp_path / "copy.safetensors").write_bytes(files[0].read_bytes())
    assert "one result per seed and feature file" in refused("compare", files[0], tmp_path / "copy.safetensors", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shot", "30"), "lower --shot"),
        (("--method", "cipi"), "did you mean 'cipa'"),
        (("--method", "none"), "there is no method 'none': choose from "),
        (("--method", "no.module:f"), "cannot be imported"),
        (("--method", "math:no"), "cannot be imported: AttributeError"),
        (("--method", "nomod:f"), "run in the module's folder or add that to PYTHONPATH"),
        (("--method", "protonet;cipa"), "separate methods by commas"),
        (("--method", "ci pa"), "is not a method"),
        (("--method", "os:getcwd"), "getcwd is not a function of episodes, which returns (E, Q, W) probabilities"),
        (("--set", "tua=1"), "cipa has no setting 'tua': did you mean 'tau'"),
        (("--set", "tau"), "name=value"),
        (("--set", "tau=hot"), "tau is 'hot': it must be a number from"),
        (("--set", "n_iter=2.5"), "n_iter is 2.5: it must be a whole number from 0 to 100,000"),
        (("--set", "tau=1", "--set", "tau=2"), "the setting 'tau' is given twice"),
        (("--protocol", "odd"), "choose balanced"),
        (("--unlabeled", "20"), "choose the semi protocol"),
        (("--alpha", "1"), "choose the dirichlet protocol"),
        (("--episodes", "0"), "a whole number from 1"),
        (("--format", "html"), "table format"),
        (("--device", "gpu"), "device is 'gpu', on which torch cannot compute here: give cpu"),
        (("--device", "meta"), "device is 'meta', on which torch cannot"),
        (("--base", "nowhere.npz"), "no feature file"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path, words, said):
    table = synthetic_features(classes=8, rows=40)
    np.savez(tmp_path / "f.npz", features=table.features.numpy(), labels=table.labels.numpy())
    assert said in refused(
        "evaluate", tmp_path / "f.npz", "--episodes", 3, *words, "--json", tmp_path / "out" / "r.json"
    )
    assert not (tmp_path / "out").exists()


def test_what_is_close_to_right_leads_on(features, tmp_path):
    said = refused("compare", features, "--methods", "protonet", "cipa", "bapa")
    assert "'cipa' is a method, not a file: separate methods by commas, --methods protonet,cipa,bapa" in said
    for name in ("rows.npy", "rows.pt", "rows.pkl"):
        (tmp_path / name).write_bytes(b"rows")
        assert "write numpy.savez('rows.npz', features=features, labels=labels)" in refused("evaluate", tmp_path / name)
    assert "give --dataset with one of cifar-fs, fc100, mini-imagenet, " in refused("data")


def test_inputs_are_never_overwritten(features):
    before = features.read_bytes()
    assert "is also read" in refused("evaluate", features, "--episodes", 3, "--json", features)
    assert features.read_bytes() == before


def test_base_classes_of_another_network_are_refused(tmp_path, features):
    np.savez(tmp_path / "base.npz", features=np.ones((4, 8)), labels=np.arange(4))
    said = refused("evaluate", features, "--base", tmp_path / "base.npz", "--episodes", 3)
    assert "of different numbers of dimensions (8 and 64)" in said


def test_a_users_own_method_lies_in_the_current_folder(features, tmp_path):
    """And what lies beside it is imported for it alone, not in place of a package."""
    (tmp_path / "helper_of_mine.py").write_text("from protoadapt import METHODS\nnearest = METHODS['protonet']\n")
    (tmp_path / "mine.py").write_text(
        "from helper_of_mine import nearest\n"
        "def sharp(episodes, *, tau=50.0, flat: bool = False):\n"
        "    'Sharp prototypes.'\n"
        "    return nearest(episodes, tau=tau)\n"
        "def wrong(episodes):\n"
        "    return {}['x']\n"
    )
    (tmp_path / "sklearn.py").write_text("raise SystemExit('this must not run')\n")
    words = ("evaluate", features, "--episodes", 20, "--method")
    assert "mine:sharp(tau=20)" in answered(*words, "mine:sharp", "--set", "tau=20", cwd=tmp_path)
    assert "KeyError: 'x' (mine.py, line 6)" in refused(*words, "mine:wrong", cwd=tmp_path)
    shown = " ".join(answered("methods", "mine:sharp", cwd=tmp_path).split())
    assert shown == "mine:sharp Sharp prototypes. tau=50.0: flat=false: (true or false)"


def test_methods_prints_every_setting_with_default_meaning_and_range():
    blocks = answered("methods").split("\n\n")
    shown = {block.split("\n")[0]: " ".join(block.split()) for block in blocks if block.strip()}
    assert list(shown) == list(METHODS)
    for name, function in METHODS.items():
        for setting in declarations(function).values():
            assert f" {setting.name}=" in shown[name]
            assert f"{setting.help} ({setting.range})" in shown[name]
    assert "sigma=0.2: step size" in shown["cipa"]
    assert "(a number from 0 to 1)" in shown["cipa"]
    assert " ".join(answered("methods", "cipa").split()) == shown["cipa"]
    assert "did you mean 'cipa'" in refused("methods", "cipi")


def test_a_terminal_of_ascii_only(features):
    """The table has ± in it: it must not end in a traceback, whatever the terminal knows."""
    done = run("evaluate", features, "--method", "protonet", "--episodes", "20", encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert r"\xb1" in done.stdout


def test_signed_features_need_no_setting(tmp_path):
    rows = np.random.default_rng(0).normal(size=(160, 8))
    np.savez(tmp_path / "signed.npz", features=rows, labels=np.arange(160) % 8)
    done = run("compare", tmp_path / "signed.npz", "--episodes", 3)
    assert done.returncode == 0, done.stderr
    assert "pt_map(power=auto)" in done.stdout
    assert "set power=auto" in refused("evaluate", tmp_path / "signed.npz", "--episodes", 3, "--set", "power=strict")
