"""Systems that the paper compares with, trained here: one backbone, one loop, one protocol for all.

What is learned is each paper's own (see its file in `core.heads`); crops, weight average and cosine decay are those of
this project, and several episodes pass per step. `--set backbone=conv4` trains the small network. Where the authors
start from a trained classifier, name the run: `--set init_from=RUN`, such as one of classifier_baseline or hct_r.
Heads are measured by `protoadapt evaluate FILE --head RUN`.
"""

from dataclasses import replace
from typing import Any

from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.recipes.ablation import every, settings

FINE_TUNED = {"optimizer": "sgd", "warmup": 0.0, "epochs": 50, "episodes": 200, "episode_batch": 4}
"""A short episodic run from a trained network: 10,000 episodes."""


def matching_net_recipe(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train matching_net --data DIR --out runs/matching_net

    Matching Networks without full context embeddings (Vinyals et al. 2016): 5-way, 5-shot, 15 queries, four episodes
    per step (1-shot: --set shot=1). With the settings of `benchmarks.comparators`, from classifier_baseline: 56 s
    beside other runs, 69.8 / 81.1 % with its own head, 82.9 / 87.7 % with CIPA.
    """
    own = {"optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0, "warmup": 0.0, "epochs": 100}
    return _episodic(dataset, {"matching": 1.0}, **own, episodes=200, episode_batch=4)


def matching_net_fce(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train matching_net_fce --data DIR --out runs/matching_net_fce

    Matching Networks with full context embeddings, as matching_net. With the settings of `benchmarks.comparators`, from
    classifier_baseline: 80 s beside other runs, 71.8 / 82.9 % with its own head, 83.5 / 88.1 % with CIPA.
    """
    return replace(matching_net_recipe(dataset), phases=(Phase(1.0, {"matching_fce": 1.0}),))


def relation_net(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train relation_net --data DIR --out runs/relation_net

    RelationNet (Sung et al. 2018) on the places of the last stage: the schedule of matching_net. Measured on features
    with places (extract --maps). With the settings of `benchmarks.comparators`, from classifier_baseline: 140 s beside
    other runs, 68.1 / 80.8 % with its own head, 82.2 / 87.0 % with CIPA.
    """
    return replace(matching_net_recipe(dataset), phases=(Phase(1.0, {"relation": 1.0}),))


def tpn(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train tpn --data DIR --out runs/tpn

    TPN (Liu et al. 2019), label propagation with a learned scale: the schedule of matching_net. Measured on features
    with places (extract --maps). With the settings of `benchmarks.comparators`, from classifier_baseline: 148 s beside
    other runs, 74.7 / 85.6 % with its own head, 82.8 / 87.6 % with CIPA.
    """
    return replace(matching_net_recipe(dataset), phases=(Phase(1.0, {"tpn": 1.0}),))


def metaoptnet(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train metaoptnet --data DIR --out runs/metaoptnet

    MetaOptNet with ridge regression (Lee et al. 2019) on un-pooled features: 15 support and 6 query pictures per class,
    eight episodes per step, DropBlock 0.1, label smoothing 0.1. A fifteenth of the authors' 480,000 episodes. Measured
    on features with places (extract --maps). With the settings of `benchmarks.comparators`, from classifier_baseline:
    154 s beside other runs, 68.7 / 84.8 % with its own head, 83.1 / 87.7 % with CIPA.
    """
    own = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 5e-4, "warmup": 1.0, "epochs": 40, "episodes": 800}
    own |= {"episode_batch": 8, "shot": 15, "query": 6, "dropblock": 0.1, "label_smoothing": 0.1}
    return _episodic(dataset, {"metaopt_ridge": 1.0}, **own)


def metaoptnet_svm(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train metaoptnet_svm --data DIR --out runs/metaoptnet_svm

    MetaOptNet with a support vector machine (Lee et al. 2019), as metaoptnet. With the settings of
    `benchmarks.comparators`, from classifier_baseline: 416 s beside other runs, 69.6 / 84.8 % with its own head, 82.7 /
    87.4 % with CIPA.
    """
    return replace(metaoptnet(dataset), phases=(Phase(1.0, {"metaopt_svm": 1.0}),))


def feat(dataset: str = "cifar-fs", init_from: str = "") -> TrainConfig:
    """protoadapt train feat --data DIR --out runs/feat --set init_from=runs/baseline

    FEAT (Ye et al. 2020) from a trained classifier: 5-way, 5-shot, 15 queries, four episodes per step, the head at ten
    times the rate of the backbone (1-shot: --set shot=1 --set phases.0.feat_contrast=0.01, 74.2 % at 1-shot). With the
    settings of `benchmarks.comparators`, from classifier_baseline: 182 s beside other runs, 73.9 / 86.1 % with its own
    head, 83.6 / 88.0 % with CIPA.
    """
    own = {**FINE_TUNED, "epochs": 100, "lr": 8e-4, "head_factor": 10.0, "weight_decay": 5e-4}
    return _episodic(dataset, {"feat": 1.0, "feat_contrast": 0.1}, **own, init_from=init_from)


def epnet(dataset: str = "cifar-fs", init_from: str = "") -> TrainConfig:
    """protoadapt train epnet --data DIR --out runs/epnet --set init_from=runs/baseline

    EPNet (Rodríguez et al. 2020) from a trained classifier: 5-way, 5-shot, 15 queries, four episodes per step, with a
    tenth of the cross-entropy over the base classes (1-shot: --set shot=1). From the network of hct_r, 103 s beside
    another run: 87.4 / 90.7 % with CIPA, 80.2 / 89.1 % with its own head. With the settings of
    `benchmarks.comparators`, from classifier_baseline: 187 s beside other runs, 76.3 / 86.6 % with its own head, 84.4 /
    88.8 % with CIPA.
    """
    own = {**FINE_TUNED, "lr": 0.01, "weight_decay": 5e-4}
    return _episodic(dataset, {"epnet": 1.0, "ce": 0.1}, **own, init_from=init_from)


def deepemd(dataset: str = "cifar-fs", init_from: str = "") -> TrainConfig:
    """protoadapt train deepemd --data DIR --out runs/deepemd --set init_from=runs/baseline

    DeepEMD (Zhang et al. 2020, its FCN form) from a trained classifier: 5-way, 1-shot, 15 queries, four episodes per
    step; more shots are answered by its structured layer. Measured on features with places (extract --maps). With the
    settings of `benchmarks.comparators`, from classifier_baseline: 170 s beside other runs, 74.7 / 86.2 % with its own
    head, 83.1 / 87.5 % with CIPA.
    """
    own = {**FINE_TUNED, "lr": 2e-3, "weight_decay": 5e-4, "shot": 1}
    return _episodic(dataset, {"deepemd": 1.0}, **own, init_from=init_from)


def gnn(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train gnn --data DIR --out runs/gnn

    A graph network over each query and the support (Garcia and Bruna 2018): the schedule of matching_net. Answers 5-way
    episodes. With the settings of `benchmarks.comparators`, from classifier_baseline: 210 s beside other runs, 66.4 /
    80.3 % with its own head, 82.8 / 87.6 % with CIPA.
    """
    return replace(matching_net_recipe(dataset), phases=(Phase(1.0, {"gnn": 1.0}),))


def snail(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train snail --data DIR --out runs/snail

    SNAIL (Mishra et al. 2018) over the pooled features: the schedule of matching_net at a tenth of its rate. Answers
    5-way episodes of its own shot, 5 (1-shot: --set shot=1). With the settings of `benchmarks.comparators`, from
    classifier_baseline: 220 s beside other runs, 69.4 / 79.6 % with its own head, 83.0 / 87.8 % with CIPA.
    """
    return replace(matching_net_recipe(dataset), phases=(Phase(1.0, {"snail": 1.0}),), lr=1e-4)


def leo(dataset: str = "cifar-fs", init_from: str = "") -> TrainConfig:
    """protoadapt train leo --data DIR --out runs/leo --set init_from=runs/baseline

    LEO (Rusu et al. 2019) on the features of a trained network that stays as it is: 5-way, 5-shot, 15 queries, twelve
    episodes per step (1-shot: --set shot=1). With the settings of `benchmarks.comparators`, from classifier_baseline:
    126 s beside other runs, 68.8 / 82.6 % with its own head, 83.5 / 88.0 % with CIPA.
    """
    own = {**FINE_TUNED, "optimizer": "adam", "lr": 5e-4, "weight_decay": 0.0, "episodes": 240, "episode_batch": 12}
    return _episodic(dataset, {"leo": 1.0}, **own, frozen=True, init_from=init_from)


def tadam(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train tadam --data DIR --out runs/tadam

    TADAM (Oreshkin et al. 2018): prototypes in a network that is conditioned on each episode, with the base classes as
    a second task. Where the authors choose that task with a probability that falls from 1 to 0.9^20, the two losses
    have these weights, in five steps. With the settings of `benchmarks.comparators`, from classifier_baseline: 166 s
    beside other runs, 65.1 / 83.7 % with its own head, 79.1 / 85.3 % with CIPA.
    """
    shares = [0.9 ** (20 * (step + 0.5) / 5) for step in range(5)]
    phases = tuple(Phase((step + 1) / 5, {"tadam": 1 - share, "ce": share}) for step, share in enumerate(shares))
    own = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 5e-4, "warmup": 1.0, "epochs": 100, "episodes": 200}
    return replace(_episodic(dataset, {"tadam": 1.0}, **own, episode_batch=2), phases=phases)


def cc_rot(dataset: str = "cifar-fs") -> TrainConfig:
    """protoadapt train cc_rot --data DIR --out runs/cc_rot

    CC+rot (Gidaris et al. 2019): a cosine classifier and the rotation task, all four rotations of every picture in both
    losses. As many rows as hct_r, and its time; answered by `evaluate --method protonet`. With the settings of
    `benchmarks.comparators`: 318 s beside other runs, 72.2 / 85.6 % with prototypes, 83.0 / 87.7 % with CIPA.
    """
    own = {"classifier": "cosine", "rotate_every": 1, "batch": 128, "lr": 0.1, "epochs": 27}
    return TrainConfig(phases=(Phase(1.0, {"ce": 1.0, "rotation": 1.0}),), **{**settings(dataset), **own})


def _episodic(dataset: str, weights: dict[str, float], **own: Any) -> TrainConfig:
    return TrainConfig(phases=(Phase(1.0, weights),), **{**settings(dataset), **every(10), **own})
