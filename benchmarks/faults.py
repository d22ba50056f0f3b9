"""A campaign against protoadapt, run by hand: changed files, odd numbers, odd requests, killed and doubled commands.

    python -m benchmarks.faults --json results/faults.json       every part, some hours; --share 0.1: a tenth of it
    python -m benchmarks.faults --part files --case 17           one case again, with what it said

Commands run as users run them, each in a fork of this process, which has loaded everything. A case is a *finding* if it
ends in a traceback, hangs, takes more than 4 GB, or if an answer is lost or changed. Case i of a part depends on
(seed, part, i) alone. Only what a user meets is used: commands, files, requests.
"""

import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import numpy as np
import torch
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load_file

import protoadapt
from benchmarks import measure
from benchmarks.synthetic import synthetic_features
from paper.networks import save_fp16
from protoadapt import Protocol, UserError, evaluate, save_features
from protoadapt.cli import main
from protoadapt.core.methods import METHODS, declarations, method
from protoadapt.vision.networks.backbones import build

Rng = np.random.Generator
SIDE, LONGEST, MOST_GB, CRASHED = 16, 120.0, 4.0, 70
NUMBERS = [0, 1, -1, 2, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 2**31, 2**53, -(2**63)]
TEXTS = ["", "x", "\0", "..", "/", "é", "\ud800", "1", "nan", "unknown", '"', "'", "=1+1", "../../x", "\r", ";"]
LARGE = [10**24, 10**400, "a" * 3000, "a" * 200_000]
NESTED = [[], [1], [None], [[1]], {}, {"a": 1}, [0.2] * 5, ["a", "b"], [float("nan")] * 3]
ODD: list[Any] = [None, True, False, *NUMBERS, *TEXTS, *LARGE, *NESTED]
"""Values that files and users give and nobody expects."""


def check(condition: bool, problem: str) -> None:
    if not condition:
        raise AssertionError(problem)


# Changes of files: random bytes, and changes of structure that random ones hardly ever make.


def changed_bytes(rng: Rng, content: bytes) -> bytes:
    """Up to three places replaced, inserted, removed, repeated or cut; half of them near the beginning."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, span = int(rng.integers(min(len(data), 512 if rng.random() < 0.5 else len(data)) or 1)), rng.integers(1, 17)
        put = [rng.bytes(span), b"", b"\0" * span, b"\xff" * span, bytes(data[at : at + span]) * 2][rng.integers(5)]
        end = [at, at + span, len(data)][rng.choice(3, p=[0.3, 0.6, 0.1])]
        data[at:end] = put
    return bytes(data)


def changed_text(rng: Rng, content: bytes) -> bytes:
    """A line removed, repeated or moved, a field replaced, other line ends, separators or encodings."""
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    cells = lines[at].split(b",")
    odd = str(ODD[rng.integers(len(ODD))]).encode("utf-8", "surrogatepass")
    cells[rng.integers(len(cells))] = b"\xff" if rng.random() < 0.1 else odd
    ways = [
        b"\n".join([*lines[:at], b",".join(cells), *lines[at + 1 :]]),
        b"\n".join(lines[:at] + lines[at + 1 :]),
        b"\n".join(lines[: at + 1] + lines[at:]),
        b"\n".join(lines[at:] + lines[:at]),
        content.replace(b"\n", b"\r\n"),
        content.replace(b",", b";"),
        content.decode("utf-8", "replace").encode("utf-16"),
    ]
    return ways[rng.integers(len(ways)) if rng.random() < 0.6 else 0]


def changed_value(rng: Rng, value: Any) -> Any:
    """The same value with one part of it replaced, removed or repeated."""
    odd = ODD[rng.integers(len(ODD))]
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key, draw = list(value)[rng.integers(len(value))], rng.random()
        if draw < 0.15:
            return {name: one for name, one in value.items() if name != key}
        return value | ({str(odd): odd} if draw < 0.2 else {key: changed_value(rng, value[key])})
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = int(rng.integers(len(value)))
        middle = [[], [value[at]] * 2, [changed_value(rng, value[at])]][rng.choice(3, p=[0.1, 0.1, 0.8])]
        return [*value[:at], *middle, *value[at + 1 :]]
    return odd


def changed_json(rng: Rng, content: bytes) -> bytes:
    return json.dumps(changed_value(rng, json.loads(content))).encode()


def changed_safetensors(rng: Rng, content: bytes) -> bytes:
    """The header, or the JSON inside its metadata, changed as JSON; the lengths fit again."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    inside = header.get("__metadata__", {})
    if inside and rng.random() < 0.6:
        key = list(inside)[rng.integers(len(inside))]
        with suppress(ValueError):
            inside[key] = json.dumps(changed_value(rng, json.loads(inside[key])))
    else:
        header = changed_value(rng, header)
    text = json.dumps(header).encode()
    length = len(text) if rng.random() < 0.95 else int(rng.integers(2**62))
    return struct.pack("<Q", length) + text + content[8 + size :]


def changed_npy(rng: Rng, content: bytes) -> bytes:
    """Another type or shape in the header of the first array, in as many bytes."""
    at, end = content.index(b"{'descr'"), content.index(b"\n", content.index(b"{'descr'"))
    kind = ["'|O'", "'<f8'", "'<U9'", "'>i2'", "'<M8[s]'", "[('a', '<f4')]", "__import__"][rng.integers(7)]
    shape = ["(3,)", "(1000000000000,)", "(-1, 4)", "(0,)", "()", "(" * 50, "(9**9**9,)", "(None,)"][rng.integers(8)]
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return content[:at] + text.ljust(end - at)[: end - at] + content[end:]


CHANGES: dict[str, Callable[[Rng, bytes], bytes]] = {
    ".csv": changed_text,
    ".json": changed_json,
    ".jsonl": changed_text,
    ".safetensors": changed_safetensors,
    ".npy": changed_npy,
    ".npz": changed_npy,
}


# A small world to damage: pictures, a model and everything that the commands make of them.

TRAINING = [f"--set={one}" for one in ("backbone=conv4", "width=4", f"size={SIDE}", "batch=8", "epochs=2")]
TRAINING += ["--set=validation_episodes=4", "--device=cpu"]
EVALUATION = ["--way", 2, "--query", 2, "--episodes", 2]


class World:
    """The folder `place`, built once, and `out` in it, where cases work."""

    def __init__(self, place: Path):
        self.place, self.out = place, place / "out"
        self.build()

    def build(self) -> None:
        rng, place = np.random.default_rng(0), self.place
        for folder, names, each in (("images", "abc", 6), ("support", "abc", 2), ("classes", "abcdefgh", 8)):
            for shade, name in enumerate(names):
                (place / folder / name).mkdir(parents=True, exist_ok=True)
                for i in range(each):
                    noise = rng.integers(-25, 25, (20, 24, 3)) + 30 + 190 * shade // len(names)
                    image = Image.fromarray(noise.clip(0, 255).astype(np.uint8))
                    image.save(place / folder / name / f"{i}.{('png', 'jpg', 'webp', 'bmp', 'gif', 'tif')[i % 6]}")
        torch.manual_seed(0)
        about = {"backbone": "conv4", "width": 4, "size": SIDE, "mean": [0.5] * 3, "std": [0.25] * 3, "crop": "none"}
        save_fp16(build("conv4", 4).eval(), about | {"dataset": "toys"}, place / "model.safetensors")
        table = synthetic_features(6, 12, 8)
        save_features(place / "f.safetensors", table)
        np.savez(place / "f.npz", features=table.features.numpy(), labels=table.labels.numpy())
        result = ["evaluate", place / "f.safetensors", *EVALUATION, "--json", place / "result.json"]
        network = ["export", place / "model.safetensors", "--out", place / "network.onnx"]
        for name, words in {**self.commands(place), "result": result, "onnx": network}.items():
            code, said = ended(started(words, place), place)
            check(code == 0, f"{name} fails without any fault: {said}")

    def commands(self, out: Path) -> dict[str, list[Any]]:
        """What is killed and doubled: each may run again."""
        place, model = self.place, self.place / "model.safetensors"
        named = ["--support", place / "support", "--images", place / "images", "--model", model, "--device", "cpu"]
        again = any(out.glob("run/checkpoints/step*"))
        begun = ["--resume"] if again else ["hct_r", "--dataset", "folder", *TRAINING]
        return {
            "extract": ["extract", model, "--images", place / "images", "--out", out / "x.safetensors"],
            "label": ["label", *named, "--out", out / "named", "--sort", "copy"],
            "manifest": ["manifest", place / "images", "--out", out / "list.jsonl", "--shard-size", 5],
            "parts": ["extract", model, "--manifest", place / "list.jsonl", "--out", out / "parts", "--workers", 1],
            "suggest": ["suggest", *named, "--out", out / "next", "--n", 4],
            "train": ["train", *begun, "--data", place / "classes", "--out", out / "run"],
        }


def started(words: list[Any], out: Path, before: Callable[[], None] = lambda: None, said: str = "said") -> int:
    """The number of a child that runs `protoadapt WORDS`; what it says is in a file of `out`."""
    stream = (out / said).open("w", buffering=1)
    child = os.fork()
    if child:
        stream.close()
        return child
    code = CRASHED
    try:
        os.setpgid(0, 0)
        torch.set_num_threads(1)  # others would be waited for: a fork has none of them
        sys.stdout = sys.stderr = stream
        for descriptor in (1, 2):
            os.dup2(stream.fileno(), descriptor)
        sys.argv = ["protoadapt", *map(str, words)]
        before()
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            stream.flush()
        os._exit(code)


def ended(child: int, out: Path, name: str = "said") -> tuple[int, str]:
    """Exit code, −9 where it was killed, and what a child said; a finding where it hangs, dies, grows or raises."""
    begin = time.monotonic()
    while not (found := os.wait4(child, os.WNOHANG))[0]:
        if time.monotonic() - begin > LONGEST:
            stop(child)
            raise AssertionError("it hangs")
        time.sleep(0.005)
    code, said = os.waitstatus_to_exitcode(found[1]), (out / name).read_text(errors="replace")
    check("Traceback" not in said and code in (0, 1, 2, -signal.SIGKILL), f"exit code {code}: {said[-2000:]}")
    check(found[2].ru_maxrss / 1e6 < MOST_GB, f"it took {found[2].ru_maxrss / 1e6:.1f} GB")
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    check(code != 2 or len(errors) == 1, f"not one sentence: {said[-2000:]}")
    return code, said


def stop(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


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
    pictures = ["extract", model, "--images", "PATH", "--skip-corrupt", "--out", out / "x.safetensors"]
    return {
        "features": ("f.safetensors", evaluate),
        "features, npz": ("f.npz", evaluate),
        "pictures": ("images", pictures),
        "table of labels": ("named/labels.csv", tables),
        "table of suggestions": ("next/next.csv", tables),
        "labels": ("named/labels.json", report),
        "labels, exported": ("named/labels.json", ["export", "PATH", "--images", place / "images", "--out", out / "d"]),
        "result": ("result.json", report),
        "manifest": ("list.jsonl", parts),
        "parts": ("parts", ["label", "--features", "PATH", *examples, "--model", model, "--out", out / "named"]),
        "run": ("run", ["train", "--resume", "--data", place / "classes", "--out", "PATH"]),
        "model": ("model.safetensors", embed),
        "network, ONNX": ("network.onnx", embed),
        "classifier": ("named/classifier.safetensors", ["predict", "PATH", place / "images/a/0.png"]),
        "kept features": ("named/.features", [*label, *examples, "--cache", "PATH"]),
    }


def files(rng: Rng, world: World, number: int) -> str:
    """A changed file is refused in a sentence, or read; features that are kept never change an answer."""
    kinds = readers(world)
    kind = list(kinds)[number % len(kinds)]
    name, words = kinds[kind]
    out = fresh(world)
    source, path = world.place / name, out / Path(name).name
    (shutil.copytree if source.is_dir() else shutil.copy2)(source, path)
    inside = sorted(one for one in ([path] if path.is_file() else path.rglob("*")) if one.is_file())
    file = inside[rng.integers(len(inside))]
    change = CHANGES.get(file.suffix, changed_bytes) if rng.random() < 0.5 else changed_bytes
    file.write_bytes(change(rng, file.read_bytes()))
    code, _ = ended(started([path if word == "PATH" else word for word in words], out), out)
    if code == 0 and kind == "kept features":
        check(made(out, "named/*.csv") == made(world.place, "named/*.csv"), "answers are changed")
    return "refused" if code else "read"


def fresh(world: World) -> Path:
    """The empty folder of a case."""
    shutil.rmtree(world.out, ignore_errors=True)
    world.out.mkdir()
    return world.out


def made(out: Path, pattern: str) -> dict[str, Any]:
    """What a command made, without times: tensors, tables and pictures by content; of other files that they exist."""
    found: dict[str, Any] = {}
    for file in (one for one in out.glob(pattern) if one.is_file()):
        key = str(file.relative_to(out))
        tensors = file.suffix == ".safetensors" and ".features" not in key
        content = file.read_bytes() if file.suffix in (".csv", ".png", ".jpg", ".npy") else None
        found[key] = {name: one.tobytes() for name, one in load_file(file).items()} if tensors else content
    return found


def undisturbed(world: World, name: str, out: Path) -> None:
    """Runs a command to its end; it must make what it made without any fault."""
    code, said = ended(started(world.commands(out)[name], out), out)
    check(code == 0, f"{name} is refused afterwards: {said[-500:]}")
    expected, there = made(world.place, OWN[name]), made(out, OWN[name])
    wrong = [key for key, value in expected.items() if key not in there or there[key] != value]
    check(not wrong, f"{name}: {wrong[:3]} are lost or changed")


OWN = {"extract": "x.safetensors", "label": "named/*", "manifest": "list.jsonl", "parts": "parts/*"}
OWN |= {"suggest": "next/next.csv", "train": "run/checkpoints/step-00000008/*.safetensors"}
"""What each command makes."""
WRITES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")


def kill_before(change: int, folder: Path) -> None:
    """This process kills itself before it makes so many changes to the files of a folder, as Python reports them."""
    left = [change]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (event in WRITES or writes) and str(arguments[0]).startswith(str(folder)):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def kills(rng: Rng, world: World, number: int) -> str:
    """A command is killed before its k-th change to the file system, then runs again: nothing is lost or halved."""
    name, change = list(OWN)[number % len(OWN)], number // len(OWN)
    out = fresh(world)
    code, _ = ended(started(world.commands(out)[name], out, partial(kill_before, change, out)), out)
    undisturbed(world, name, out)
    return f"{name} {'killed' if code == -signal.SIGKILL else 'has no such change'}"


def together(rng: Rng, world: World, number: int) -> str:
    """The same command twice at once on one folder: what is there in the end is right."""
    name = list(OWN)[number % (len(OWN) - 1)]  # not training
    out = fresh(world)
    first = started(world.commands(out)[name], out, said="first")
    time.sleep(rng.uniform(0, 0.5))
    second = started(world.commands(out)[name], out, said="second")
    codes = [ended(first, out, "first")[0], ended(second, out, "second")[0]]
    check(0 in codes, "neither ended well")
    undisturbed(world, name, out)
    return "both done" if codes == [0, 0] else "one refused"


def numbers(rng: Rng, world: World, number: int) -> str:
    """Whatever settings and features are, a method answers with an accuracy or one sentence."""
    name = list(METHODS)[number % len(METHODS)]
    declared = declarations(METHODS[name])
    odd = st.one_of(st.sampled_from(ODD), st.floats(), st.integers(-5, 20), st.floats(1e-3, 20))
    few = {one: 2 for one in declared if one.startswith("n_")}  # steps: many are slow by right
    table = synthetic_features(6, 9, 8)
    scales = st.sampled_from([1.0, 1.0, 0.0, -1.0, 1e-30, 1e25, float("nan"), float("inf")])

    @hypothesis.seed(int(rng.integers(2**31)))
    @hypothesis.settings(max_examples=25, deadline=None, database=None, suppress_health_check=[*hypothesis.HealthCheck])
    @hypothesis.given(st.dictionaries(st.sampled_from([*declared, "x"]), odd, max_size=2), scales, st.integers(0, 53))
    def law(arguments: dict[str, Any], scale: float, row: int) -> None:
        rows = table.features.clone()
        rows[row] *= scale
        try:
            given = method(name, **{**few, **arguments})
            result = evaluate(rows, table.labels, given, Protocol(way=3, query=2), episodes=2, **table.base)
            check(0 <= result.accuracy <= 100, f"an accuracy of {result.accuracy}")
        except UserError as error:
            check("\n" not in str(error).strip(), f"several lines: {error}")

    law()
    return "answered or refused"


@contextmanager
def served(world: World, out: Path) -> Iterator[httpx.Client]:
    """The page of a server, which is killed at the end."""
    words = ["serve", "--model", world.place / "model.safetensors", "--port", 0, "--keep", out / "kept"]
    child = started(words, out)
    begin = time.monotonic()
    said = ""
    try:
        while "http://" not in said or not said.endswith("\n"):
            check(time.monotonic() - begin < LONGEST, "the server does not start")
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


def requests(rng: Rng, world: World, number: int) -> str:
    """Twenty odd requests to the page are answered below 500; killed and started again, it has every step."""
    out = fresh(world)
    pictures = {f"{i}.png": file.read_bytes() for i, file in enumerate(sorted(world.place.glob("images/*/0.png")))}
    table = "\n".join(["file,label", *(f"{name},a" for name in pictures)]).encode()
    step = {"patch": {"labels": {"0": "a", "1": "b"}, "gone": {"2": True}}, "words": "x"}
    with served(world, out) as page:
        path = f"/api/boards/{page.post('/api/boards').json()['id']}"
        uploaded = page.post(f"{path}/pictures", content=form(pictures), headers={"Content-Type": FORM})
        check(uploaded.status_code == 200, "the board takes no pictures")
        for _ in range(20):
            changes = f"{path}/changes?revision={page.get(path).json()['revision']}"
            steps = json.dumps(changed_value(rng, [step, {"undo": 1}])).encode()
            upload = form({"x.png": changed_bytes(rng, pictures["0.png"])})
            verb, where, body, kind = [
                ("POST", changes, steps, "application/json"),
                ("POST", changes, changed_bytes(rng, steps), "application/json"),
                ("POST", f"{path}/table", changed_text(rng, table), "text/csv"),
                ("POST", f"{path}/pictures", upload, FORM),
                ("POST", f"{path}/pictures", changed_bytes(rng, upload), FORM),
                ("GET", path + ["/small/9", "/huge/0", "/map", "/x", "/%00"][rng.integers(5)], b"", ""),
            ][rng.integers(6)]
            answer = page.request(verb, where, content=body, headers={"Content-Type": kind})
            check(answer.status_code < 500, f"{verb} {where}: {answer.status_code} {answer.text[:500]!r}")
        before = page.get(path).json()
    with served(world, out) as page:
        after = page.get(path).json()
    lost = [key for key in ("pictures", "classes", "labels", "gone") if key in before and before[key] != after[key]]
    check(not lost, f"{lost} are lost or changed")
    return "every step is kept"


PARTS: dict[str, tuple[Callable[[Rng, World, int], str], int]] = {
    "files": (files, 1500),
    "numbers": (numbers, 200),
    "kills": (kills, 300),
    "together": (together, 40),
    "requests": (requests, 40),
}
"""The cases of each part, and how many a campaign has."""


def run_case(part: str, seed: int, number: int, world: World) -> tuple[str, str]:
    """How a case ended, and the finding: empty where there is none."""
    rng = np.random.default_rng([seed, list(PARTS).index(part), number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return PARTS[part][0](rng, world, number), ""
        except Exception as error:
            return "found", "".join(traceback.format_exception(error, limit=-6))[-3000:]


def warm() -> None:
    """Loads everything, so that a forked command need not."""
    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(protoadapt.__path__, "protoadapt."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)


def run() -> None:
    parser = measure.arguments(__doc__, seed=0, share=1.0)
    parser.add_argument("--part", choices=PARTS, action="append", help="these parts only; repeatable")
    parser.add_argument("--case", type=int, help="one case again")
    chosen = parser.parse_args()
    warm()
    world = World(Path(tempfile.mkdtemp(prefix="protoadapt-faults-")))
    if chosen.case is not None:
        end, finding = run_case(chosen.part[0], chosen.seed, chosen.case, world)
        sys.exit(finding or print(end))
    parts: dict[str, Any] = {}
    for part in chosen.part or PARTS:
        ends, findings, begin = Counter[str](), [], time.monotonic()
        for number in range(round(chosen.share * PARTS[part][1])):
            end, finding = run_case(part, chosen.seed, number, world)
            ends[end] += 1
            if finding:
                findings.append({"case": number, "what": finding})
                print(f"FOUND {part} {number}: {finding.strip().splitlines()[-1][:300]}", file=sys.stderr, flush=True)
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6
        parts[part] = {"done": sum(ends.values()), "ends": dict(ends), "findings": findings, "gb": round(peak, 2)}
        parts[part]["seconds"] = round(time.monotonic() - begin)
        print(f"{part}: {parts[part]['done']:,} cases, {len(findings)} findings, {dict(ends)}", flush=True)
        measure.write(chosen.json, {"benchmark": "faults", "seed": chosen.seed, "parts": parts})
    sys.exit(any(part["findings"] for part in parts.values()))


if __name__ == "__main__":
    run()
