"""What the campaign of benchmarks/faults.py damages: odd values, changes of files, a small world, and its commands."""

import importlib
import json
import os
import pkgutil
import shutil
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import load_file

import protoadapt
from benchmarks.synthetic import synthetic_features
from paper.networks import save_fp16
from protoadapt import save_features
from protoadapt.cli import main
from protoadapt.vision.networks.backbones import build

SIDE, LONGEST, MOST_GB, CRASHED = 16, 120.0, 4.0, 70
TRAINING = [f"--set={one}" for one in ("backbone=conv4", "width=4", f"size={SIDE}", "batch=8", "epochs=2")]
TRAINING += ["--set=validation_episodes=4", "--device=cpu"]
EVALUATION = ["--way", 2, "--query", 2, "--episodes", 2]
OWN = {"extract": "x.safetensors", "label": "named/**/*", "label again": "named/**/*", "manifest": "list.jsonl"}
OWN |= {"parts": "parts/*", "suggest": "next/next.csv", "evaluate": "result.json", "export": "network.onnx"}
OWN |= {"dataset": "hub/**/*", "train": "run/checkpoints/step-00000008/*.safetensors"}
"""The commands that are killed and doubled, and what each makes."""


Rng = np.random.Generator
NUMBERS = [0, 1, -1, 2, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 2**31, 2**53, -(2**63)]
TEXTS = ["", "x", "\0", "..", "/", "é", "\ud800", "1", "nan", "unknown", '"', "'", "=1+1", "../../x", "\r", ";"]
LARGE = [10**24, 10**400, "a" * 3000, "a" * 200_000]
NESTED = [[], [1], [None], [[1]], {}, {"a": 1}, [0.2] * 5, ["a", "b"], [float("nan")] * 3]
ODD: list[Any] = [None, True, False, *NUMBERS, *TEXTS, *LARGE, *NESTED]
"""Values that files and users give and nobody expects."""


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


def check(condition: bool, problem: str) -> None:
    if not condition:
        raise AssertionError(problem)


class World:
    """The folder `place`: pictures, a model and what every command makes of them (`right`). Cases work in `out`."""

    def __init__(self, place: Path):
        self.place = place.resolve()
        self.right: dict[str, dict[str, Any]] = {}
        self.build()

    @property
    def out(self) -> Path:
        """One folder for each process that runs cases."""
        return self.place / f"out-{os.getpid()}"

    def build(self) -> None:
        rng, place = np.random.default_rng(0), self.place
        folders = {"images": ("abc", 6), "support": ("abc", 2), "others": ("abd", 1), "classes": ("abcdefgh", 8)}
        for folder, (names, each) in folders.items():
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
        for name in OWN:
            out = self.before(name)
            code, said = ended(started(self.commands(out)[name], out), out)
            check(code == 0, f"{name} fails without any fault: {said}")
            self.right[name] = made(out, OWN[name])
            out.rename(place / name)
        self.pictures = {f"{one.parent.name}.png": one.read_bytes() for one in sorted(place.glob("images/*/0.png"))}

    def commands(self, out: Path) -> dict[str, list[Any]]:
        """What is killed and doubled: each may run again."""
        place, model = self.place, self.place / "model.safetensors"
        named = ["--images", place / "images", "--model", model, "--device", "cpu", "--support"]
        sort = ["--sort", "copy", "--out", out / "named"]
        labels = place / "label/named/labels.json"
        parts = ["extract", model, "--manifest", place / "manifest/list.jsonl"]
        again = any(out.glob("run/checkpoints/step*"))
        begun = ["--resume"] if again else ["hct_r", "--dataset", "folder", *TRAINING]
        return {
            "extract": ["extract", model, "--images", place / "images", "--out", out / "x.safetensors"],
            "label": ["label", *named, place / "support", *sort],
            "label again": ["label", *named, place / "others", *sort],
            "manifest": ["manifest", place / "images", "--out", out / "list.jsonl", "--shard-size", 5],
            "parts": [*parts, "--out", out / "parts", "--workers", 1],
            "suggest": ["suggest", *named, place / "support", "--out", out / "next", "--n", 4],
            "evaluate": ["evaluate", place / "f.safetensors", *EVALUATION, "--json", out / "result.json"],
            "export": ["export", model, "--out", out / "network.onnx"],
            "dataset": ["export", labels, "--images", place / "images", "--out", out / "hub"],
            "train": ["train", *begun, "--data", place / "classes", "--out", out / "run"],
        }

    def before(self, name: str) -> Path:
        """The folder of a case as a command meets it: empty, but for the files of an earlier run."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        if name == "label again":
            shutil.copytree(self.place / "label/named", self.out / "named")
        return self.out


def made(out: Path, pattern: str) -> dict[str, Any]:
    """What a command made, without times: tensors by value, files by content; of JSON only that it is whole."""
    found: dict[str, Any] = {}
    for file in sorted(out.glob(pattern)):
        key, kind = str(file.relative_to(out)), file.suffix
        if not file.is_file() or ".features" in key or kind == ".partial":
            continue
        if kind in (".json", ".jsonl", ".html"):
            text = file.read_text()
            if kind == ".html":
                check("</html>" in text, f"half of {key}")
            for part in text.splitlines() if kind == ".jsonl" else [text] * (kind == ".json"):
                json.loads(part)
            found[key] = None
        elif kind == ".safetensors":
            found[key] = {name: one.tobytes() for name, one in load_file(file).items()}
        else:
            found[key] = file.read_bytes()
    return found


def warm(world: World) -> None:
    """Loads everything, and runs every command in this process, so that a forked one need neither load nor compile."""
    for module in pkgutil.walk_packages(protoadapt.__path__, "protoadapt."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for name in OWN:
            out = world.before(name)
            sys.argv = ["protoadapt", *map(str, world.commands(out)[name])]
            with suppress(SystemExit):
                main()


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
