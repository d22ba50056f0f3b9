"""The arena: methods that do not know the class balance beside those that take it to be even, on protocols of others.

    python -m paper.arena DIR [--device cuda] [--only 'cub/balanced/*'] [--json results/arena.json]

DIR holds feature files NAME-novel.safetensors and, of the same network, NAME-val.safetensors; with base statistics in
the novel file (`extract` stores them) BAVARDAGE is measured too, and BAPA on whitened rows. Settings of PADDLE, UNEM
and "BAPA, fitted" are found on the validation classes, for every protocol and shot anew. All methods see the same
episodes; slow ones the first of them. Every method is compared with BAPA, and with the form of BAPA that knows as much
as it does (`LEAGUES`). The result, one small JSON file, is written after every cell (dataset, protocol, shot); cells
that it has are kept, or with --again measured once more.
"""

import argparse
import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from protoadapt.cli import main as run_command
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare, tune
from protoadapt.core.features import Features, load_features
from protoadapt.core.files import write_json
from protoadapt.core.methods import Method, method
from protoadapt.core.protocol import Protocol
from protoadapt.core.provenance import provenance
from protoadapt.core.results import Result, class_interval

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
PLAIN = {"ProtoNet": "protonet", "CIPA": "cipa(power=auto)", "BPA + CIPA": "bpa+cipa", "BAPA": "bapa"}
EVEN = {
    "PT+MAP": "pt_map(power=auto)",
    "BPA + PT+MAP": "bpa+pt_map",
    "TIM-ADM": "tim_adm",
    "BAPA, sizes given": "bapa(class_prior=equal)",
}
"""Methods that take the classes to be equally frequent among the queries."""
FITTED = {"PADDLE": "paddle", "UNEM": "paper.rivals.unem:unem", "BAPA, fitted": "bapa"}
"""Methods whose settings are found on validation tasks of the same kind."""
BASED = {"BAPA, whitened": "whiten+bapa"}
"""Where the feature file has statistics of base classes."""
SLOW = {"α-TIM": "alpha_tim", "BAVARDAGE": "bavardage", "α-AM": "paper.rivals.alpha_am:alpha_am"}
ALPHA_AM_PROTOCOLS = ("balanced", "Dirichlet(2)", "Dirichlet(0.5)", "5 of 20")
"""It takes a second per task."""
LEAGUES = {
    "BAPA": ("ProtoNet", "CIPA", "BPA + CIPA", "α-TIM", "α-AM"),
    "BAPA, fitted": ("PADDLE", "UNEM"),
    "BAPA, whitened": ("BAVARDAGE",),
    "BAPA, sizes given": ("PT+MAP", "BPA + PT+MAP", "TIM-ADM"),
}
"""The form of BAPA that knows as much, and its rivals."""
PEER = {rival: ours for ours, rivals in LEAGUES.items() for rival in rivals}
TUNING_EPISODES = 256


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
    """Measures every cell of a folder's datasets that `out` lacks, or with `again` every one; `only` are patterns of
    "dataset/protocol/shot"."""
    files = sorted(folder.glob("*-novel.safetensors"))
    if not files:
        raise UserError(f"there is no NAME-novel.safetensors in {str(folder)!r}: make them with protoadapt extract")
    document = json.loads(out.read_text()) if out.is_file() else {"schema": "protoadapt-arena/2", "sets": {}}
    document["seed"] = 0
    for file in files:
        name = file.name.removesuffix("-novel.safetensors")
        table, validation = load_features(file), load_features(file.with_name(f"{name}-val.safetensors"))
        about = {key: value for key, value in table.about.items() if key != "class_names"}
        kept = document["sets"].setdefault(name, {"features": about, "cells": []})
        for words, shot in ((words, shot) for words in PROTOCOLS for shot in SHOTS):
            done = {(cell["protocol"], cell["shot"]): cell for cell in kept["cells"]}
            asked = not only or any(fnmatch.fnmatch(f"{name}/{words}/{shot}", pattern) for pattern in only)
            same = words == "5 of all" and _classes(table) <= PROTOCOLS["5 of 20"].way  # the two protocols are one then
            if not asked or same or ((words, shot) in done and not again):
                continue
            try:
                # queries of other classes have no part in fitting: those settings are the balanced tasks'
                alike = replace(PROTOCOLS["balanced" if PROTOCOLS[words].kind == "open" else words], shot=shot)
                found = fitted(validation, alike, device)
                cell = _cell(table, found, words, shot, episodes, min(episodes, slow_episodes), device)
            except UserError as error:  # classes with too few rows for this protocol
                say(f"{name}, {words}, {shot}-shot is left out: {error}")
                continue
            kept["cells"] = [*({**done, (words, shot): cell}).values()]
            numbers = "  ".join(f"{one} {row['accuracy'][0]:.1f}" for one, row in cell["methods"].items())
            say(f"{name}, {words}, {shot}-shot: {numbers}")
            write_json(out, document)
    return document


def fitted(validation: Features, protocol: Protocol, device: str) -> dict[str, dict[str, Any]]:
    """The settings of each of FITTED on validation tasks."""
    drawn = _within(protocol, validation)
    options: dict[str, Any] = {"episodes": TUNING_EPISODES, "device": device, "seed": 1}
    return {one: tune(validation.features, validation.labels, spec, drawn, **options) for one, spec in FITTED.items()}


def _classes(table: Features) -> int:
    return len(table.labels[table.labels >= 0].unique())


def _within(protocol: Protocol, table: Features) -> Protocol:
    """The protocol with no more classes than there are."""
    return replace(protocol, way=min(protocol.way, _classes(table)))


def _cell(
    table: Features, found: Mapping[str, Mapping[str, Any]], words: str, shot: int, many: int, few: int, device: str
) -> dict[str, Any]:
    """All methods on one dataset, protocol and shot; `episodes` says how many each of them saw."""
    drawn = _within(replace(PROTOCOLS[words], shot=shot), table)
    based = {} if any(one is None for one in table.base.values()) else BASED
    quick = {**PLAIN, **{name: method(FITTED[name], **one) for name, one in found.items()}, **based, **EVEN}
    slow = {
        name: spec
        for name, spec in SLOW.items()
        if PEER[name] in quick and (name != "α-AM" or words in ALPHA_AM_PROTOCOLS)
    }
    methods = _measured(quick, quick, table, drawn, many, device) | _measured(slow, quick, table, drawn, few, device)
    seen = {**dict.fromkeys(quick, many), **dict.fromkeys(slow, few)}
    about = {"protocol": words, "shot": shot, "way": drawn.way, **provenance(device)}
    return {**about, "fitted": dict(found), "episodes": seen, "methods": methods}


def _measured(
    specs: Mapping[str, str | Method],
    forms: Mapping[str, str | Method],
    table: Features,
    drawn: Protocol,
    episodes: int,
    device: str,
) -> dict[str, dict[str, Any]]:
    """The numbers of some methods, beside BAPA and the form of it that knows as much, on the same episodes."""
    ours = {name: forms[name] for name in ("BAPA", *(PEER.get(one, "BAPA") for one in specs))}
    methods = {**specs, **ours}
    options: dict[str, Any] = {**table.base, "episodes": episodes, "device": device}
    results = dict(zip(methods, compare(table.features, table.labels, list(methods.values()), drawn, **options)))
    return {one: _numbers(results[one], results["BAPA"], results[PEER.get(one, "BAPA")]) for one in specs}


def _numbers(result: Result, bapa: Result, peer: Result) -> dict[str, Any]:
    """accuracy: with its half-widths over episodes and over classes; bapa and peer: the same three of their paired
    differences to it; with foreign queries also the AUROC."""

    def rounded(*values: float | None) -> list[float | None]:
        return [None if value is None else round(value, 2) for value in values]

    def over_classes(ours: Result) -> float | None:
        return class_interval(ours.to_json(), result.to_json())

    row: dict[str, Any] = {
        "accuracy": rounded(result.accuracy, result.ci95, class_interval(result.to_json())),
        "bapa": rounded(*bapa.minus(result), over_classes(bapa)),
    }
    if peer is not bapa:
        row["peer"] = rounded(*peer.minus(result), over_classes(peer))
    if result.unknown_auroc is not None:
        row["auroc"] = round(100 * float(result.unknown_auroc.mean()), 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--json", type=Path, default=Path("results/arena.json"))
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--slow-episodes", type=int, default=600)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", action="append", default=[], help='patterns of "dataset/protocol/shot"')
    parser.add_argument("--again", action="store_true", help="measure the cells that are there once more")
    given = vars(parser.parse_args())
    run(given.pop("features"), given.pop("json"), **given)


if __name__ == "__main__":
    run_command(main)
