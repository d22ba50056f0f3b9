"""The numbers of docs/scale.md: what follows from the measured rates, and what is said when something went wrong."""

from paper.scale_page import numbers

CPU = {"hardware": "2 cores", "extract": 40.0, "share": 0.8, "network": 50.0, "decoding_per_core": 500.0, "cores": 2}
GPU = {"hardware": "one GPU", "cores": 10, "network": 4000.0, "decoding_per_core": 250.0, "extract_steady": 2000.0}


def row(text: str, first: str) -> list[str]:
    found = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_more_gpus_are_one_multiplied():
    text = numbers({"hardware": "2 cores", "extract": CPU, "extract-cuda": GPU})
    assert row(text, "1") == ["1", "10", "2,000", "8 min", "83 min", "13.9 h"]
    assert row(text, "8") == ["8", "80", "16,000", "62 s", "10 min", "1.7 h"]
    assert row(text, "64") == ["64", "640", "128,000", "8 s", "78 s", "13 min"]
    assert "50 % of the network alone" in text
    assert "2,500/s in all: decoding limits" in text
    assert "a GPU reads 80 MB/s" in text
    assert "the network limits" in numbers({"hardware": "2 cores", "extract": CPU, "extract-cuda": GPU | {"cores": 20}})


def test_only_what_was_measured_is_told():
    text = numbers({"hardware": "2 cores", "extract": CPU})
    assert "80 % of the network alone" in text
    assert "GPU" not in text
