"""The numbers of docs/scale.md follow from the measured rates, and only what was measured is said."""

from paper.scale_page import numbers

CPU = {"hardware": "2 cores", "extract": 40.0, "share": 0.8, "network": 50.0, "decoding_per_core": 500.0, "cores": 2}
GPU = {"hardware": "one GPU", "cores": 10, "network": 4000.0, "decoding_per_core": 250.0, "extract_steady": 2000.0}


def test_what_limits_a_gpu_is_said():
    text = numbers({"hardware": "2 cores", "extract": CPU, "extract-cuda": GPU})
    assert "50 % of the network alone" in text
    assert "2,500/s in all: decoding limits; 2.0 times as many cores" in text
    assert "a GPU reads 80 MB/s" in text
    assert "the network limits." in numbers({"hardware": "", "extract": CPU, "extract-cuda": GPU | {"cores": 20}})
    alone = numbers({"hardware": "2 cores", "extract": CPU})
    assert "80 % of the network alone" in alone
    assert "GPU" not in alone
