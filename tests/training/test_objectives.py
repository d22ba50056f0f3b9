"""Every objective against a slow loop written straight from the equations."""

import math
from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch

from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.learner import Learner
from protoadapt.training.objectives import OBJECTIVES, Needs, Objective, Outputs
from protoadapt.vision.networks import film
from protoadapt.vision.networks.backbones import build, initialise

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
B, C, SIDE = 8, 5, 16


def make(weights, training=False, **settings):
    """A learner in evaluation mode: without batch statistics, a row's result cannot depend on the other rows."""
    needs = [OBJECTIVES[name].needs for name in weights]
    teacher = "none" if any(need.teacher for need in needs) else None
    config = TrainConfig(phases=(Phase(1.0, weights, teacher),), size=SIDE, batch=B, **settings)
    learner = Learner(build("conv4", width=4), C, MEAN, STD, config)
    initialise(learner, torch.Generator().manual_seed(1))
    return learner.train(training)


@pytest.fixture
def batch():
    g = torch.Generator().manual_seed(2)
    pictures = torch.randint(0, 256, (2, B, 3, SIDE, SIDE), generator=g, dtype=torch.uint8)
    labels = torch.randint(0, C, (2, B), generator=g)
    return {"weak": pictures[0], "partner": pictures[1], "labels": labels[0], "partner_labels": labels[1]}


def normal(image):
    """One picture as the network wants it, colour by colour."""
    return torch.stack([(image[c].float() / 255 - MEAN[c]) / STD[c] for c in range(3)])[None]


def log_p(scores):
    return [s - math.log(sum(math.exp(t) for t in scores)) for s in scores]


def head(linear, feature):
    return [float(w @ feature + b) for w, b in zip(linear.weight, linear.bias)]


def draw(layer=0, lam=1.0):
    return {"layer": layer, "lam": torch.tensor(lam, dtype=torch.float32), "seed": 0}


def slow_cross_entropy(learner, images, labels):
    total = 0.0
    for image, label in zip(images, labels.tolist()):
        total -= log_p(head(learner.classifier, learner.backbone(normal(image))[0]))[label]
    return total / len(images)


@torch.no_grad()
def test_cross_entropy(batch):
    learner = make({"ce": 1.0})
    parts = learner(batch, draw())
    assert float(parts["ce"]) == pytest.approx(slow_cross_entropy(learner, batch["weak"], batch["labels"]), rel=1e-4)
    assert float(parts["loss"]) == float(parts["ce"])


@torch.no_grad()
@pytest.mark.parametrize("every", [4, 1])
def test_rotation(batch, every):
    """Every fourth picture, or each, in all four rotations; the class loss is one mean over weak and rotated rows.

    Where each is rotated, no picture passes twice.
    """
    learner, seen = make({"ce": 1.0, "rotation": 0.5}, rotate_every=every), []
    learner.backbone.stages[0].register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    parts = learner(batch, draw())
    images, labels = ([], []) if every == 1 else (list(batch["weak"]), batch["labels"].tolist())
    turned = 0.0
    for i in range(0, B, every):
        image = batch["weak"][i]
        for turns in range(4):
            turned -= log_p(head(learner.rotation_head, learner.backbone(normal(image))[0]))[turns]
            images.append(image)
            labels.append(int(batch["labels"][i]))
            # one quarter turn against the clock: the last column becomes the first row
            image = torch.stack([image[:, :, SIDE - 1 - r] for r in range(SIDE)], 1)
    assert seen[0] == len(images) == OBJECTIVES["rotation"].needs.rows(B, every)
    assert float(parts["rotation"]) == pytest.approx(turned / (4 * B // every), rel=1e-4)
    assert float(parts["ce"]) == pytest.approx(slow_cross_entropy(learner, images, torch.tensor(labels)), rel=1e-4)
    assert float(parts["loss"]) == pytest.approx(float(parts["ce"]) + 0.5 * float(parts["rotation"]), rel=1e-6)


@torch.no_grad()
def test_the_cosine_classifier_is_a_setting(batch):
    learner = make({"ce": 1.0}, classifier="cosine")
    learner.classifier.scale.fill_(7.0)
    total = 0.0
    for image, label in zip(batch["weak"], batch["labels"].tolist()):
        x = learner.backbone(normal(image))[0]
        total -= log_p([7 * float(w @ x / (w.norm() * x.norm())) for w in learner.classifier.weight])[label]
    assert float(learner(batch, draw())["ce"]) == pytest.approx(total / B, rel=1e-4)
    assert float(make({"ce": 1.0}, classifier="cosine").classifier.scale) == 10


@torch.no_grad()
@pytest.mark.parametrize("name", ["hct", "manifold_mixup"])
@pytest.mark.parametrize("layer", range(5))
def test_mixing_at_every_layer(batch, name, layer):
    """x̄ = λ f^l(x₁) + (1−λ) f^l(x̃₂), the rest of the network, −Σ_c ȳ_c log p_c."""
    learner, lam = make({"ce": 1.0, name: 2.0}), 0.3
    parts = learner(batch, draw(layer, lam))
    total = 0.0
    for i in range(B):
        one = learner.backbone.forward_to(normal(batch["weak"][i]), layer)
        two = learner.backbone.forward_to(normal(batch["partner"][i]), layer)
        feature = learner.backbone.maps_from(lam * one + (1 - lam) * two, layer).mean((2, 3))[0]
        target = [0.0] * C
        target[int(batch["labels"][i])] += lam
        target[int(batch["partner_labels"][i])] += 1 - lam
        total -= sum(y * p for y, p in zip(target, log_p(head(learner.classifier, feature))))
    assert float(parts[name]) == pytest.approx(total / B, rel=1e-4)
    assert float(parts["loss"]) == pytest.approx(float(parts["ce"]) + 2 * float(parts[name]), rel=1e-6)


def test_weak_and_strong_views_share_batch_statistics(batch):
    """In training, layer by layer: BatchNorm before l sees weak and partner rows, after l weak and mixed rows."""
    learner, seen = make({"ce": 1.0, "rotation": 1.0, "hct": 1.0}, training=True), {}
    for number, stage in enumerate(learner.backbone.stages):
        stage.register_forward_pre_hook(lambda _, inputs, n=number: seen.setdefault(n, inputs[0].detach()))
    learner(batch, draw(2, 0.25))
    weak, rotated, partner = seen[0][:B], seen[0][B : 2 * B], seen[0][2 * B :]
    assert torch.allclose(weak[3], normal(batch["weak"][3])[0], atol=1e-5)
    assert torch.allclose(partner[3], normal(batch["partner"][3])[0], atol=1e-5)
    assert torch.allclose(rotated[:2], weak[::4])
    assert [len(seen[n]) for n in range(4)] == [3 * B] * 4


def outputs(features, heads=None, **settings):
    """What a step of these features gives; without labels, as episodes come class by class."""
    return Outputs(features, torch.empty(len(features)), len(features), heads or {}, SimpleNamespace(**settings))


def test_protonet():
    ways, shot, query, dim, temperature = 3, 2, 4, 5, 0.7
    features = torch.randn(2, ways, shot + query, dim, dtype=torch.float64)
    total = 0.0
    for episode in features:
        prototypes = [sum(rows[:shot]) / shot for rows in episode]
        for c, rows in enumerate(episode):
            for q in rows[shot:]:
                total -= log_p([-temperature * float(((q - p) ** 2).sum()) for p in prototypes])[c]
    heads = {"log_temperature": torch.tensor(temperature, dtype=torch.float64).log()}
    loss, _ = OBJECTIVES["protonet"].compute(outputs(features.flatten(0, 2), heads, way=ways, shot=shot, query=query))
    assert float(loss) == pytest.approx(total / (2 * ways * query), rel=1e-9)


@pytest.mark.parametrize(("shot", "temperature"), [(1, 64), (2, 32)])
def test_the_contrast_of_feat(shot, temperature):
    """Every row against the mean of each class's adapted rows."""
    rows, total = torch.randn(2, 3, 4, 5), 0.0
    for e in range(2):
        for c in range(3):
            for row in rows[e, c]:
                scores = torch.stack([-((row - 2 * rows[e, w].mean(0)) ** 2).sum() / temperature for w in range(3)])
                total -= float(scores.log_softmax(0)[c])
    head = SimpleNamespace(adapt=lambda rows, noise: 2 * rows)
    step = outputs(rows.flatten(0, 2), {"feat": head}, way=3, shot=shot, query=4 - shot)
    assert float(OBJECTIVES["feat_contrast"].compute(step)[0]) == pytest.approx(total / 24, rel=1e-5)


def test_distillation_is_the_softened_divergence():
    student, teacher, t = torch.randn(4, C), torch.randn(4, C), 4.0
    total = 0.0
    for s, u in zip((student / t).tolist(), (teacher / t).tolist()):
        total += sum(math.exp(b) * (b - a) for a, b in zip(log_p(s), log_p(u)))
    step = outputs(student, {"classifier": torch.nn.Identity()})
    step.teacher_logits = teacher
    assert float(OBJECTIVES["distill"].compute(step)[0]) == pytest.approx(t * t * total / 4, rel=1e-5)


def test_a_head_that_a_phase_leaves_alone_gets_a_zero_gradient(batch):
    """Distributed training waits for a gradient of every parameter."""
    learner = make({"ce": 1.0, "rotation": 1.0, "protonet": 1.0}, training=True)
    learner.set_phase(Phase(weights={"ce": 1.0}))
    learner(batch, draw())["loss"].backward()
    assert all(p.grad is not None for p in learner.parameters())
    assert not learner.rotation_head.weight.grad.any()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_uses_all_that_it_declares_and_nothing_else(batch, name):
    """A row, head or teacher that is declared and not used would cost time for nothing; the reverse would crash."""
    objective, teacher, asked = OBJECTIVES[name], make({"ce": 1.0}), []
    learner = make({name: 1.0}, training=True, way=2, shot=1, query=3)
    classify = teacher.classify
    teacher.classify = lambda images: asked.append(len(images)) or classify(images)
    taught = {"teacher": "run"} if objective.needs.teacher else {}
    learner.set_phase(Phase(weights={name: 1.0}, **taught), teacher if taught else None)
    rows = []
    film.layers(learner.backbone)[-1].register_forward_hook(lambda _, inputs, output: rows.append(len(output)))
    if not objective.needs.partner:
        del batch["partner"], batch["partner_labels"]
    parts = learner(batch, draw(1, 0.3))
    parts["loss"].backward()
    assert list(parts) == ["loss", name, "accuracy"]
    assert len(rows) == 1 + objective.needs.conditions
    assert sum(rows) == objective.needs.rows(B, rotate_every=4)
    assert asked == ([B] if objective.needs.teacher else [])
    trained = {key.split(".")[0] for key, p in learner.named_parameters() if p.grad is not None and p.grad.any()}
    with_parameters = {head.split(".")[0] for head, _ in learner.named_parameters()} - {"backbone"}
    assert with_parameters <= set(objective.needs.heads)
    assert trained == {"backbone", *with_parameters}


def test_a_new_objective_is_one_entry_of_the_table(batch, monkeypatch):
    """Its head, its rows and its accuracy come from what it declares."""
    needs = Needs({"cosine": lambda backbone, classes, config: torch.nn.Linear(backbone.dim, classes)}, rotated=True)

    def loss(outputs):
        assert torch.equal(outputs.labels, outputs.labels[:B].repeat(4))
        return outputs.heads["cosine"](outputs.rotated_features).square().mean(), torch.tensor(0.25)

    monkeypatch.setitem(OBJECTIVES, "new", Objective(loss, needs))
    learner = make({"ce": 1.0, "new": 0.5}, training=True, rotate_every=1)
    assert "cosine.weight" in learner.state_dict()
    parts = learner(batch, draw())
    assert float(parts["loss"].detach()) == pytest.approx(float(parts["ce"].detach() + 0.5 * parts["new"].detach()))
    learner.set_phase(Phase(weights={"new": 1.0}))
    assert float(learner(batch, draw())["accuracy"]) == 0.25


def test_no_objective_is_named_like_a_setting_or_a_column_of_the_log():
    """An override names objectives and settings of a phase alike; the log has one column per objective."""
    settings = {field.name for kind in (Phase, TrainConfig) for field in fields(kind)}
    columns = {"epoch", "step", "loss", "accuracy", "lr", "images_per_second", "seconds"}
    assert not (settings | columns) & set(OBJECTIVES)
    assert not [name for name in OBJECTIVES if name.startswith("val_") or not name.isidentifier()]
