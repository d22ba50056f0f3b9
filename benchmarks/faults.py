"""A campaign against protoadapt, run by hand: changed files, odd numbers, odd requests, killed and doubled commands.

    python -m benchmarks.faults --json results/faults.json       every part, about an hour of two cores; needs cc
    python -m benchmarks.faults --part files --case 17           one case again, with what it said

Commands run as users run them, each in a fork of this process, which has loaded everything. A case is a *finding* if it
ends in a traceback, hangs, takes more than 4 GB, or if an answer is lost or changed. Case i of a part depends on
(seed, part, i) alone. Only what a user meets is used: commands, files, requests.
"""

import ctypes
import json
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from benchmarks import measure
from benchmarks.fault_world import (
    CHANGES,
    EVALUATION,
    LONGEST,
    ODD,
    OWN,
    Rng,
    World,
    changed_bytes,
    changed_text,
    changed_value,
    check,
    ended,
    made,
    started,
    stop,
    warm,
)
from benchmarks.synthetic import synthetic_features
from protoadapt import Protocol, UserError, evaluate
from protoadapt.core.methods import METHODS, declarations, method

# The parts. Each case says how it ended.


def readers(world: World) -> dict[str, tuple[str, list[Any]]]:
    """Kind of file → what is copied (of a folder, any file in it is changed), and the command that reads it; PATH
    stands for the copy."""
    place, model, out = world.place, world.place / "model.safetensors", world.out
    examples = ["--support", place / "support"]
    label = ["label", "--images", place / "images", "--model", model, "--out", out / "named"]
    tables = [*label, "--support", "PATH", *examples]
    evaluate = ["evaluate", "PATH", *EVALUATION]
    embed = ["extract", "PATH", "--images", place / "images", "--out", out / "x.safetensors"]
    report = ["report", "PATH", "--out", out / "report.html"]
    parts = ["extract", model, "--manifest", "PATH", "--out", out / "parts", "--workers", 1]
    pixels = ["extract", model, "--images", place / "images", "--out", out / "x.safetensors", "--cache", "PATH"]
    pictures = ["extract", model, "--images", "PATH", "--skip-corrupt", "--out", out / "x.safetensors"]
    dataset = ["export", "PATH", "--images", place / "images", "--out", out / "d"]
    return {
        "features": ("f.safetensors", evaluate),
        "features, npz": ("f.npz", evaluate),
        "pictures": ("images", pictures),
        "table of labels": ("label/named/labels.csv", tables),
        "table of suggestions": ("suggest/next/next.csv", tables),
        "labels": ("label/named/labels.json", report),
        "labels, exported": ("label/named/labels.json", dataset),
        "result": ("evaluate/result.json", report),
        "manifest": ("manifest/list.jsonl", parts),
        "parts": ("parts/parts", ["label", "--features", "PATH", *examples, "--model", model, "--out", out / "named"]),
        "run": ("train/run", ["train", "--resume", "--data", place / "classes", "--out", "PATH"]),
        "model": ("model.safetensors", embed),
        "network, ONNX": ("export/network.onnx", embed),
        "classifier": ("label/named/classifier.safetensors", ["predict", "PATH", place / "images/a/0.png"]),
        "kept features": ("label/named/.features", [*label, *examples, "--cache", "PATH"]),
        "kept pixels": ("extract/.protoadapt-cache", pixels),
    }


KEPT = {"kept features": ("label", "named/*.csv"), "kept pixels": ("extract", "x.safetensors")}
"""Kinds of files that hold what was computed: the command that wrote them, and its answers."""


def files(rng: Rng, world: World, number: int) -> str:
    """A changed file is refused in a sentence, or read; features and pixels that are kept never change an answer."""
    kinds = readers(world)
    kind = list(kinds)[number % len(kinds)]
    name, words = kinds[kind]
    out = world.before(kind)
    source, path = world.place / name, out / Path(name).name
    (shutil.copytree if source.is_dir() else shutil.copy2)(source, path)
    inside = sorted(one for one in ([path] if path.is_file() else path.rglob("*")) if one.is_file())
    file = inside[rng.integers(len(inside))]
    change = CHANGES.get(file.suffix, changed_bytes) if rng.random() < 0.5 else changed_bytes
    file.write_bytes(change(rng, file.read_bytes()))
    code, _ = ended(started([path if word == "PATH" else word for word in words], out), out)
    if code == 0 and kind in KEPT:
        command, answers = KEPT[kind]
        check(made(out, answers) == made(world.place / command, answers), "answers are changed")
    return "refused" if code else "read"


def undisturbed(world: World, name: str) -> None:
    """Runs a command to its end; it must make what it made without any fault. An export wants a new folder."""
    if name == "dataset" and made(world.out, OWN[name]) == world.right[name]:
        return
    code, said = ended(started(world.commands(world.out)[name], world.out), world.out)
    check(code == 0, f"{name} is refused afterwards: {said[-500:]}")
    expected, there = world.right[name], made(world.out, OWN[name])
    wrong = [key for key in expected.keys() | there.keys() if key not in there or there[key] != expected.get(key, 0)]
    check(not wrong, f"{name}: {wrong[:3]} are lost, changed or left over")


Arm = Callable[[], None]


def arming(point: int, folder: Path) -> tuple[Arm, Any]:
    """What a child calls to be killed at that change to a folder's files, and memory in which kill.c counts them."""
    met = (ctypes.c_long * 2).from_buffer(mmap.mmap(-1, 16))
    return partial(ctypes.CDLL(None).arm, ctypes.c_long(point), str(folder).encode(), met), met


AIMS: list[tuple[str, int]] = []
STATES: list[dict[str, Any]] = []
"""Commands and their changes; what the board of `worked` holds after each step."""


def aim(world: World, names: Sequence[str]) -> None:
    """Finds all changes of commands, and lists them in an order of chance."""
    AIMS.clear()
    for name in names:
        out = world.before(name)
        arm, met = arming(-1, out)
        if name == "serve":
            with served(world, out, arm) as page:
                STATES[:] = [state for _, state in worked(page, world)]
        else:
            ended(started(world.commands(out)[name], out, arm), out)
        AIMS.extend((name, point) for point in range(met[0]))
    random.Random(0).shuffle(AIMS)


def kills(rng: Rng, world: World, number: int) -> str:
    """A command is killed before a change to the file system or inside a write, then runs again: nothing is lost, and
    nothing is there by half."""
    name, point = AIMS[number]
    out = world.before(name)
    arm, met = arming(point, out)
    if name == "serve":
        board_killed(world, out, arm)
    else:
        code, _ = ended(started(world.commands(out)[name], out, arm), out)
        old = world.right["label"] if name == "label again" else {}
        for key, value in made(out, OWN[name]).items():
            check(value in (world.right[name].get(key, 0), old.get(key, 0)), f"{name}: {key} is neither old nor new")
        undisturbed(world, name)
        check(code in (0, -signal.SIGKILL), f"{name} ended with {code}")
    return f"{name} killed {['not', 'before a change', 'inside a write'][met[1]]}"


def board_killed(world: World, out: Path, arm: Arm) -> None:
    """A page whose server is killed has every step that it answered when it starts again, and at most one more."""
    done: list[Any] = []
    with suppress(httpx.TransportError), served(world, out, arm) as page:
        done += worked(page, world)
    with served(world, out) as page:
        if done:
            after = held(page, done[-1][0])
            check(after in STATES[len(done) - 1 : len(done) + 1], f"after {len(done)} steps: {after}")
        check([state for _, state in worked(page, world)] == STATES, "the page does not go on")


def together(rng: Rng, world: World, number: int) -> str:
    """Two commands at once on one folder: what is there in the end is right, and of one run."""
    names = [*OWN][:-1]  # not training
    first = names[number % len(names)]
    second = "label again" if first == "label" else first
    out = world.before(first)
    children = [started(world.commands(out)[first], out, said="first")]
    time.sleep(rng.uniform(0, 0.5))
    children.append(started(world.commands(out)[second], out, said="second"))
    codes = [ended(child, out, said)[0] for child, said in zip(children, ("first", "second"))]
    check(0 in codes, "neither ended well")
    check(made(out, OWN[first]) in (world.right[first], world.right[second]), f"{first}: files of two runs, or halves")
    undisturbed(world, second)
    return "both done" if codes == [0, 0] else "one refused"


def numbers(rng: Rng, world: World, number: int) -> str:
    """Whatever settings and features are, a method answers with an accuracy or one sentence; it finds classes that lie
    far apart however small or large all numbers are."""
    name = list(METHODS)[number % len(METHODS)]
    declared = declarations(METHODS[name])
    given: dict[str, Any] = {one: 2 for one in declared if one.startswith("n_")}  # steps: many are slow by right
    table = synthetic_features(6, 9, 8, spread=0.05)
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    rows = table.features.to(kinds[rng.choice(4, p=[0.6, 0.2, 0.1, 0.1])])
    base = table.base
    if scaled := rng.random() < 0.4:
        rows, base = rows * 10.0 ** rng.integers(-40, 40), {}
    else:
        rows[rng.integers(len(rows))] *= [1.0, 0.0, -1.0, 1e-30, 1e25, float("nan"), float("inf")][rng.integers(7)]
        for one in rng.choice([*declared, "x"], rng.integers(3)):
            given[one] = [ODD[rng.integers(len(ODD))], rng.integers(-5, 20), rng.uniform(1e-3, 20)][rng.integers(3)]
    try:
        protocol = Protocol(way=3, query=2)
        result = evaluate(rows, table.labels, method(name, **given), protocol, episodes=2, **base)
        check(0 <= result.accuracy <= 100, f"{name} {given}: an accuracy of {result.accuracy}")
        lost = scaled and bool(rows.any(1).all()) and result.accuracy < 90
        check(not lost, f"{name}: {result.accuracy} at {rows.abs().max()} in {rows.dtype}")
    except UserError as error:
        check("\n" not in str(error).strip(), f"several lines: {error}")
        return "refused"
    return "answered"


@contextmanager
def served(world: World, out: Path, before: Arm = lambda: None) -> Iterator[httpx.Client]:
    """The page of a server, which is killed at the end."""
    words = ["serve", "--model", world.place / "model.safetensors", "--port", 0, "--keep", out / "kept"]
    words += ["--classifier", world.place / "label/named/classifier.safetensors"]
    child = started(words, out, before)
    begin = time.monotonic()
    said = ""
    try:
        while "http://" not in said or not said.endswith("\n"):
            check(time.monotonic() - begin < LONGEST, "the server does not start")
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                raise httpx.ConnectError(f"the server ended: {said}")
            time.sleep(0.01)
            said = (out / "said").read_text()
        host, _, entry = said.partition("http://")[2].split()[0].partition("/")
        with httpx.Client(base_url=f"http://{host}", timeout=LONGEST, trust_env=False) as page:
            page.get(f"/{entry}")  # with its token, which becomes a cookie
            yield page
        said = (out / "said").read_text()
        check("Traceback" not in said, said[-2000:])
    finally:
        stop(child)


FORM = "multipart/form-data; boundary=edge"


def form(pictures: dict[str, bytes]) -> bytes:
    """The body of an upload."""
    named = [("files", picture) for picture in pictures.items()]
    return httpx.Request("POST", "http://x", files=named, headers={"Content-Type": FORM}).read()


def held(page: httpx.Client, path: str) -> dict[str, Any]:
    """What a board has and keeps."""
    board = page.get(path, params={"names": False}).json()
    return {key: board[key] for key in ("pictures", "classes", "labels", "gone", "undo", "redo")}


def worked(page: httpx.Client, world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """A new board, and what it holds after each step that was answered."""
    path = f"/api/boards/{page.post('/api/boards').json()['id']}"
    yield path, held(page, path)
    uploaded = page.post(f"{path}/pictures", content=form(world.pictures), headers={"Content-Type": FORM})
    check(uploaded.status_code == 200, f"the board takes no pictures: {uploaded.text}")
    yield path, held(page, path)
    named = {"patch": {"classes": ["a", "b"], "labels": {"0": "a", "1": "b"}}}
    for step in (named, {"patch": {"gone": {"2": True}}}, {"undo": 1}):
        answer = page.post(f"{path}/changes", params={"revision": page.get(path).json()["revision"]}, json=[step])
        check(answer.status_code == 200, f"the board takes no step: {answer.text}")
        yield path, held(page, path)


def requests(rng: Rng, world: World, number: int) -> dict[str, int]:
    """Twenty odd requests to the page are answered below 500; killed and started again, it has every step."""
    out = world.before("serve")
    picture, ends = world.pictures["a.png"], Counter[str]()
    table = "\n".join(["file,label", *(f"{name},a" for name in world.pictures)]).encode()
    step = {"patch": {"labels": {"0": "a", "1": "b"}, "gone": {"2": True}}, "words": "x"}
    with served(world, out) as page:
        *_, (path, _) = worked(page, world)
        for _ in range(20):
            changes = f"{path}/changes?revision={page.get(path).json()['revision']}"
            steps = json.dumps(changed_value(rng, [step, {"undo": 1}])).encode()
            upload = form({"x.png": changed_bytes(rng, picture)})
            verb, where, body, kind = [
                ("POST", changes, steps, "application/json"),
                ("POST", changes, changed_bytes(rng, steps), "application/json"),
                ("POST", f"{path}/table", changed_text(rng, table), "text/csv"),
                ("POST", f"{path}/pictures", upload, FORM),
                ("POST", f"{path}/pictures", changed_bytes(rng, upload), FORM),
                ("POST", "/api/predict", changed_bytes(rng, picture), "image/png"),
                ("GET", path + ["/small/9", "/huge/0", "/map", "/x", "/%00"][rng.integers(5)], b"", ""),
                ("RAW", path, changed_bytes(rng, f"POST {changes} HTTP/1.1\r\n\r\n".encode() + steps), ""),
            ][rng.integers(8)]
            if verb == "RAW":
                status = raw(page, body)
            else:
                status = page.request(verb, where, content=body, headers={"Content-Type": kind}).status_code
            check(status < 500, f"{verb} {where}: {status} for {body[:500]!r}")
            ends["answered" if status < 400 else "refused"] += 1
        before = held(page, path)
    with served(world, out) as page:
        check(before == held(page, path), "steps are lost or changed")
    return ends


def raw(page: httpx.Client, sent: bytes) -> int:
    """The status that bytes are answered with; 400 where the connection is closed."""
    place = page.base_url.host, page.base_url.port
    with suppress(OSError), socket.create_connection(place, timeout=LONGEST) as line:
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)
        return int((line.makefile("rb").readline().split() or [b"", b"400"])[1])
    return 400


PARTS: dict[str, tuple[Callable[[Rng, World, int], str | dict[str, int]], int]] = {
    "files": (files, 4500),
    "numbers": (numbers, 4000),
    "kills": (kills, 0),
    "together": (together, 63),
    "requests": (requests, 100),
}
"""The cases of each part, and how many a campaign has; every kill that can be aimed."""


def run_case(part: str, seed: int, world: World, number: int) -> tuple[str | dict[str, int], str]:
    """How a case ended, and the finding: empty where there is none."""
    rng = np.random.default_rng([seed, list(PARTS).index(part), number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return PARTS[part][0](rng, world, number), ""
        except Exception as error:
            return "found", "".join(traceback.format_exception(error, limit=-6))[-3000:]


def preloaded(place: Path) -> dict[str, str]:
    """The environment of a process that kill.c may kill."""
    library = place / "kill.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("kill.c"), "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


def run() -> None:
    parser = measure.arguments(__doc__, seed=0, share=1.0, jobs=2)
    parser.add_argument("--part", choices=PARTS, action="append", help="these parts only; repeatable")
    parser.add_argument("--case", type=int, help="one case again")
    chosen = parser.parse_args()
    place = Path(tempfile.gettempdir()) / f"protoadapt-faults-{os.getpid()}"
    if not place.exists():
        place.mkdir()
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.faults", *sys.argv[1:]], preloaded(place))
    torch.set_num_threads(1)
    world = World(place)
    warm(world)
    if "kills" in (chosen.part or PARTS):
        aim(world, [*OWN, "serve"])
    if chosen.case is not None:
        end, finding = run_case(chosen.part[0], chosen.seed, world, chosen.case)
        sys.exit(finding or print(end))
    parts: dict[str, Any] = {}
    for part in chosen.part or PARTS:
        ends, findings, begin = Counter[str](), [], time.monotonic()
        cases = range(round(chosen.share * (PARTS[part][1] or len(AIMS))))
        with ProcessPoolExecutor(chosen.jobs, get_context("fork")) as pool:
            for number, (end, finding) in enumerate(pool.map(partial(run_case, part, chosen.seed, world), cases)):
                ends.update({end: 1} if isinstance(end, str) else end)
                if finding:
                    findings.append({"case": number, "what": finding})
                    print(f"FOUND {part} {number}: {finding.strip()[-300:]}", flush=True)
        parts[part] = {"done": sum(ends.values()), "ends": dict(sorted(ends.items())), "findings": findings}
        parts[part]["seconds"] = round(time.monotonic() - begin)
        print(f"{part}: {parts[part]['done']:,} cases, {len(findings)} findings, {dict(ends)}", flush=True)
        measure.write(chosen.json, {"benchmark": "faults", "seed": chosen.seed, "parts": parts})
    shutil.rmtree(place)
    sys.exit(any(part["findings"] for part in parts.values()))


if __name__ == "__main__":
    run()
