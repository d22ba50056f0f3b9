"""The arena: methods that do not know the class balance beside those that are told, on protocols that others defined.

    python -m paper arena --features DIR [--device cuda] [--episodes 2000] [--results results]

DIR holds feature files NAME-novel.safetensors and, of the same network, NAME-val.safetensors; base statistics in the
novel file (`extract` stores them) let BAVARDAGE take part, and BAPA with those statistics. PADDLE's scale and UNEM's
weights are learned on the validation classes, for every protocol and shot anew: more than BAPA gets. All methods
see the same episodes; slow ones see the first of them, and the slowest comes last, when all else is there. The result,
one small JSON file, is written after every cell, and cells that it has are kept; --again measures them once more, with
the scale and weights that were learned for them, as after a change of BAPA.
"""

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare
from protoadapt.core.features import Features, load_features
from protoadapt.core.files import write_json
from protoadapt.core.methods import Method, method
from protoadapt.core.protocol import Protocol
from protoadapt.core.provenance import commit, hardware, versions
from protoadapt.core.records import Result
from protoadapt.core.tune import tune

SHOTS = (1, 5)
PROTOCOLS = {
    "balanced": Protocol(),
    "Dirichlet(2)": Protocol("dirichlet"),
    "Dirichlet(0.5)": Protocol("dirichlet", alpha=0.5),
    "5 of 20": Protocol("present", way=20),
    "5 of all": Protocol("present", way=10**6),
    "one class": Protocol("one-class", query=40),
    "1 query": Protocol("few", query=1),
    "3 queries": Protocol("few", query=3),
    "10 queries": Protocol("few", query=10),
    "30 % foreign": Protocol("open"),
}
UNTOLD = {
    "ProtoNet": "protonet",
    "CIPA": "cipa(power=auto)",
    "BPA + CIPA": "bpa+cipa",
    "PADDLE": "paddle",
    "UNEM": "unem",
    "BAPA": "bapa",
}
BASED = {
    "BAPA, base mean": "bapa(base_rows=10)",
    "BAPA, base mean and covariance": "bapa(base_rows=10, whiten=true)",
}
"""Where the feature file has statistics of base classes."""
TOLD = {
    "PT+MAP": "pt_map(power=auto)",
    "BPA + PT+MAP": "bpa+pt_map",
    "TIM-ADM": "tim_adm",
    "BAPA, told equal": "bapa(class_prior=equal)",
}
"""Methods that take the classes to be equally frequent among the queries."""
SLOW = {"α-TIM": "alpha_tim", "BAVARDAGE": "bavardage"}
SLOWEST = {"α-AM": "alpha_am"}
SLOWEST_PROTOCOLS = ("balanced", "Dirichlet(2)", "Dirichlet(0.5)")
SCALES = (6.0, 8.0, 10.0, 12.0, 16.0, 24.0)
"""Of PADDLE's rows, to choose from on validation classes; None beside them, its authors' scaling."""
TUNING_EPISODES = 64


def run(
    folder: Path,
    out: Path,
    *,
    episodes: int = 2000,
    slow_episodes: int = 600,
    device: str = "cpu",
    only: Sequence[str] = (),
    again: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Measures every dataset of a folder that `out` lacks; `only` are patterns of "dataset/protocol/shot".

    again: cells that are there are measured anew, with what was learned for them, and no others.
    """
    files = sorted(folder.glob("*-novel.safetensors"))
    if not files:
        raise UserError(f"there is no NAME-novel.safetensors in {str(folder)!r}: make them with protoadapt extract")
    document = json.loads(out.read_text()) if out.is_file() else {"schema": "protoadapt-arena/1", "sets": {}}
    document |= {"seed": 0, "versions": versions(), "commit": commit()}
    fewer = min(episodes, slow_episodes)

    def wanted(name: str, words: str, shot: int) -> bool:
        return not only or any(fnmatch.fnmatch(f"{name}/{words}/{shot}", pattern) for pattern in only)

    for file in files:
        name = file.name.removesuffix("-novel.safetensors")
        table, validation = load_features(file), load_features(file.with_name(f"{name}-val.safetensors"))
        about = {key: value for key, value in table.about.items() if key != "class_names"}
        kept = document["sets"].setdefault(name, {"features": about, "hardware": hardware(device), "cells": []})
        done = {(cell["protocol"], cell["shot"]): cell for cell in kept["cells"]}
        if again:
            kept |= {"features": about, "hardware": hardware(device)}
        for words, protocol in PROTOCOLS.items():
            for shot in SHOTS:
                if ((words, shot) in done) != again or not wanted(name, words, shot) or not _fits(table, words):
                    continue
                try:
                    drawn = replace(protocol, shot=shot)
                    before = done.get((words, shot), {}).get("fitted", {})
                    fitted = {name: method(name.lower(), **found) for name, found in before.items()}
                    fitted = fitted or learned(validation, drawn, device)
                    cell = _cell(table, fitted, drawn, (episodes, fewer), device)
                except UserError as error:  # classes with too few rows for this protocol
                    say(f"{name}, {words}, {shot}-shot is left out: {error}")
                    continue
                kept["cells"] = [one for one in kept["cells"] if (one["protocol"], one["shot"]) != (words, shot)]
                kept["cells"].append({"protocol": words, "shot": shot, **cell})
                say(
                    f"{name}, {words}, {shot}-shot: " + "  ".join(f"{k} {v[0]:.1f}" for k, v in cell["methods"].items())
                )
                write_json(out, document)
        for cell in kept["cells"]:
            if not wanted(name, cell["protocol"], cell["shot"]):
                continue
            if cell["protocol"] == "balanced" and "told" not in cell:
                drawn = replace(PROTOCOLS["balanced"], shot=cell["shot"])
                cell["told"] = _beside("BAPA, told equal", TOLD, table, drawn, episodes, device)
                write_json(out, document)
            drawn = _within(replace(PROTOCOLS[cell["protocol"]], shot=cell["shot"]), table)
            count = cell["episodes"]["BAPA"]
            if missing := {one: spec for one, spec in _based(table).items() if one not in cell["methods"]}:
                cell["methods"] |= _beside("BAPA", missing, table, drawn, count, device)
                cell["episodes"] |= dict.fromkeys(missing, count)
                say(f"{name}, {cell['protocol']}, {cell['shot']}-shot: {', '.join(missing)}")
                write_json(out, document)
            if _based(table) and cell["protocol"] in SLOWEST_PROTOCOLS and "based" not in cell:
                rivals = {"BAVARDAGE": SLOW["BAVARDAGE"]}
                cell["based"] = _beside("BAPA, base mean and covariance", rivals, table, drawn, count, device)
                say(f"{name}, {cell['protocol']}, {cell['shot']}-shot: BAVARDAGE beside BAPA that knows as much")
                write_json(out, document)
            if cell["protocol"] in SLOWEST_PROTOCOLS and not SLOWEST.keys() <= cell["methods"].keys():
                cell["methods"] |= _beside("BAPA", SLOWEST, table, drawn, fewer, device)
                cell["episodes"] |= dict.fromkeys(SLOWEST, fewer)
                say(f"{name}, {cell['protocol']}, {cell['shot']}-shot: {', '.join(SLOWEST)}")
                write_json(out, document)
    return document


def _based(table: Features) -> dict[str, str]:
    """BASED, where the table has all that these methods use."""
    return {} if any(one is None for one in table.base.values()) else BASED


def _classes(table: Features) -> int:
    return len(table.labels[table.labels >= 0].unique())


def _fits(table: Features, words: str) -> bool:
    """Whether a dataset has a protocol of its own: "5 of all" is "5 of 20" where there are twenty classes."""
    return not (words == "5 of all" and _classes(table) <= PROTOCOLS["5 of 20"].way)


def _within(protocol: Protocol, table: Features) -> Protocol:
    """The protocol with no more classes than there are."""
    return replace(protocol, way=min(protocol.way, _classes(table)))


def learned(validation: Features, protocol: Protocol, device: str) -> dict[str, Method]:
    """PADDLE at its best scale and UNEM with its weights on validation tasks of the same kind.

    Queries of other classes have no part in learning: that is done on balanced tasks.
    """
    drawn = _within(protocol if protocol.kind != "open" else Protocol(shot=protocol.shot), validation)
    options: dict[str, Any] = {"episodes": TUNING_EPISODES, "device": device, "seed": 1}
    scales = [method("paddle", scale=scale) for scale in (None, *SCALES)]
    results = compare(validation.features, validation.labels, scales, drawn, **options)
    best = max(results, key=lambda result: result.accuracy).method
    found = tune(validation.features, validation.labels, "unem", drawn, **options)
    return {"PADDLE": best, "UNEM": method("unem", **found)}


def _cell(
    table: Features, fitted: Mapping[str, Method], protocol: Protocol, episodes: tuple[int, int], device: str
) -> dict[str, Any]:
    """All methods on one dataset, protocol and shot. Each has accuracy, its half-widths over episodes and classes, and
    the same three of BAPA's paired difference to it; with foreign queries also the AUROC. `episodes` says how many each
    method saw."""
    drawn = _within(protocol, table)
    slow = {name: spec for name, spec in SLOW.items() if table.base_covariance is not None or spec != "bavardage"}
    out = _beside("BAPA", {**UNTOLD, **_based(table), **TOLD, **fitted}, table, drawn, episodes[0], device)
    rest = _beside("BAPA", slow, table, drawn, episodes[1], device)
    arguments = {name: one.arguments for name, one in fitted.items()}
    count = {**dict.fromkeys(out, episodes[0]), **dict.fromkeys(rest, episodes[1])}
    return {"way": drawn.way, "fitted": arguments, "episodes": count, "methods": {**out, **rest}}


def _beside(
    ours: str, specs: Mapping[str, str | Method], table: Features, drawn: Protocol, episodes: int, device: str
) -> dict[str, list[float | None]]:
    """The numbers of some methods, with a form of BAPA on the same episodes beside them."""
    options: dict[str, Any] = {**table.base, "device": device}
    methods = [*specs.values(), {**UNTOLD, **TOLD, **BASED}[ours]]
    *results, own = compare(table.features, table.labels, methods, drawn, episodes=episodes, **options)
    return {name: _numbers(result, own) for name, result in zip(specs, results)}


def _numbers(result: Result, ours: Result) -> list[float | None]:
    mean, half = ours.minus(result)
    row = [result.accuracy, result.ci95, result.ci95_classes, mean, half, ours.minus_classes(result)]
    if result.unknown_auroc is not None:
        row.append(100 * float(result.unknown_auroc.mean()))
    return [None if value is None else round(value, 2) for value in row]
