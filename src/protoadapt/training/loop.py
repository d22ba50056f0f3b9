"""The one training loop."""

import copy
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from protoadapt.core.errors import UserError, whole_number
from protoadapt.core.files import csv_text, write_json, write_text
from protoadapt.core.provenance import provenance
from protoadapt.training import checkpoint, optim
from protoadapt.training.build import launch, load_teacher, make_learner, stop_requested
from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.datasets import DATASETS
from protoadapt.training.feed import Feed
from protoadapt.training.plan import Plan, make_plan, rows_per_epoch
from protoadapt.training.validate import protocols, validate
from protoadapt.vision.networks import model_files

if TYPE_CHECKING:
    from lightning_fabric import Fabric

CHECK_EVERY = 50
"""Steps between checks for a NaN, and between the processes' agreements to stop: each waits for the device."""
_RESULT = "result.json"
RECOMPILE_LIMIT = 64
"""Compiled forms of one stage's code: stages × numbers of rows. torch's own limit of 8 would fall back silently."""


@dataclass
class State:
    """The progress of a run; saved in every checkpoint, so field names are part of the file format."""

    step: int = 0  # steps done
    epoch: int = 0  # epochs done
    within: int = 0  # steps done of the current epoch
    seconds: float = 0.0  # training time, without validation and checkpoints
    images: int = 0  # rows that passed forward and backward
    sums: dict[str, float] = field(default_factory=dict)  # of the logged values in the current epoch
    history: list[dict[str, Any]] = field(default_factory=list)  # one record per epoch
    best: dict[str, Any] | None = None  # {"step", "epoch", "score", …} of the best validation


@dataclass(frozen=True)
class Event:
    """What `train` reports to its callback while it runs.

    kind          "epoch starts", "step", "epoch ends", or "note"
    epoch         epochs finished so far, of `epochs`
    images        rows that passed forward and backward so far, of `total_images`
    record        of an epoch that ends: its line of log.csv (losses, accuracy, learning rate, speed, validation)
    seconds_left  of an epoch that ends: training time left at its speed
    text          of a note: one sentence for the user
    """

    kind: Literal["epoch starts", "step", "epoch ends", "note"]
    epoch: int
    epochs: int
    images: int
    total_images: int
    record: Mapping[str, Any] = field(default_factory=dict)
    seconds_left: float = 0.0
    text: str = ""


OnEvent = Callable[[Event], None]


def train(
    config: TrainConfig,
    base: Any,
    val: Any | None,
    out_dir: str | Path,
    *,
    resume: bool = False,
    on_event: OnEvent | None = None,
    accelerator: str = "auto",
    devices: int | str = 1,
    num_nodes: int = 1,
    compiled: bool | None = None,
) -> dict[str, Any]:
    """Train on the base classes and keep the network with the best accuracy on the validation classes.

    Novel classes are never read.

    Parameters
    ----------
    config : TrainConfig
        The run: data, objectives, optimiser, seed.
    base, val : Images
        Pixels (N, 3, H, H) uint8, labels (N), class_names, as `load_splits` returns them: base with the side `store` of
        the config, val with its `size`. val None: the last network is kept.
    out_dir : str or Path
        Folder of the run: checkpoints/, best.json, log.csv, result.json.
    resume : bool, default False
        Continue from the last checkpoint in out_dir; the config must be the same.
    on_event : function of Event, optional
        Called when an epoch starts or ends, after each step, and with notes.
    accelerator, devices, num_nodes
        As in lightning-fabric; processes started by torchrun or SLURM are recognised.
    compiled : bool, optional
        Use torch.compile; default: on a GPU.

    Returns
    -------
    dict
        The content of result.json: "finished", "best", "history", "seconds", "images_per_second", …

    Examples
    --------
    >>> train(config, *load_splits(config, None), "runs/glyphs")
    """
    fabric = launch(accelerator, devices, num_nodes)
    run = Run(fabric, config, base, val, Path(out_dir), compiled)
    run.on_event = on_event if fabric.is_global_zero else None
    return run.go(resume)


class Run:
    """The parts of one run on one process, put together once; `go` is the loop."""

    def __init__(self, fabric: "Fabric", config: TrainConfig, base: Any, val: Any, out: Path, compiled: bool | None):
        self.fabric = fabric
        self.config = config
        self.val = val
        self.out = out
        self.device = fabric.device
        self.state = State()
        self.created = time.perf_counter()
        self.start_up = 0.0
        self.total_images = 0
        self.on_event: OnEvent | None = None
        cuda = self.device.type == "cuda"
        classes, self.labels = np.unique(np.asarray(base.labels), return_inverse=True)
        for which, images, side in (("base", base, config.stored_side), ("validation", val, config.size)):
            if images is not None and (images.pixels.shape[1:], images.pixels.dtype) != ((3, side, side), np.uint8):
                found = f"{images.pixels.dtype} {images.pixels.shape}"
                raise UserError(f"the {which} pictures are {found}, not uint8 (N, 3, {side}, {side}): use load_splits")
        if val is not None:
            protocols(np.asarray(val.labels))  # too few pictures are an error now, not after the first epochs
        dataset = DATASETS.get(config.dataset, DATASETS["folder"])
        mean, std = list(dataset.mean), list(dataset.std)
        self.learner = make_learner(config, len(classes), mean, std).to(self.device)
        self.metadata: dict[str, Any] = {
            "backbone": config.backbone,
            "width": config.width,
            "dim": self.learner.backbone.dim,
            "mean": mean,
            "std": std,
            "size": config.size,
            "crop": config.crop,
            "dataset": config.dataset,
            "class_names": [str(base.class_names[c]) for c in classes],
        }
        if head := self.learner.few_shot_head:
            shape = asdict(head.shape) | {"channels": list(head.shape.channels)}
            self.metadata["head"] = {"name": config.head, **shape}
        taught = {phase.teacher for phase in config.phases if phase.teacher}
        self.teachers = {teacher: load_teacher(teacher, len(classes)).to(self.device) for teacher in taught}
        if cuda:
            for network in (self.learner, *self.teachers.values()):
                network.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        averaged = copy.deepcopy(self.learner).eval().requires_grad_(False)
        self.optimizer = optim.make_optimizer(config, self.learner, fused=cuda)
        self.compiled = cuda if compiled is None else compiled
        self.feed = Feed(base.pixels, self.labels, self.device, config.size, compiled=self.compiled and cuda)
        if self.compiled:
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
            for stage in self.learner.backbone.stages:
                stage.compile(dynamic=False)
        self.model, self.stepper = fabric.setup(self.learner, self.optimizer)
        self.average = optim.Average(averaged, self.learner, config.ema)
        self.rows = [rows_per_epoch(config, config.phase(epoch), len(self.labels)) for epoch in range(config.epochs)]

    def go(self, resume: bool) -> dict[str, Any]:
        """Train to the end, or until a signal asks to stop; returns the result."""
        config, state = self.config, self.state
        for epoch in config.phase_starts:
            self.plan(min(epoch, config.epochs - 1))  # raises what cannot be drawn later
        self.begin(resume)
        if state.epoch == config.epochs:
            with suppress(Exception):  # missing or damaged: made again from the checkpoint
                result = json.loads((self.out / _RESULT).read_bytes())
                if result.items() >= {"finished": True, "best": state.best, "history": state.history}.items():
                    return result
            return self.result(finished=True)
        if self.compiled:
            self.warm_up()
        self.start_up = time.perf_counter() - self.created
        self.total_images = state.images + sum(self.rows[state.epoch :])
        with stop_requested() as stop:
            if resume:
                self.report("note", text=f"resuming from step {state.step} (epoch {state.epoch + 1})")
            if len(self.plan(state.epoch)) == 1:
                few = f"1 step per epoch: {len(self.labels):,} pictures are few to train on"
                self.report("note", text=f"{few}; `protoadapt extract lite0` gives the features of a trained network")
            while state.epoch < config.epochs and self.epoch(stop):
                pass
            return self.result(finished=state.epoch == config.epochs)

    def report(self, kind: Any, **details: Any) -> None:
        """Call the user's function with an event, in one process of several."""
        if self.on_event:
            done = self.state.epoch, self.config.epochs, self.state.images, self.total_images
            self.on_event(Event(kind, *done, **details))

    def warm_up(self) -> None:
        """Compile for each phase still to come, by a step that leaves no trace, so that epochs measure training."""
        before = {name: t.clone() for name, t in self.learner.named_buffers()}
        now = self.state.epoch
        later = [start for start in self.config.phase_starts if now < start < self.config.epochs]
        for epoch in [now, *later]:
            self.enter(self.config.phase(epoch))
            batch, draw = next(self.feed.batches(self.plan(epoch)))
            self.fabric.backward(self.model(batch, {**draw, "layer": 0})["loss"])
            self.stepper.zero_grad(set_to_none=True)
        for name, t in self.learner.named_buffers():
            t.copy_(before[name])

    def enter(self, phase: Phase) -> None:
        self.learner.set_phase(phase, self.teachers[phase.teacher] if phase.teacher else None)
        self.model.train()

    def plan(self, epoch: int) -> Plan:
        layers = len(self.learner.backbone.stages)
        return make_plan(self.config, epoch, self.labels, layers, self.fabric.global_rank, self.fabric.world_size)

    def epoch(self, stop: threading.Event) -> bool:
        """Train one epoch, or the rest of it. Returns False when a stop was requested."""
        fabric, config, state = self.fabric, self.config, self.state
        phase = config.phase(state.epoch)
        self.enter(phase)
        plan = self.plan(state.epoch)
        rows = phase.needs.rows(plan.first.shape[1], config.rotate_every) * fabric.world_size
        alone_on_cpu = self.device.type == "cpu" and fabric.world_size == 1
        self.report("epoch starts")
        start = time.perf_counter()
        first = state.within
        before = state.seconds
        total = torch.tensor([*state.sums.values()], device=self.device)
        for batch, draw in self.feed.batches(plan, state.within):
            optim.set_learning_rate(self.optimizer, optim.learning_rate(config, state.epoch + state.within / len(plan)))
            parts = self.model(batch, draw)
            fabric.backward(parts["loss"])
            self.stepper.step()
            self.stepper.zero_grad(set_to_none=True)
            self.average.update(state.step)
            values = torch.stack([part.detach().float() for part in parts.values()])
            total = total + values if len(total) else values
            state.step += 1
            state.within += 1
            state.images += rows
            self.report("step")
            last = state.within == len(plan)
            check = last or state.step % CHECK_EVERY == 0
            stopped = self.must_stop(stop, check)
            if check or stopped or alone_on_cpu:
                self.require_finite(total)
            if last or stopped:  # reading the sums waits for the device, so that the clock includes its work
                state.sums = dict(zip(parts, total.tolist()))
                state.seconds = before + time.perf_counter() - start
            if stopped and not last:
                self.save()
                return False
        speed = rows * max(state.within - first, 1) / (state.seconds - before)
        self.end_epoch(speed, stopped)
        return not stopped

    def end_epoch(self, speed: float, stopped: bool) -> None:
        fabric, config, state = self.fabric, self.config, self.state
        sums = torch.tensor(list(state.sums.values()), dtype=torch.float64)
        means: Any = fabric.all_reduce(sums / state.within)
        record: dict[str, Any] = {"epoch": state.epoch + 1, "step": state.step, **dict(zip(state.sums, means.tolist()))}
        state.epoch += 1
        state.within = 0
        state.sums = {}
        record["accuracy"] *= 100
        record |= {"lr": self.optimizer.param_groups[0]["lr"], "images_per_second": speed, "seconds": state.seconds}
        last = state.epoch == config.epochs
        better = last and self.val is None
        if self.val is not None and (last or state.epoch % config.validate_every == 0):
            score = partial(validate, self.average.module, self.metadata, self.val, fabric.autocast)  # type: ignore[arg-type]
            scores: dict[str, float] = fabric.broadcast(score() if fabric.is_global_zero else {})
            record |= {f"val_{name}": value for name, value in scores.items()}
            better = state.best is None or scores["score"] > state.best["score"]
        state.history.append(record)
        if better:
            state.best = {k.removeprefix("val_"): v for k, v in record.items() if k in ("epoch", "step") or "val_" in k}
        if fabric.is_global_zero:  # all of it, so that a resumed run never repeats a line
            names = list(dict.fromkeys(name for row in state.history for name in row))
            rows = [[row.get(name, "") for name in names] for row in state.history]
            write_text(self.out / "log.csv", csv_text([names, *rows]))
        self.report("epoch ends", record=record, seconds_left=sum(self.rows[state.epoch :]) / speed)
        if better or last or stopped or state.epoch % config.checkpoint_every == 0:
            self.save()

    def require_finite(self, total: torch.Tensor) -> None:
        """Raise a UserError if a loss of this epoch was NaN or infinite, as their sums then are, in every process."""
        if not self.fabric.all_reduce(total.clone()).isfinite().all():  # type: ignore[union-attr]
            last = checkpoint.latest(self.out)
            raise UserError(
                f"the loss is not a number after {self.state.step} steps (epoch {self.state.epoch + 1}): lower lr, or "
                f"add warmup, and start again; the last good checkpoint is {str(last) if last else 'none'}"
            )

    def must_stop(self, stop: threading.Event, check: bool) -> bool:
        """Whether any process was asked to stop. Several processes agree on it only every CHECK_EVERY steps."""
        if self.fabric.world_size == 1:
            return stop.is_set()
        return check and bool(self.fabric.all_reduce(torch.tensor(float(stop.is_set())), reduce_op="sum"))

    def identity(self) -> dict[str, Any]:
        """What must be the same when a run is resumed."""
        return {"train": self.config.to_dict(), "model": self.metadata, "base": {"base pictures": len(self.labels)}}

    def save(self) -> None:
        """Write a checkpoint and remove those that are no longer needed."""
        if self.fabric.is_global_zero:
            own = {f"learner.{name}": t for name, t in self.learner.state_dict().items()}
            tensors = own | optim.optimizer_tensors(self.optimizer)
            model = self.average.module.state_dict()
            counters = {"state": vars(self.state)}
            checkpoint.save(self.out, self.state.step, self.identity(), model, tensors, counters)
            if self.state.best:
                write_json(self.out / "best.json", self.state.best)
            checkpoint.prune(self.out, keep=[model_files.best(self.out)])
        self.fabric.barrier()

    def begin(self, resume: bool) -> None:
        """Start in an empty folder, or restore everything from the last checkpoint."""
        if not resume:
            own = [checkpoint.latest(self.out), *(self.out / name for name in (_RESULT, "log.csv", "best.json"))]
            if there := [file for file in own if file and file.exists()]:
                raise UserError(
                    f"{str(self.out)!r} already holds a run, such as {there[0].name}: continue it with --resume, move "
                    f"it away, or choose another --out"
                )
            self.fabric.barrier()
            self.save()  # so that a run can be resumed whenever it is killed
            return
        saved = checkpoint.load_latest(self.out)
        with checkpoint.understood(saved.folder):
            self.restore(saved)

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Everything as a checkpoint has it. Raises UserError where it is of other settings or pictures."""
        earlier, now = (own["train"] | own["model"] | own["base"] for own in (saved.config, self.identity()))
        changed = [name for name, value in now.items() if earlier.get(name) != value]
        words = [f"{name}={earlier.get(name)!r:.80} (now {now[name]!r:.80})" for name in changed]
        if changed:
            raise UserError(
                f"the run in {str(self.out)!r} was started with {'; '.join(words)}: resume with the same settings "
                f"or with neither recipe nor settings, or start a new run in another folder"
            )
        own = {k.removeprefix("learner."): t for k, t in saved.tensors.items() if k.startswith("learner.")}
        model_files.load_into(self.learner, own, saved.folder)
        model_files.load_into(self.average.module, saved.model, saved.folder)
        optim.restore_optimizer(self.optimizer, {k: t for k, t in saved.tensors.items() if k.startswith("optimizer.")})
        state = saved.scalars["state"]
        for name in ("step", "epoch", "within", "images"):
            whole_number(name, state[name], 0)
        vars(self.state).update(vars(State(**state)))

    def result(self, finished: bool) -> dict[str, Any]:
        """The content of result.json, which is written once the run is finished."""
        state = self.state
        result = {
            "schema": "protoadapt-run/1",
            "finished": finished,
            "run": self.out.name,
            "best": state.best,
            "steps": state.step,
            "seconds": state.seconds,
            "start_up_seconds": self.start_up,
            "images": state.images,
            "images_per_second": state.images / state.seconds if state.seconds else 0.0,
            "config": self.config.to_dict(),
            "history": state.history,
            "processes": self.fabric.world_size,
            **provenance(self.device),
        }
        if self.fabric.is_global_zero and finished:
            write_json(self.out / _RESULT, result)
        return result
