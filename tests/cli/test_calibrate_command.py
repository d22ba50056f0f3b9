"""`calibrate`: a card is filled, and every mistake is one sentence that changes nothing."""

import json

import pytest

from protoadapt import Features, UserError, save_features
from protoadapt.cli.calibrate_command import calibrate_command as command
from protoadapt.core.features import synthetic_features
from protoadapt.vision.networks import cards

TABLE = synthetic_features(classes=12, rows=40, dim=32, spread=0.6)


def test_the_command_fills_a_card_and_touches_nothing_else(tmp_path, capsys):
    file, card, notes = (tmp_path / name for name in ("val.safetensors", "mine.json", "notes.json"))
    save_features(file, Features(TABLE.features, TABLE.labels, metadata={"weights": "ab" * 8, "dataset": "clouds"}))
    command([file], card, episodes=4)
    result = json.loads(card.read_text())
    assert cards.of_card(card.with_suffix(".onnx"), "ab" * 8, None)["calibration"] == result["calibration"]
    assert "calibrated on clouds" in capsys.readouterr().out
    card.write_text(json.dumps({**result, "licence": "mine", "calibration": None}))
    command([file], card, episodes=4)
    again = json.loads(card.read_text())
    assert again == result | {"licence": "mine"}
    notes.write_text('{"mine": 1}')
    for name, odd in (
        ("views", {"views": 8}),
        ("pooling", {"pooling": 2.0}),
        ("base", {"split": "base", "trained_on": "clouds"}),
    ):
        about = {"weights": "ab" * 8, "dataset": "clouds", **odd}
        save_features(tmp_path / f"{name}.safetensors", Features(TABLE.features, TABLE.labels, metadata=about))
    save_features(tmp_path / "bare.safetensors", TABLE)
    card.write_text(json.dumps({**result, "weights": "other"}))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for words, said in (
        ((file, card), "extract them again"),
        ((file, tmp_path / "card.txt"), r"end the name in \.json"),
        ((file, notes), "left as is"),
        ((tmp_path / "bare.safetensors", tmp_path / "new.json"), "which weights made it"),
        ((tmp_path / "none.npz", tmp_path / "new.json"), "no feature file"),
        ((tmp_path / "views.safetensors", tmp_path / "new.json"), "made with --views"),
        ((tmp_path / "pooling.safetensors", tmp_path / "new.json"), "made with --pooling"),
        ((tmp_path / "base.safetensors", tmp_path / "new.json"), "that the network was trained on"),
    ):
        with pytest.raises(UserError, match=said):
            command([words[0]], words[1])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
