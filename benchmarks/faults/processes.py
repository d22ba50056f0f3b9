"""Cases of processes: commands that are killed, starved of disk, memory, rights or descriptors, or run twice at once.

A command runs in a child of this process, which has loaded everything: a case takes a second, not ten. After the fault
the same command runs undisturbed and must make what it makes without any fault.
"""

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from benchmarks.faults.damage import Rng
from benchmarks.faults.reading import check
from benchmarks.faults.world import World
from protoadapt.cli import main
from protoadapt.core.parts import check_part, read_lists, read_rows
from protoadapt.training import checkpoint

COMMANDS = ("label", "extract", "shards", "suggest", "train")
CRASHED = 70
LONGEST = 120.0
"""Seconds of wall time after which a command counts as hung; the machine may be busy with other things."""
NOBODY = 65534


def started(world: World, name: str, out: Path, limit: Callable[[], None] = lambda: None) -> int:
    """The number of a child process that runs a command; what it says is in out/said."""
    words = world.commands(out)[name]
    said = out / "said"
    child = os.fork()
    if child:
        return child
    code = CRASHED
    try:
        os.setpgid(0, 0)
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["protoadapt", *map(str, words)]
        limit()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def ended(child: int, out: Path) -> int:
    """Waits for a child. Raises AssertionError where it hangs, dies or prints a traceback."""
    begin = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() - begin > LONGEST:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("it hangs")
        time.sleep(0.01)
    said = (out / "said").read_text(errors="replace") if (out / "said").exists() else ""
    check(os.WIFEXITED(status), f"it died of signal {os.WTERMSIG(status) if os.WIFSIGNALED(status) else status}")
    code = os.WEXITSTATUS(status)
    check("Traceback" not in said and code in (0, 1, 2), f"exit code {code}: {said[-1500:]}")
    return code


def undisturbed(world: World, name: str, out: Path) -> None:
    """Runs a command to its end, and compares what it made with what it makes without any fault."""
    code = ended(started(world, name, out), out)
    said = (out / "said").read_text()
    check(code == 0, f"refused afterwards: {said[-500:]}")
    made, expected = made_by(name, out), made_by(name, world.place)
    for key in expected:
        check(made.get(key) == expected[key], f"{key} is lost or changed")
    left = [str(path.relative_to(out)) for path in out.rglob("*.partial")]
    check(not left, f"half-written files are left: {left[:3]}")


def made_by(name: str, out: Path) -> dict[str, Any]:
    """What a command made, without times."""
    if name == "train":
        run = out / "run"
        weights = checkpoint.load_latest(run)
        tensors = {key: tensor.numpy().tobytes() for key, tensor in (weights.model | weights.tensors).items()}
        best = json.loads((run / "best.json").read_text())
        return tensors | {"best": best, "finished": json.loads((run / "result.json").read_text())["finished"]}
    if name == "extract":
        features = load_file(out / "f.safetensors")
        return {key: value.tobytes() for key, value in features.items()}
    if name == "shards":
        parts = [check_part(out / "shards", n) for n in range(len(list((out / "shards").glob("part-*.npy"))))]
        # By value: where memory is short another engine computes, which may write -0 for 0.
        return {part.path.name: (read_rows(part).tolist(), read_lists(part)) for part in parts}
    if name == "suggest":
        return _files(out / "next", "next.csv")
    labels = json.loads((out / "named" / "labels.json").read_text())
    report = {"report.html": (out / "named" / "report.html").exists(), "classes": labels["classes"]}
    classifier = load_file(out / "named" / "classifier.safetensors")
    report |= {key: value.tobytes() for key, value in classifier.items()}
    return report | _files(out / "named", "labels.csv") | _files(out / "named" / "sorted", "**/*.png")


def _files(folder: Path, pattern: str) -> dict[str, str]:
    files = sorted(folder.glob(pattern))
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def fresh(world: World, name: str = "") -> Path:
    """An empty folder for what a command makes."""
    check(world.warm, "commands fail without any fault")
    out = world.scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    if name == "shards":
        shutil.copy2(world.place / "list.jsonl", out / "list.jsonl")
    return out


def kills(rng: Rng, world: World) -> str:
    """A command is killed at a random moment, perhaps twice, and then runs to its end."""
    name = COMMANDS[rng.integers(len(COMMANDS))]
    out = fresh(world, name)
    duration = world.durations.get(name)
    if duration is None:
        begin = time.monotonic()
        undisturbed(world, name, out)
        duration = world.durations[name] = time.monotonic() - begin
        out = fresh(world, name)
    if rng.random() < 0.3:
        undisturbed(world, name, out)  # a killed second run must not harm what the first has made
    for _ in range(rng.integers(1, 3)):
        child = started(world, name, out)
        time.sleep(rng.uniform(0, 1.1 * duration))
        for kill, target in ((os.killpg, child), (os.kill, child)):
            try:
                kill(target, signal.SIGKILL)
            except ProcessLookupError:
                continue
        os.waitpid(child, 0)
    undisturbed(world, name, out)
    return name


def limits(rng: Rng, world: World) -> str:
    """A command runs with too little of something: it ends with a sentence, and later makes what it should."""
    name = COMMANDS[rng.integers(len(COMMANDS))]
    kinds: dict[str, Callable[[], None]] = {
        "disk": lambda: set_limit(resource.RLIMIT_FSIZE, int(2 ** rng.uniform(0, 17))),
        "descriptors": lambda: set_limit(resource.RLIMIT_NOFILE, int(rng.integers(4, 40))),
        "memory": lambda: set_limit(resource.RLIMIT_AS, _address_space() + int(2 ** rng.uniform(10, 28))),
        "rights": _without_rights,
    }
    kind = list(kinds)[rng.integers(len(kinds))]
    out = fresh(world, name)
    before = rng.random() < 0.4
    if before:
        undisturbed(world, name, out)
    if kind == "rights":
        (out / "said").touch()
        (out / "said").chmod(0o666)
        out.chmod(0o755)
    code = ended(started(world, name, out, kinds[kind]), out)
    if code == 0 and not (kind == "rights" and before):
        check(made_by(name, out) == made_by(name, world.place), "it ended with 0 and made something else")
    out.chmod(0o777)
    undisturbed(world, name, out)
    return f"{kind}, {'refused' if code else 'done'}"


def set_limit(which: int, value: int) -> None:
    resource.setrlimit(which, (value, resource.getrlimit(which)[1]))


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _without_rights() -> None:
    """A user who may read everything here and write nothing."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def together(rng: Rng, world: World) -> str:
    """Two processes run the same command into the same folder: what is there in the end is right."""
    name = COMMANDS[rng.integers(len(COMMANDS) - 1)]  # a run has one process by definition, or several that know
    out = fresh(world, name)
    first = started(world, name, out)
    time.sleep(rng.uniform(0, 0.5))
    second = started(world, name, out)
    codes = sorted(ended(child, out) for child in (first, second))
    check(codes[0] == 0, f"neither ended well: {(out / 'said').read_text()[-500:]}")
    undisturbed(world, name, out)
    return "both done" if codes == [0, 0] else "one refused"
