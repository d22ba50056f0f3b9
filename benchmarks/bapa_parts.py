"""What each part and each constant of BAPA earns: one of them left out or changed at a time, on the same tasks.

    python -m benchmarks.bapa_parts --features DIR [--episodes 400] [--seed 2] [--json results/bapa-parts.json]

DIR holds NAME-val.safetensors, validation classes alone, as for `python -m paper arena`. A variant is BAPA with other
settings, or with functions or numbers of `bapa_equations` replaced; numbers are paired differences to BAPA, in points:
a part is worth what is lost without it.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from paper.arena import PROTOCOLS as ARENA
from paper.parts_page import numbers
from protoadapt.core.episodes import Episodes, draw
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.features import Features, load_features
from protoadapt.core.files import write_json
from protoadapt.core.methods import bapa_equations as equations
from protoadapt.core.methods import method
from protoadapt.core.methods.bapa_equations import BapaSettings
from protoadapt.core.methods.normalize import powered
from protoadapt.core.protocol import Protocol
from protoadapt.core.provenance import commit, hardware, versions

SHOTS = (1, 5)
PROTOCOLS = {
    **{words: ARENA[words] for words in ("balanced", "Dirichlet(2)", "Dirichlet(0.5)")},
    "5 of 10": Protocol("present", way=10),  # DTD has ten classes
    **{words: ARENA[words] for words in ("one class", "3 queries", "10 queries", "30 % foreign")},
}
DEFAULTS = method("bapa").settings
forms = import_module("protoadapt.core.methods.bapa")  # the package's `bapa` is the function
class_sizes = equations.class_sizes


def _rows_alike_in_the_centre(*given: Any, **named: Any) -> tuple[Tensor, Tensor]:
    size_term, weight = class_sizes(*given, **named)
    return size_term, torch.ones_like(weight)


def _no_size_term(*given: Any, **named: Any) -> tuple[Tensor, Tensor]:
    size_term, weight = class_sizes(*given, **named)
    return torch.zeros_like(size_term), weight


PARTS: dict[str, dict[str, Any]] = {
    "0: α without its test, N/(N + k_s)": {"trust": lambda far, spread, shots, n, k_s, k_b: n / (n + k_s) + 0 * far},
    "0: the test not cubed": {"STRICTNESS": 1},
    "0: k_s = 0": {"k_s": 0.0},
    "1: all rows alike in the centre, w = 1": {"class_sizes": _rows_alike_in_the_centre},
    "2: every row of a class, r = 0": {"shared": lambda logits, classes, doubt: logits.softmax(classes)},
    "3: h = z": {"pulls": lambda z, classes: z},
    "3: h = z²": {"pulls": lambda z, classes: z.square()},
    "3: no pseudo-rows, κ = 0": {"kappa": 0.0},
    "3: R = 0": {"RECALL": (0.0, 4.0)},
    "4: sizes always believed, g = 1": {"chance": (0.0, 0.0)},
    "4: θ² without 0.018/√r": {"chance": (0.0, equations.CHANCE[1])},
    "4: θ² without 0.3/n̄": {"chance": (equations.CHANCE[0], 0.0)},
    "5: no size term, ℓ = 0": {"class_sizes": _no_size_term},
    "5: ε = 0.01 r": {"SMOOTHING": 0.01},
    "5: nothing made equal at the end": {"SETTLED": 2.0},
    "6: T = n_iter": {"in_every_step": lambda how: True},
    "6: T without u": {"TAKING_PART": (*equations.TAKING_PART[:2], 0.0)},
    "6: T without 0.1/√P": {"TAKING_PART": (equations.TAKING_PART[0], 0.0, equations.TAKING_PART[2])},
    "r = 1: nothing falls with more labels": {"class_doubt": lambda shots: torch.ones_like(shots[..., :1, :])},
}
"""What is left out → its replacement: a field of the settings, or a name of `bapa_equations`."""
CHANGED: dict[str, dict[str, Any]] = {
    "6 steps": {"n_iter": 6},
    "24 steps": {"n_iter": 24},
    "σ = 0.12": {"sigma": 0.12},
    "σ = 0.5": {"sigma": 0.5},
    "λ = 7": {"lam": 7.0},
    "λ = 14": {"lam": 14.0},
    "κ = 1.5": {"kappa": 1.5},
    "κ = 6": {"kappa": 6.0},
    "k_s = 5": {"k_s": 5.0},
    "k_s = 20": {"k_s": 20.0},
}
"""Settings moved by a factor of about two."""


def variant(replaced: dict[str, Any]) -> Callable[[Episodes], Tensor]:
    """BAPA with some settings, functions or numbers replaced."""
    settings = {name: value for name, value in {**DEFAULTS, **replaced}.items() if name in BapaSettings._fields}
    names = {name: value for name, value in replaced.items() if name not in settings}
    how = BapaSettings(**settings)

    def run(episodes: Episodes) -> Tensor:
        with ExitStack() as changes:
            for module in (equations, forms):  # `bapa` imports names of `bapa_equations`
                for name in names.keys() & vars(module).keys():
                    changes.enter_context(patch.object(module, name, names[name]))
            return forms.gram_form(powered(episodes, DEFAULTS["beta"], DEFAULTS["power"]), how)

    return run


def measure(table: Features, protocol: Protocol, episodes: int, seed: int, device: str) -> dict[str, list[float]]:
    """Variant → paired difference to BAPA and its half-width over episodes; "BAPA" → its accuracy."""
    variants = {"BAPA": {}, **PARTS, **CHANGED}
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "device": device}
    found = compare(table.features, table.labels, [variant(one) for one in variants.values()], protocol, **options)
    rows = {"BAPA": (found[0].accuracy, found[0].ci95)}
    rows |= {name: result.minus(found[0]) for name, result in zip(list(variants)[1:], found[1:])}
    return {name: [round(value, 2) for value in row] for name, row in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True, help="folder of NAME-val.safetensors")
    parser.add_argument("--episodes", type=int, default=400, help="tasks per cell")
    parser.add_argument("--seed", type=int, default=2, help="of the tasks")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="where to write all numbers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = sorted(options.features.glob("*-val.safetensors"))
    if not files:
        sys.exit(f"there is no NAME-val.safetensors in {str(options.features)!r}: make them with protoadapt extract")
    report: dict[str, Any] = {"schema": "protoadapt-bapa-parts/1", "seed": options.seed, "episodes": options.episodes}
    report |= {"versions": versions(), "hardware": hardware(options.device), "commit": commit(), "sets": {}}
    report |= {"parts": list(PARTS), "changed": list(CHANGED)}
    for file in files:
        table, name = load_features(file), file.name.removesuffix("-val.safetensors")
        about = {key: value for key, value in table.about.items() if key != "class_names"}
        kept = report["sets"].setdefault(name, {"features": about, "cells": []})
        for words, protocol in PROTOCOLS.items():
            for shot in SHOTS:
                drawn = replace(protocol, shot=shot)
                try:
                    next(draw(table.labels.numpy(), drawn, options.seed, 1))
                except UserError as error:  # classes or rows are too few for this protocol
                    print(f"{name}, {words}, {shot}-shot is left out: {error}", file=sys.stderr)
                    continue
                rows = measure(table, drawn, options.episodes, options.seed, options.device)
                kept["cells"].append({"protocol": words, "shot": shot, "rows": rows})
                print(".", end="", flush=True, file=sys.stderr)
        print(f" {name}", file=sys.stderr)
    print(numbers(report))
    if options.json:
        write_json(options.json, report)


if __name__ == "__main__":
    main()
