"""The rows of the paper's ablation, and episodic ProtoNet training: what is learned, whatever the dataset.

Loss = L_ce + L_rot + η·L_hct with η = 1; the mixing loss joins after the first third of the epochs. The optimiser is
that of our own runs (SGD, Nesterov 0.9, weight decay 5e-4, cosine to 0, weight average 0.999), not the paper's: see
`hct_r.hct_r_paper`. How long, which batch and which crops is the dataset's matter: `datasets.SETTINGS`.
"""

from protoadapt.training import Phase, TrainConfig
from protoadapt.training.recipes.dataset_settings import settings


def classifier_baseline(dataset: str = "cifar-fs") -> TrainConfig:
    """Cross-entropy alone (the paper's "Classifier Baseline").

    protoadapt train classifier_baseline --data DIR --out runs/baseline
    About a minute and a half on one H200 (CIFAR-FS, 40 epochs). CUB's boxes, 80 epochs: 89.1 / 92.5 % with CIPA.
    """
    return TrainConfig(phases=(Phase(1.0, {"ce": 1.0}),), **settings(dataset))


def manifold_mixup(dataset: str = "cifar-fs") -> TrainConfig:
    """Cross-entropy, then Manifold Mixup beside it (Verma et al. 2019).

    protoadapt train manifold_mixup --data DIR --out runs/mm
    Two thirds of HCT_R's time. CUB's boxes, 80 epochs, α = 2: 90.2 / 93.3 % with CIPA.
    """
    return TrainConfig(phases=_after_a_third({"ce": 1.0}, "manifold_mixup"), **settings(dataset))


def hct(dataset: str = "cifar-fs") -> TrainConfig:
    """Cross-entropy, then Hybrid Consistency Training beside it.

    protoadapt train hct --data DIR --out runs/hct
    Two thirds of HCT_R's time. CUB's boxes, 80 epochs, α = 2: 90.8 / 93.6 % with CIPA.
    """
    return TrainConfig(phases=_after_a_third({"ce": 1.0}, "hct"), **settings(dataset))


def s2m2_r(dataset: str = "cifar-fs") -> TrainConfig:
    """Cross-entropy and rotation, then Manifold Mixup beside them (S2M2_R, Mangla et al. 2020).

    protoadapt train s2m2_r --data DIR --out runs/s2m2_r
    As long as HCT_R. CUB's boxes, 80 epochs: 92.4 / 94.6 % with CIPA.
    """
    return TrainConfig(phases=_after_a_third({"ce": 1.0, "rotation": 1.0}, "manifold_mixup"), **settings(dataset))


def hct_r(dataset: str = "cifar-fs") -> TrainConfig:
    """Cross-entropy and rotation, then HCT beside them: the paper's main rows.

    protoadapt train hct_r --data DIR --out runs/hct_r
    214 s on one H200 (CIFAR-FS, 40 epochs): 86.2 / 89.8 % with CIPA on CIFAR-FS's novel classes.
    """
    return TrainConfig(phases=_after_a_third({"ce": 1.0, "rotation": 1.0}, "hct"), **settings(dataset))


def protonet(dataset: str = "cifar-fs") -> TrainConfig:
    """Episodic Prototypical Networks (Snell et al. 2017): 5-way, 5-shot, 15 queries, 100 episodes an epoch.

    protoadapt train protonet --data DIR --out runs/protonet        (20-way: --set way=20)
    CIFAR-FS, five minutes on one H200 beside another run: 69.0 / 84.8 % with prototypes, 81.8 / 86.9 % with CIPA.
    """
    own = {"epochs": 200, "optimizer": "adam", "lr": 1e-3, "warmup": 0.0, "weight_decay": 0.0, "validate_every": 10}
    phases = (Phase(1.0, {"protonet": 1.0}, sampler="episodes"),)
    return TrainConfig(phases=phases, **{**settings(dataset), **own})


def _after_a_third(weights: dict[str, float], then: str) -> tuple[Phase, ...]:
    return Phase(1 / 3, weights), Phase(1.0, {**weights, then: 1.0})
