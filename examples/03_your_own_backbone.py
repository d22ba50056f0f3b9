"""Your own network: any torch module that turns pictures into rows of numbers.

    python examples/03_your_own_backbone.py

Here a network that learned from photographs of things names characters, of which it never saw one.
"""

import torch

from protoadapt import Features, Protocol, compare, load_features, save_features
from protoadapt.training.datasets import load_images
from protoadapt.vision import networks
from protoadapt.vision.embed import embed

# Put yours here. It takes (B, 3, size, size) floats and returns (B, D); `about` says how to make the floats: the side
# of the pictures, and the mean and deviation of their colours in [0, 1], as in training.
network, metadata = networks.load("cifar-fs")
about = {"size": metadata["size"], "mean": metadata["mean"], "std": metadata["std"]}

# Your own pictures in class folders are load_images("folder", "all", "pictures", size=about["size"]).
images = load_images("glyphs", "novel", per_class=20, size=about["size"])
few = images.labels < 6  # six classes, so that it takes seconds
rows = embed(network, about, images.pixels[few])
labels = torch.from_numpy(images.labels[few])

# A feature file is what every command takes: protoadapt compare glyphs.safetensors --methods protonet,cipa,bapa
save_features("glyphs.safetensors", Features(rows, labels, metadata={"dataset": "glyphs", "backbone": "mine"}))
table = load_features("glyphs.safetensors")

# CIPA as published wants features after a ReLU; power=auto takes any.
methods = ["protonet", "cipa(power=auto)", "bapa"]
for result in compare(table.features, table.labels, methods, Protocol(shot=5), episodes=500):
    print(f"{result.method.label:18} {result.accuracy:.1f} ± {result.ci95:.1f} % right (chance: 20 %)")
