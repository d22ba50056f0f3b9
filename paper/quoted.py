"""The paper's own numbers, and those of the literature that it quotes: 5-way, in percent, 95 % intervals where given.

Ye, Lin, Burachas, Divakaran, Yao: Hybrid Consistency Training with Prototype Adaptation for Few-Shot Learning (2020).
"""

from typing import NamedTuple

Pair = tuple[float | None, float | None]
"""1-shot, 5-shot."""


class Quoted(NamedTuple):
    setting: str
    method: str
    backbone: str
    accuracy: Pair
    ci95: Pair = (None, None)
    via: str = ""  # source that the paper quotes, if not the authors
    digits: int = 2  # after the point, as published


IN, TRANS = "inductive", "transductive"
LEE, WANG, TSENG = "Lee et al. 2019", "Wang et al. 2020", "Tseng et al. 2020"

# Tables 1 to 4. The last row of each is the paper's: 10,000 episodes, 600 for mini-ImageNet → CUB.
LITERATURE: dict[str, tuple[Quoted, ...]] = {
    "mini-ImageNet": (
        Quoted(IN, "TADAM", "ResNet-12", (58.50, 76.70), (0.30, 0.30)),
        Quoted(IN, "ProtoNet", "ResNet-12", (59.25, 75.60), (0.64, 0.48), LEE),
        Quoted(IN, "MetaOptNet-SVM", "ResNet-12", (62.64, 78.63), (0.61, 0.46)),
        Quoted(IN, "SNAIL", "ResNet-15", (55.71, 68.88), (0.99, 0.92)),
        Quoted(IN, "SimpleShot", "ResNet-18", (62.85, 80.02), (0.20, 0.14)),
        Quoted(IN, "DeepEMD", "ResNet-12", (65.91, 82.41), (0.82, 0.56)),
        Quoted(IN, "LEO", "WRN-28-10", (61.76, 77.59), (0.08, 0.12)),
        Quoted(IN, "CC+rot", "WRN-28-10", (62.93, 79.87), (0.45, 0.33)),
        Quoted(IN, "S2M2_R", "WRN-28-10", (64.93, 83.18), (0.18, 0.11)),
        Quoted(TRANS, "TPN", "ResNet-12", (59.46, 75.65)),
        Quoted(TRANS, "transductive fine-tuning", "ResNet-12", (62.35, 74.53), (0.66, 0.54)),
        Quoted(TRANS, "TEAM", "ResNet-18", (60.07, 75.90)),
        Quoted(TRANS, "LR+ICI", "ResNet-12", (66.80, 79.26)),
        Quoted(TRANS, "FEAT", "ResNet-18", (66.78, 82.05), (0.20, 0.14)),
        Quoted(TRANS, "EPNet", "ResNet-12", (66.50, 81.06), (0.89, 0.60)),
        Quoted(TRANS, "LaplacianShot", "ResNet-18", (72.11, 82.31), (0.19, 0.14)),
        Quoted(TRANS, "HCT_R + CIPA", "ResNet-12", (76.94, 85.10), (0.24, 0.14)),
    ),
    "tiered-ImageNet": (
        Quoted(IN, "ProtoNet", "ResNet-12", (61.74, 80.00), (0.77, 0.55), LEE),
        Quoted(IN, "MetaOptNet-SVM", "ResNet-12", (65.99, 81.56), (0.72, 0.53)),
        Quoted(IN, "SimpleShot", "ResNet-18", (69.09, 84.58), (0.22, 0.16)),
        Quoted(IN, "DeepEMD", "ResNet-12", (71.16, 86.03), (0.87, 0.58)),
        Quoted(IN, "LEO", "WRN-28-10", (66.33, 81.44), (0.05, 0.09)),
        Quoted(IN, "CC+rot", "WRN-28-10", (70.53, 84.98), (0.51, 0.36)),
        Quoted(IN, "S2M2_R", "WRN-28-10", (73.71, 88.59), (0.22, 0.14)),
        Quoted(TRANS, "TPN", "ResNet-12", (58.68, 74.26), via=WANG),
        Quoted(TRANS, "transductive fine-tuning", "ResNet-12", (68.41, 83.41), (0.73, 0.52)),
        Quoted(TRANS, "LR+ICI", "ResNet-12", (80.79, 87.92)),
        Quoted(TRANS, "FEAT", "ResNet-18", (70.80, 84.79), (0.23, 0.16)),
        Quoted(TRANS, "EPNet", "ResNet-12", (76.53, 87.32), (0.87, 0.64)),
        Quoted(TRANS, "LaplacianShot", "ResNet-18", (78.98, 86.39), (0.21, 0.16)),
        Quoted(TRANS, "HCT_R + CIPA", "ResNet-12", (81.70, 87.91), (0.25, 0.15)),
    ),
    "CIFAR-FS": (
        Quoted(IN, "ProtoNet", "ResNet-12", (72.2, 83.5), (0.7, 0.5), LEE, digits=1),
        Quoted(IN, "MetaOptNet-SVM", "ResNet-12", (72.0, 84.2), (0.7, 0.5), digits=1),
        Quoted(IN, "CC+rot", "WRN-28-10", (76.09, 87.83), (0.30, 0.21)),
        Quoted(IN, "S2M2_R", "WRN-28-10", (74.81, 87.47), (0.19, 0.13)),
        Quoted(TRANS, "TPN", "ResNet-12", (65.89, 79.38), via=WANG),
        Quoted(TRANS, "TEAM", "ResNet-18", (70.43, 81.25)),
        Quoted(TRANS, "transductive fine-tuning", "ResNet-12", (70.76, 81.56), (0.74, 0.53)),
        Quoted(TRANS, "LR+ICI", "ResNet-12", (73.97, 84.13)),
        Quoted(TRANS, "HCT_R + CIPA", "ResNet-12", (85.72, 89.69), (0.21, 0.14)),
    ),
    "FC100": (
        Quoted(IN, "ProtoNet", "ResNet-12", (37.5, 52.5), (0.6, 0.6), LEE, digits=1),
        Quoted(IN, "MetaOptNet-SVM", "ResNet-12", (41.1, 55.5), (0.6, 0.6), digits=1),
        Quoted(IN, "TADAM", "ResNet-12", (40.1, 56.1), (0.4, 0.4), digits=1),
        Quoted(IN, "SimpleShot", "ResNet-10", (40.13, 53.63), (0.18, 0.18)),
        Quoted(IN, "DeepEMD", "ResNet-12", (46.47, 63.22), (0.78, 0.71)),
        Quoted(TRANS, "transductive fine-tuning", "ResNet-12", (41.89, 54.96), (0.59, 0.55)),
        Quoted(TRANS, "HCT_R + CIPA", "ResNet-12", (53.30, 64.90), (0.25, 0.20)),
    ),
    "CUB": (
        Quoted(IN, "DeepEMD", "ResNet-12", (75.65, 88.69), (0.83, 0.50)),
        Quoted(IN, "S2M2_R", "WRN-28-10", (80.68, 90.85), (0.81, 0.44)),
        Quoted(TRANS, "TEAM", "ResNet-18", (80.16, 87.17)),
        Quoted(TRANS, "LaplacianShot", "ResNet-18", (80.96, 88.68)),
        Quoted(TRANS, "LR+ICI", "ResNet-12", (88.06, 92.53)),
        Quoted(TRANS, "PT+MAP", "WRN-28-10", (91.55, 93.99), (0.19, 0.10)),  # in the paper's text
        Quoted(TRANS, "HCT_R + CIPA", "ResNet-12", (93.03, 94.90), (0.15, 0.08)),
    ),
    "mini-ImageNet → CUB": (
        Quoted(IN, "Matching Networks + FT", "ResNet-10", (36.61, 55.23), (0.53, 0.83), TSENG),
        Quoted(IN, "Relation Networks + FT", "ResNet-10", (44.07, 59.46), (0.77, 0.71), TSENG),
        Quoted(IN, "S2M2_R", "WRN-28-10", (48.24, 70.44), (0.84, 0.75)),
        Quoted(TRANS, "GNN + FT", "ResNet-10", (47.47, 66.98), (0.75, 0.68), TSENG),
        Quoted(TRANS, "LaplacianShot", "ResNet-18", (55.46, 66.33)),
        Quoted(TRANS, "HCT_R + CIPA", "ResNet-12", (62.15, 74.25), (1.08, 0.77)),
    ),
}

# Table 5 and the appendix's first: 600 episodes; ProtoNet, SemiPN, CIPA. α: of λ ~ Beta(α, α), None where nothing is
# mixed. The text says α = 2, but Table 5's Manifold Mixup and HCT rows are those of the appendix at α = 1.
TRAINING: dict[str, dict[tuple[str, float | None], tuple[Pair, Pair, Pair]]] = {
    "mini-ImageNet": {
        ("classifier_baseline", None): ((56.48, 75.62), (66.14, 77.72), (70.84, 80.59)),
        ("manifold_mixup", 0.5): ((57.48, 77.04), (67.19, 78.96), (71.85, 81.32)),
        ("manifold_mixup", 1.0): ((57.07, 78.09), (68.25, 80.12), (73.69, 83.06)),
        ("manifold_mixup", 2.0): ((56.42, 77.81), (67.54, 79.96), (73.71, 82.69)),
        ("hct", 0.5): ((58.47, 78.53), (69.00, 80.31), (74.69, 83.10)),
        ("hct", 1.0): ((58.54, 78.43), (69.38, 80.33), (74.74, 82.91)),
        ("hct", 2.0): ((57.38, 78.54), (68.31, 80.69), (74.09, 83.26)),
        ("s2m2_r", 2.0): ((59.66, 77.60), (68.77, 79.99), (76.54, 85.16)),
        ("hct_r", 2.0): ((60.33, 77.66), (69.38, 80.32), (77.26, 84.89)),
    },
    "CUB": {
        ("classifier_baseline", None): ((67.56, 85.63), (79.57, 87.95), (84.96, 89.84)),
        ("manifold_mixup", 0.5): ((66.32, 86.57), (79.82, 88.94), (86.26, 90.95)),
        ("manifold_mixup", 1.0): ((65.78, 86.53), (79.26, 88.84), (86.12, 90.95)),
        ("manifold_mixup", 2.0): ((66.28, 86.63), (79.82, 89.12), (86.91, 91.11)),
        ("hct", 0.5): ((68.97, 86.80), (80.53, 88.99), (86.19, 90.73)),
        ("hct", 1.0): ((67.90, 86.73), (80.43, 89.20), (86.79, 91.02)),
        ("hct", 2.0): ((67.67, 86.89), (80.40, 89.20), (87.34, 91.11)),
        ("s2m2_r", 2.0): ((73.84, 88.26), (83.52, 90.05), (88.40, 91.93)),
        ("hct_r", 2.0): ((81.68, 92.39), (89.47, 93.22), (93.27, 94.77)),
    },
}

# Table 6, mini-ImageNet, 600 episodes: its switches as arguments of cipa.
CIPA_SWITCHES: dict[str, tuple[str, str, Pair]] = {
    "(a)": ("nothing", "cipa(center='none', l2=False, power=off, n_iter=0)", (60.33, 77.66)),
    "(b)": ("centre", "cipa(l2=False, power=off, n_iter=0)", (63.48, 78.39)),
    "(c)": ("centre, unit length", "cipa(power=off, n_iter=0)", (63.48, 78.73)),
    "(d)": ("centre, unit length, power", "cipa(n_iter=0)", (65.96, 81.35)),
    "(e)": ("(d), σ = 1, 1 step", "cipa(sigma=1.0, n_iter=1)", (72.92, 83.94)),
    "(f)": ("(d), σ = 1, 20 steps", "cipa(sigma=1.0)", (78.19, 84.74)),
    "(g)": ("(d), σ = 0.2, 20 steps", "cipa", (77.26, 84.89)),
    "(h)": ("(d) without centring", "cipa(center='none', n_iter=0)", (None, None)),
    "(i)": ("(g) without centring", "cipa(center='none')", (None, None)),
}


def paper_accuracy(dataset: str) -> Pair:
    """The paper's HCT_R + CIPA: 1-shot, 5-shot."""
    return LITERATURE[dataset][-1].accuracy
