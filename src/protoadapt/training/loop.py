"""The one training loop."""

import copy
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.core.errors import UserError
from protoadapt.core.files import write_json
from protoadapt.core.provenance import commit, hardware, versions
from protoadapt.training import checkpoint
from protoadapt.training.build import load_teacher, make_learner, normalisation
from protoadapt.training.config import Phase, TrainConfig
from protoadapt.training.fabric import Fabric, launch
from protoadapt.training.feed import Feed
from protoadapt.training.optim import Average, learning_rate, make_optimizer, optimizer_tensors, restore_optimizer
from protoadapt.training.plan import Plan, make_plan, rows_per_epoch
from protoadapt.training.safeguards import State, Tally, asked_to_stop, differences
from protoadapt.training.validate import embed, protocols, validate
from protoadapt.training.watch import Watch
from protoadapt.vision.networks import model_files
from protoadapt.vision.networks.model_files import best

CHECK_EVERY = 50
"""Steps between looks at the device for a NaN, and between the processes' agreements to stop: each waits for it."""
RESULT = "result.json"
RECOMPILE_LIMIT = 64
"""Compiled forms of one stage's code: stages × numbers of rows. torch's own limit of 8 would fall back silently."""


def train(
    config: TrainConfig,
    base: Any,
    val: Any | None,
    out_dir: str | Path,
    *,
    resume: bool = False,
    progress: bool = True,
    accelerator: str = "auto",
    devices: int | str = 1,
    num_nodes: int = 1,
    strategy: str = "auto",
    precision: str | None = None,
    compiled: bool | None = None,
    resident: bool | None = None,
) -> dict[str, Any]:
    """Train on the base classes, keep the network that names the validation classes best. Never sees novel ones.

    base, val   Images: pixels (N, 3, H, H) uint8, labels (N), class_names; val may be None, then the last is kept
    out_dir     the run's folder: checkpoints/, best.json, log.csv, tensorboard/, result.json
    resume      go on from the last checkpoint in out_dir; the config must be the same
    accelerator, devices, num_nodes, strategy   as in lightning-fabric; torchrun and SLURM are found by themselves
    precision   None: bf16-mixed on a GPU, 32-true on the CPU
    compiled    None: torch.compile on a GPU;  resident: pictures on the device; None: if they fit

    Returns what is in result.json: "finished", "best", "history", "seconds", "images_per_second", …
    """
    fabric = launch(accelerator, devices, num_nodes, strategy, precision)
    return Run(fabric, config, base, val, Path(out_dir), progress, compiled, resident).go(resume)


class Run:
    """The parts of one run on one process, put together once; `go` is the loop."""

    def __init__(
        self,
        fabric: Fabric,
        config: TrainConfig,
        base: Any,
        val: Any | None,
        out: Path,
        progress: bool,
        compiled: bool | None,
        resident: bool | None,
    ):
        self.fabric, self.config, self.val, self.out, self.progress = fabric, config, val, out, progress
        self.device, self.state = fabric.device, State()
        self.born, self.start_up = time.perf_counter(), 0.0
        cuda = self.device.type == "cuda"
        self.classes, self.labels = np.unique(np.asarray(base.labels), return_inverse=True)
        if (side := base.pixels.shape[-1]) != config.size:
            raise UserError(f"the pictures have {side} pixels a side, the config says {config.size}: set size={side}")
        if val is not None:
            protocols(np.asarray(val.labels))  # too few pictures are better known now than after the first epochs

        mean, std = normalisation(config, base)
        self.learner = make_learner(config, len(self.classes), mean, std).to(self.device)
        try:
            self.learner.backbone.eval()(torch.zeros(1, 3, side, side, device=self.device))
        except RuntimeError as error:
            raise UserError(f"{side} pixels a side are too few for {config.backbone}: set a larger size") from error
        self.about = {
            **{"backbone": config.backbone, "width": config.width, "dim": self.learner.backbone.dim},
            **{"mean": mean, "std": std, "size": config.size, "crop": config.crop, "dataset": config.dataset},
            "class_names": [str(base.class_names[c]) for c in self.classes],
        }
        self.teachers = {
            p.teacher: load_teacher(p.teacher, len(self.classes)).to(self.device) for p in config.phases if p.teacher
        }
        for network in (self.learner, *self.teachers.values()) if cuda else ():
            network.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        averaged = copy.deepcopy(self.learner).eval().requires_grad_(False)
        if config.sync_batchnorm and fabric.world_size > 1:
            if not cuda:
                raise UserError("sync_batchnorm works on GPUs only: leave it off on the CPU")
            self.learner = torch.nn.SyncBatchNorm.convert_sync_batchnorm(self.learner)
        self.optimizer = make_optimizer(config, self.learner.parameters(), fused=cuda)
        self.feed = Feed(base.pixels, self.labels, self.device, resident)
        self.alone_on_cpu = self.device.type == "cpu" and fabric.world_size == 1
        self.compiled = cuda if compiled is None else compiled
        if self.compiled:
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
            for stage in self.learner.backbone.stages:
                stage.compile(dynamic=False)
            if cuda:
                self.feed.compile()
        self.model, self.stepper = fabric.setup(self.learner, self.optimizer)
        self.average = Average(averaged, self.learner, config.ema)

    def go(self, resume: bool) -> dict[str, Any]:
        config, state = self.config, self.state
        for start in (0.0, *(phase.until for phase in config.phases[:-1])):
            self.plan(min(round(start * config.epochs), config.epochs - 1))  # what cannot be drawn is known before
        self.begin(resume)
        if state.epoch == config.epochs:
            return self.told_before() or self.result(finished=True)
        if self.compiled:
            self.warm_up()
        self.start_up = time.perf_counter() - self.born
        whole = state.images + self.rows_left()
        watch = Watch(self.out, config.epochs, whole, self.fabric.is_global_zero, self.progress)
        with watch, asked_to_stop() as asked:
            if resume:
                watch.say(f"going on from step {state.step} (epoch {state.epoch + 1})")
            for number in config.phases_without_epochs:
                watch.say(f"note: phase {number} is over before its first epoch, so what it asks for is never trained")
            while state.epoch < config.epochs and self.epoch(watch, asked):
                pass
            if state.epoch < config.epochs:
                watch.say(f"stopped at step {state.step}: continue with --resume")
            return self.result(finished=state.epoch == config.epochs)

    def warm_up(self) -> None:
        """Compile for each phase still to come, by a step that leaves no trace, so that epochs measure training."""
        config, learner = self.config, self.learner
        seen: list[Phase] = []
        before = {name: t.clone() for name, t in learner.named_buffers()}
        for epoch in range(self.state.epoch, config.epochs):
            phase = config.phase(epoch)
            if phase in seen:
                continue
            seen.append(phase)
            self.enter(phase)
            batch, draw = next(self.feed.batches(self.plan(epoch)))
            self.fabric.backward(self.model(batch, {**draw, "layer": 0})["loss"])
            self.stepper.zero_grad(set_to_none=True)
        for name, t in learner.named_buffers():
            t.copy_(before[name])

    def enter(self, phase: Phase) -> None:
        self.learner.set_phase(phase.weights, self.teachers[phase.teacher] if phase.teacher else None)
        self.model.train()

    def plan(self, epoch: int) -> Plan:
        layers = len(self.learner.backbone.stages)
        return make_plan(self.config, epoch, self.labels, layers, self.fabric.global_rank, self.fabric.world_size)

    def epoch(self, watch: Watch, asked: threading.Event) -> bool:
        """One epoch, or what is left of it. False: asked to stop."""
        fabric, config, state = self.fabric, self.config, self.state
        phase = config.phase(state.epoch)
        self.enter(phase)
        plan = self.plan(state.epoch)
        tally = Tally(state.sums, self.device)
        rows = phase.needs.rows(plan.first.shape[1]) * fabric.world_size
        watch.epoch_starts(state.epoch, state.images)
        start, first, before = time.perf_counter(), state.within, state.seconds
        for batch, draw in self.feed.batches(plan, state.within):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(config, state.epoch + state.within / len(plan))
            parts = self.model(batch, draw)
            fabric.backward(parts["loss"])
            self.stepper.step()
            self.stepper.zero_grad(set_to_none=True)
            self.average.update(state.step)
            tally.add(parts, state.step)
            state.step, state.within, state.images = state.step + 1, state.within + 1, state.images + rows
            watch.step(rows)
            look = state.step % CHECK_EVERY == 0
            if look or self.alone_on_cpu:
                self.must_be_finite(tally)
            if state.within < len(plan) and self.must_stop(asked, look):
                self.must_be_finite(tally)
                state.sums, state.seconds = tally.sums(), before + time.perf_counter() - start
                self.save()
                return False
        self.must_be_finite(tally)
        sums = tally.sums()  # waits for the device: the clock below is honest
        state.seconds = before + time.perf_counter() - start
        speed = rows * max(state.within - first, 1) / (state.seconds - before)
        stop = self.must_stop(asked, look=True)
        self.end_epoch(watch, sums, speed, stop)
        return not stop

    def end_epoch(self, watch: Watch, sums: dict[str, float], speed: float, stop: bool) -> None:
        """Log, validate, save."""
        fabric, config, state = self.fabric, self.config, self.state
        means = torch.tensor(list(sums.values()), dtype=torch.float64) / state.within
        means = fabric.all_reduce(means)  # type: ignore[assignment]
        state.epoch, state.within, state.sums = state.epoch + 1, 0, {}
        row: dict[str, Any] = {"epoch": state.epoch, "step": state.step, **dict(zip(sums, means.tolist()))}
        row["accuracy"] *= 100
        row |= {"lr": self.optimizer.param_groups[0]["lr"], "images_per_second": speed, "seconds": state.seconds}
        last = state.epoch == config.epochs
        better = last and self.val is None
        if self.val is not None and (last or state.epoch % config.validate_every == 0):
            found: dict[str, float] = fabric.broadcast(self.validate() if fabric.is_global_zero else {})
            row |= {f"val_{name}": value for name, value in found.items()}
            better = state.best is None or found["score"] > state.best["score"]
        state.history.append(row)
        if better:
            state.best = {k.removeprefix("val_"): v for k, v in row.items() if k in ("epoch", "step") or "val_" in k}
        watch.epoch_ends(state.history, self.rows_left() / speed)
        if better or last or stop or state.epoch % config.checkpoint_every == 0:
            self.save()

    def validate(self) -> dict[str, float]:
        labels, episodes = np.asarray(self.val.labels), self.config.validation_episodes  # type: ignore[union-attr]
        with self.fabric.autocast():
            features = embed(self.average.module, self.val.pixels, self.device)  # type: ignore[arg-type,union-attr]
        return validate(features, labels, episodes)

    def rows_left(self) -> int:
        """Pictures still to pass; a later phase may pass more of them a step."""
        config, rows, done = self.config, 0, self.state.epoch
        for phase in config.phases:
            end = max(done, round(phase.until * config.epochs))
            rows, done = rows + (end - done) * rows_per_epoch(config, phase, len(self.labels)), end
        return rows

    def must_be_finite(self, tally: Tally) -> None:
        bad = tally.first_bad(self.fabric)
        if bad is not None:
            last = checkpoint.latest(self.out)
            raise UserError(
                f"the loss is not a number at step {bad} (epoch {self.state.epoch + 1}): lower lr, or add warmup, and "
                f"start again; the last good checkpoint is {str(last) if last else 'none'}"
            )

    def must_stop(self, asked: threading.Event, look: bool) -> bool:
        """Has this process, or any other, been asked to stop? Several of them agree only now and then."""
        if self.fabric.world_size == 1:
            return asked.is_set()
        if look and bool(self.fabric.all_reduce(torch.tensor(float(asked.is_set())), reduce_op="sum")):
            asked.set()
            return True
        return False

    def identity(self) -> dict[str, Any]:
        return {"train": self.config.to_dict(), "model": self.about, "base_images": len(self.labels)}

    def save(self) -> None:
        if self.fabric.is_global_zero:
            own = {f"learner.{name}": t for name, t in self.learner.state_dict().items()}
            tensors, state = own | optimizer_tensors(self.optimizer), self.state
            model = self.average.module.state_dict()
            checkpoint.save(self.out, state.step, self.identity(), model, tensors, {"state": vars(state)})
            if state.best:
                write_json(self.out / "best.json", state.best)
            checkpoint.prune(self.out, keep=[best(self.out)])
        self.fabric.barrier()

    def begin(self, resume: bool) -> None:
        """Start afresh in an empty folder, or take everything from the last checkpoint."""
        last = checkpoint.latest(self.out)
        if not resume:
            if last is not None:
                raise UserError(
                    f"{str(self.out)!r} holds a run already: continue it with --resume, or choose another --out"
                )
            self.fabric.barrier()
            self.save()  # so that a run can be resumed whenever it is killed
            return
        if last is None:
            raise UserError(f"there is no checkpoint in {str(self.out)!r} to resume from: start without --resume")
        saved = checkpoint.load(last)
        changed = differences(saved.config, self.identity())
        if changed:
            raise UserError(
                f"the run in {str(self.out)!r} was started with {'; '.join(changed)}: resume with the same settings, "
                f"or start a new run in another folder"
            )
        own = {k.removeprefix("learner."): t for k, t in saved.tensors.items() if k.startswith("learner.")}
        model_files.load_into(self.learner, own, last)
        model_files.load_into(self.average.module, saved.model, last)
        restore_optimizer(self.optimizer, {k: t for k, t in saved.tensors.items() if k.startswith("optimizer.")})
        vars(self.state).update(saved.scalars["state"])

    def told_before(self) -> dict[str, Any] | None:
        """The result of a run that was finished earlier, its clock untouched."""
        try:
            return json.loads((self.out / RESULT).read_text())
        except (OSError, ValueError):  # killed between its last checkpoint and its result
            return None

    def result(self, finished: bool) -> dict[str, Any]:
        state = self.state
        result = {
            "schema": "protoadapt-run/1",
            **{"finished": finished, "run": self.out.name, "best": state.best, "steps": state.step},
            **{"seconds": state.seconds, "start_up_seconds": self.start_up, "images": state.images},
            "wall_seconds": time.perf_counter() - self.born,
            "images_per_second": state.images / state.seconds if state.seconds else 0.0,
            **{"config": self.config.to_dict(), "history": state.history},
            **{"processes": self.fabric.world_size, "versions": versions(), "hardware": hardware(self.device)},
            "commit": commit(),
        }
        if self.fabric.is_global_zero and finished:
            write_json(self.out / RESULT, result)
        return result
