"""`compare` over several feature files and seeds: one table, with Holm's correction."""

import csv
import io
import json
import math

import numpy as np
import pytest
from helpers.command import run

from protoadapt import save_features
from protoadapt.core.features import synthetic_features
from protoadapt.core.results import read_results, right_answers

METHODS = "protonet,cipa,soft_kmeans"
WORDS = ("--methods", METHODS, "--episodes", 40, "--query", 5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    for seed in range(2):
        save_features(folder / f"{seed}.safetensors", synthetic_features(classes=8, rows=20, seed=seed))
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def compared(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "r.json"
    done = run("compare", *files, *WORDS, "--seed", 3, "--seeds", 2, "--format", "csv", "--json", out)
    assert (done.returncode, done.stderr) == (0, "")
    return {row["method"]: row for row in csv.DictReader(io.StringIO(done.stdout))}, json.loads(out.read_text())


def test_every_method_runs_on_every_file_with_every_seed(compared, files):
    results = read_results(compared[1])
    runs = {(r["label"], r["features"]["hash"], r["seed"]) for r in results}
    assert len(runs) == len(results) == 3 * 2 * 2
    assert {r["seed"] for r in results} == {3, 4}
    alone = run("compare", files[1], *WORDS, "--seed", 4, "--format", "csv").stdout
    for row in csv.DictReader(io.StringIO(alone)):  # each run is the one that the command alone gives
        (same,) = [r for r in results[-3:] if r["label"] == row["method"]]
        assert f"{same['accuracy']:.4f}" == row["accuracy"]


def test_numbers_follow_from_the_answers(compared):
    """Means, spreads, paired differences and p-values, from the right answers with numpy alone."""
    table, document = compared
    answers = {}  # method → (runs, episodes) accuracies
    for result in read_results(document):
        answers.setdefault(result["label"], []).append(100 * right_answers(result) / 25)
    answers = {label: np.array(rows) for label, rows in answers.items()}
    plain = {}
    for label, row in table.items():
        means = answers[label].mean(1)
        assert float(row["accuracy"]) == pytest.approx(means.mean(), abs=1e-4)
        assert float(row["spread"]) == pytest.approx(means.std(ddof=1), abs=1e-4)
        if label == "protonet":
            assert row["minus protonet"] == row["p Holm"] == ""
            continue
        difference = answers[label] - answers["protonet"]
        error = math.sqrt((difference.var(1, ddof=1) / 40).sum()) / 4
        assert float(row["minus protonet"]) == pytest.approx(difference.mean(), abs=1e-4)
        assert float(row["minus protonet ci95"]) == pytest.approx(1.96 * error, abs=1e-4)
        plain[label] = math.erfc(abs(difference.mean()) / error / math.sqrt(2))
        assert float(row["p"]) == pytest.approx(plain[label], rel=1e-3)
    (first, low), (second, high) = sorted(plain.items(), key=lambda item: item[1])
    assert float(table[first]["p Holm"]) == pytest.approx(min(1, 2 * low), rel=1e-3)
    assert float(table[second]["p Holm"]) == pytest.approx(min(1, max(2 * low, high)), rel=1e-3)


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_people_see_means_spread_difference_and_p(compared, files, form):
    table, _ = compared
    shown = run("compare", *files, *WORDS, "--seed", 3, "--seeds", 2, "--format", form).stdout
    assert "4 runs: 2 feature files × 2 seeds" in shown
    assert "5-way 1-shot" in shown
    assert "40 episodes per run" in shown
    for row in table.values():
        assert f"{float(row['accuracy']):.2f}" in shown
        assert f"{float(row['spread']):.2f}" in shown
    for row in [row for row in table.values() if row["p"]]:
        assert f"{float(row['minus protonet']):+.2f}" in shown
        assert "< 0.001" in shown if float(row["p Holm"]) < 0.001 else f"{float(row['p Holm']):.3f}" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", 0), "--seeds is 0"),
        (("--seeds", 2, "--reference", "bapa"), "is not among the methods"),
        (("--base", "nowhere.npz"), "no feature file"),
    ],
)
def test_mistakes_are_one_sentence(files, words, said):
    done = run("compare", *files, *WORDS, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_same_features_twice_are_no_two_runs(files, tmp_path):
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(files[0].read_bytes())
    for twice in (copy, files[0]):
        done = run("compare", files[0], twice, *WORDS)
        assert (done.returncode, "the same features" in done.stderr) == (2, True)
    assert run("compare", files[0], "--methods", "protonet,protonet", *WORDS[2:]).stdout.count("protonet") == 1
