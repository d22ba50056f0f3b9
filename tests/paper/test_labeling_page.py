"""The numbers of docs/labeling.md, and its chart."""

from PIL import Image

from paper.labeling_page import check_numbers, draw_suggest, suggest_numbers


def curves(strategy: str, start: str, test: list[float]) -> dict:
    gain = {"test_gain": [0.0, 1.0, 2.25, 3.0], "test_gain_ci95": [0.0, 0.5, 0.75, 1.0]}
    return {"dataset": "cub", "start": start, "strategy": strategy, "test": test, **gain}


def test_gains_are_those_of_two_labels(tmp_path):
    rows = [curves(s, start, [50.0, 60.0, 70.125, 80.0]) for start in ("one", "none") for s in ("random", "suggest")]
    record = {"way": 10, "splits": 12, "labels_per_class": [0, 1, 2, 3], "rows": rows}
    text = suggest_numbers(record)
    assert "| CUB, from one label per class | 70.1 | 70.1 | +2.2 ± 0.8 |" in text
    assert "| CUB, from nothing |" in text
    draw_suggest(record, tmp_path / "chart.png")
    with Image.open(tmp_path / "chart.png") as chart:
        assert chart.size == (330, 308)


def test_faults_found():
    row = {"dataset": "cub", "pictures": 2363, "classes": 40, "method": "cleanlab", "precision": 0.333, "recall": 0.777}
    record = {
        "flipped": 0.05,
        "splits": 3,
        "versions": {"cleanlab": "2.9.0"},
        "rows": [row | {"average_precision": 0.9}],
    }
    record |= {"processor_seconds_10000": 5.4, "seconds_10000": 26.4, "hardware": "2 cores"}
    text = check_numbers(record)
    assert "| CUB, 2,363 pictures of 40 classes | cleanlab | 33 % | 78 % | 90 % |" in text
    assert "take 5.4 s of processor time (2 cores; 26 s by the clock" in text
