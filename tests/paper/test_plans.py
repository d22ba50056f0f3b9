"""The tables as data: consistent with each other, with the recipes, and with what the paper says twice."""

import pytest
import torch

from benchmarks.synthetic import synthetic_features
from paper import networks
from paper.cub_plans import FULL, SMALL, SMALL_FILES
from paper.main_plans import learned
from paper.quoted import CIPA_SWITCHES, LITERATURE, TRAINING, paper_accuracy
from paper.rivals import BY_NAME, planned_method
from paper.tables import ARENA, MAIN, SLOW, TABLES
from protoadapt.core.episodes import draw
from protoadapt.core.methods import METHODS, method
from protoadapt.core.protocol import NEED_BASE_MEAN, Protocol

TRIALS = [trial for table in TABLES.values() for trial in table.trials]


def config(run):
    return networks.config_of(run, networks.Work({}))


def test_a_file_has_one_meaning_in_all_tables():
    meaning = {}
    for trial in TRIALS:
        for shot in trial.shots:
            seen = (trial.dataset, trial.split, trial.copy, trial.crop, trial.views, trial.protocol(shot))
            seen = (*seen, trial.methods, trial.slow)
            assert meaning.setdefault(trial.file(shot), seen) == seen


def test_a_name_is_one_network_whose_recipe_builds():
    names = {}
    runs = {part.run for table in TABLES.values() for part in table.parts if not part.run.parts}
    for run in runs:
        assert names.setdefault(run.name, run) == run
        assert config(run).epochs >= 1
    assert names.keys() >= {"cifar-fs", "fc100", "mini-imagenet", "cub-box", "tiered-imagenet"}


def test_networks_are_tested_on_what_they_were_trained_on():
    for trial in TRIALS:
        for run in trial.run.parts or [trial.run]:
            own_config, cross = config(run), trial.stem.startswith("cub-")
            assert cross == (trial.dataset != own_config.dataset)
            assert cross or trial.crop == own_config.crop


def test_statistics_of_base_classes_are_of_what_the_network_was_trained_on():
    for trial in TRIALS:
        for run in trial.run.parts or [trial.run]:
            own, base = config(run), trial.base_classes
            needs = any(planned_method(spec).name in NEED_BASE_MEAN for spec in trial.specs)
            assert not needs or (base.split, base.dataset, base.crop) == ("base", own.dataset, own.crop)


def test_the_headline_rows_are_hct_r_alone_with_one_view():
    for _, trial in MAIN.values():
        assert (learned(trial.run), trial.views, trial.pooling) == ("HCT_R", 1, 1.0)
        assert set(config(trial.run).phases[-1].weights) == {"ce", "rotation", "hct"}
    beyond = [row for row in TABLES["main"].rows if row.trial not in {trial for _, trial in MAIN.values()}]
    assert all(row.trial.views > 1 or row.words[1] != "HCT_R" for row in beyond)


def test_every_method_of_every_plan_is_known():
    for trial in TRIALS:
        for spec in trial.specs:
            planned_method(spec)
    every = {planned_method(spec).name for t in TABLES["inference"].trials for spec in t.specs}
    assert every | set(ARENA) == METHODS.keys() | BY_NAME.keys()
    assert not every & set(ARENA)
    assert set(SLOW) < every


@pytest.mark.parametrize("data", ["mini-ImageNet", "CUB", "CIFAR-FS"])
def test_rows_of_an_ablation_have_one_budget(data):
    """They differ in what is learned, in α and in the seed, and in nothing else."""
    rows = [row for row in TABLES["hct_ablation"].rows if row.words[0].startswith(data)]
    configs = [config(row.trial.run).to_dict() for row in rows]
    assert len({str({k: v for k, v in c.items() if k not in ("phases", "alpha", "seed")}) for c in configs}) == 1
    assert {config(row.trial.run).alpha for row in rows if row.words[2]} <= {0.5, 1.0, 2.0}
    for row in rows:
        assert not row.words[2] or float(row.words[2]) == config(row.trial.run).alpha


def test_differences_are_between_measured_rows_of_the_same_episodes():
    every = {trial: trial.methods for trial in TRIALS}
    for difference in (difference for table in TABLES.values() for difference in table.differences):
        (one, spec), (other, minus) = difference.one, difference.other
        assert spec in every[one]
        assert minus in every[other]
        assert (one, spec) != (other, minus)
        assert one.dataset == other.dataset
        assert one.split == other.split == "novel"
        assert [one.protocol(shot) for shot in one.shots] == [other.protocol(shot) for shot in other.shots]


def test_networks_from_small_files_differ_in_the_files_alone():
    for files in SMALL_FILES.values():
        full, small = files[FULL, FULL].run, files["84 px", "84 px"].run
        assert config(full) == config(small)
        assert (full.copy, small.copy) == ("", SMALL)
        for (trained_on, tested_on), trial in files.items():
            assert (trial.run.copy == SMALL, trial.copy == SMALL) == (trained_on == "84 px", tested_on == "84 px")


def test_what_the_paper_says_twice_agrees():
    protonet, _, cipa = TRAINING["mini-ImageNet"]["hct_r", 2.0]
    assert CIPA_SWITCHES["(a)"][2] == protonet
    assert CIPA_SWITCHES["(g)"][2] == cipa
    assert all(rows[-1].method == "HCT_R + CIPA" for rows in LITERATURE.values())
    assert paper_accuracy("mini-ImageNet → CUB") == (62.15, 74.25)
    for rows in LITERATURE.values():
        assert all(20 < one < five < 100 for one, five in (row.accuracy for row in rows))
    for rows in TRAINING.values():
        assert all(pn[0] < semi[0] < cipa[0] for pn, semi, cipa in rows.values())


def test_the_switches_are_the_papers():
    """(a) is cosine ProtoNet on raw rows; at one shot (b) and (c) are equal, as cosine forces; (g) is CIPA."""
    table = synthetic_features(classes=8, rows=30)
    for shot in (1, 5):
        drawn = next(draw(table.labels.numpy(), Protocol(shot=shot), 0, 20))
        episodes = drawn.episodes(table.features, 5)
        answers = {letter: method(spec)(episodes) for letter, (_, spec, _) in CIPA_SWITCHES.items()}
        torch.testing.assert_close(answers["(a)"], METHODS["protonet"](episodes))
        torch.testing.assert_close(answers["(g)"], METHODS["cipa"](episodes))
        same = torch.allclose(answers["(b)"], answers["(c)"], atol=1e-5)
        assert same == (shot == 1)
        kinds = [answers[f"({c})"] for c in "abdefg"]
        assert all(not torch.allclose(x, y) for i, x in enumerate(kinds) for y in kinds[:i])
