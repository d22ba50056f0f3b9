"""The numbers of docs/labeling.md, and its chart."""

from PIL import Image

from paper.labeling_page import draw_suggest, suggest_numbers


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
