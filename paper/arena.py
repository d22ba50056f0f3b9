"""The arena: methods that do not know the class balance beside those that are told, on protocols that others defined.

    python -m paper arena --features DIR [--device cuda] [--episodes 2000] [--results results]

DIR holds feature files NAME-novel.safetensors and, of the same network, NAME-val.safetensors; base statistics in the
novel file (`extract` stores them) let BAVARDAGE take part, and BAPA with those statistics. PADDLE's scale, UNEM's
weights and the settings of "BAPA, fitted" are found on the validation classes, for every protocol and shot anew. All
methods see the same episodes; slow ones see the first of them, and the slowest comes last, when all else is there.
Every method is compared with BAPA, and with the form of BAPA that knows as much as it does (`LEAGUES`). The result,
one small JSON file, is written after every cell, and cells that it has are kept; --again measures them once more, with
the settings that were found for them, as after a change of BAPA. The slowest method is not measured again then, and
with --ours no rival is, and BAPA's own settings are found anew: the rivals' answers stay, so their differences to BAPA
move with its accuracy on the same tasks.
"""

import fnmatch
import json
from collections.abc import Callable, Collection, Mapping, Sequence
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
from protoadapt.core.results import Result
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
PLAIN = {"ProtoNet": "protonet", "CIPA": "cipa(power=auto)", "BPA + CIPA": "bpa+cipa", "BAPA": "bapa"}
TOLD = {
    "PT+MAP": "pt_map(power=auto)",
    "BPA + PT+MAP": "bpa+pt_map",
    "TIM-ADM": "tim_adm",
    "BAPA, told equal": "bapa(class_prior=equal)",
}
"""Methods that take the classes to be equally frequent among the queries."""
FITTED = {"PADDLE": "paddle", "UNEM": "unem", "BAPA, fitted": "bapa"}
"""Methods whose settings are found on validation tasks of the same kind."""
BASED = {
    "BAPA, base mean": "bapa(base_rows=10)",
    "BAPA, base mean and covariance": "bapa(base_rows=10, whiten=true)",
}
"""Where the feature file has statistics of base classes."""
SLOW = {"α-TIM": "alpha_tim", "BAVARDAGE": "bavardage"}
SLOWEST = {"α-AM": "alpha_am"}
SLOWEST_PROTOCOLS = ("balanced", "Dirichlet(2)", "Dirichlet(0.5)", "5 of 20")
LEAGUES = {
    "BAPA": ("ProtoNet", "CIPA", "BPA + CIPA", "α-TIM", "α-AM"),
    "BAPA, fitted": ("PADDLE", "UNEM"),
    "BAPA, base mean and covariance": ("BAVARDAGE",),
    "BAPA, told equal": ("PT+MAP", "BPA + PT+MAP", "TIM-ADM"),
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
    ours: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Measures every dataset of a folder that `out` lacks; `only` are patterns of "dataset/protocol/shot".

    again: cells that are there are measured anew, with what was found for them, and no others. ours: so are the forms
    of BAPA alone, its settings found anew, with differences of the others that move with them.
    """
    files = sorted(folder.glob("*-novel.safetensors"))
    if not files:
        raise UserError(f"there is no NAME-novel.safetensors in {str(folder)!r}: make them with protoadapt extract")
    document = json.loads(out.read_text()) if out.is_file() else {"schema": "protoadapt-arena/2", "sets": {}}
    document["seed"] = 0
    counts, again = (episodes, min(episodes, slow_episodes)), again or ours

    def wanted(name: str, words: str, shot: int) -> bool:
        return not only or any(fnmatch.fnmatch(f"{name}/{words}/{shot}", pattern) for pattern in only)

    for file in files:
        name = file.name.removesuffix("-novel.safetensors")
        table, validation = load_features(file), load_features(file.with_name(f"{name}-val.safetensors"))
        about = {key: value for key, value in table.about.items() if key != "class_names"}
        kept = document["sets"].setdefault(name, {"features": about, "cells": []})
        if again and not ours:
            kept["features"] = about
        for words, protocol in PROTOCOLS.items():
            for shot in SHOTS:
                done = {(cell["protocol"], cell["shot"]): cell for cell in kept["cells"]}
                if ((words, shot) in done) != again or not wanted(name, words, shot) or not _fits(table, words):
                    continue
                try:
                    drawn = replace(protocol, shot=shot)
                    # queries of other classes have no part in fitting: those settings are the balanced tasks'
                    fitted_on = "balanced" if protocol.kind == "open" else words
                    alike = replace(PROTOCOLS[fitted_on], shot=shot)
                    found = done.get((fitted_on, shot), {}).get("fitted") or fitted(validation, alike, device)
                    if ours:
                        found = found | fitted(validation, alike, device, {"BAPA, fitted"})
                        cell = _with_ours({**done[words, shot], "fitted": found}, table, drawn, device)
                    else:
                        cell = _cell(table, found, drawn, counts, device)
                        cell = _with_slowest(cell, done[words, shot]) if again else cell
                except UserError as error:  # classes with too few rows for this protocol
                    say(f"{name}, {words}, {shot}-shot is left out: {error}")
                    continue
                kept["cells"] = [one for one in kept["cells"] if (one["protocol"], one["shot"]) != (words, shot)]
                kept["cells"].append({"protocol": words, "shot": shot, **cell})
                numbers = "  ".join(f"{one} {row['accuracy'][0]:.1f}" for one, row in cell["methods"].items())
                say(f"{name}, {words}, {shot}-shot: {numbers}")
                write_json(out, document)
        for cell in kept["cells"]:
            words, shot = cell["protocol"], cell["shot"]
            missing = {one: spec for one, spec in SLOWEST.items() if one not in cell["methods"]}
            if missing and not again and words in SLOWEST_PROTOCOLS and wanted(name, words, shot):
                drawn = _within(replace(PROTOCOLS[words], shot=shot), table)
                cell["methods"] |= _measured(missing, _forms(table, cell["fitted"]), table, drawn, counts[1], device)
                cell["episodes"] |= dict.fromkeys(missing, counts[1])
                cell["added"] = {one: _provenance(device) for one in missing}
                say(f"{name}, {words}, {shot}-shot: {', '.join(missing)}")
                write_json(out, document)
    return document


def fitted(
    validation: Features, protocol: Protocol, device: str, only: Collection[str] = tuple(FITTED)
) -> dict[str, dict[str, Any]]:
    """The settings of each of FITTED, or of some, on validation tasks of the same kind."""
    drawn = _within(protocol, validation)
    options: dict[str, Any] = {"episodes": TUNING_EPISODES, "device": device, "seed": 1}
    return {one: tune(validation.features, validation.labels, FITTED[one], drawn, **options) for one in only}


def _classes(table: Features) -> int:
    return len(table.labels[table.labels >= 0].unique())


def _fits(table: Features, words: str) -> bool:
    """Whether a dataset has a protocol of its own: "5 of all" is "5 of 20" where there are twenty classes."""
    return not (words == "5 of all" and _classes(table) <= PROTOCOLS["5 of 20"].way)


def _within(protocol: Protocol, table: Features) -> Protocol:
    """The protocol with no more classes than there are."""
    return replace(protocol, way=min(protocol.way, _classes(table)))


def _forms(table: Features, found: Mapping[str, Mapping[str, Any]]) -> dict[str, str | Method]:
    """Methods by name, all but the slow ones; those that need base statistics only where the table has them."""
    based = {} if any(one is None for one in table.base.values()) else BASED
    own = {name: method(FITTED[name], **settings) for name, settings in found.items()}
    return {**PLAIN, **own, **based, **TOLD}


def _cell(
    table: Features, found: Mapping[str, Mapping[str, Any]], protocol: Protocol, counts: tuple[int, int], device: str
) -> dict[str, Any]:
    """All methods but the slowest on one dataset, protocol and shot; `episodes` says how many each of them saw."""
    drawn, forms = _within(protocol, table), _forms(table, found)
    slow = {name: spec for name, spec in SLOW.items() if PEER[name] in forms}
    quick = _measured(forms, forms, table, drawn, counts[0], device)
    rest = _measured(slow, forms, table, drawn, counts[1], device)
    seen = {**dict.fromkeys(quick, counts[0]), **dict.fromkeys(rest, counts[1])}
    return {
        "way": drawn.way,
        **_provenance(device),
        "fitted": found,
        "episodes": seen,
        "methods": {**quick, **rest},
    }


def _with_ours(cell: Mapping[str, Any], table: Features, protocol: Protocol, device: str) -> dict[str, Any]:
    """A cell with the forms of BAPA measured again, on the tasks that each rival saw.

    The rivals' half-widths stay those of before; `moved` says so.
    """
    forms = _forms(table, cell["fitted"])
    specs = {one: forms[one] for one in cell["methods"] if one in forms and (one == "BAPA" or one.startswith("BAPA,"))}
    drawn, options = _within(protocol, table), {**table.base, "device": device}
    methods = dict(cell["methods"])
    for count in sorted(set(cell["episodes"].values())):
        measured = compare(table.features, table.labels, list(specs.values()), drawn, episodes=count, **options)
        results = dict(zip(specs, measured))
        for one in (name for name, seen in cell["episodes"].items() if seen == count):
            if one in results:
                methods[one] = _numbers(results[one], results["BAPA"], results["BAPA"])
            else:
                accuracy = {ours: result.accuracy for ours, result in results.items()}
                methods[one] = _moved(methods[one], accuracy["BAPA"], accuracy.get(PEER.get(one, "BAPA")))
    rivals = sorted(one for one in methods if one not in specs)
    about = {"bapa": _provenance(device), "methods": rivals, "half_widths_of": _measured_at(cell)}
    return {**cell, "methods": methods, "moved": about}


def _with_slowest(cell: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A cell with the slowest methods of the same cell before, whose differences move with BAPA's accuracy on their
    tasks: those of a slow method."""
    kept = {one: before["methods"][one] for one in SLOWEST if one in before["methods"]}
    seen = next((cell["methods"][one] for one in SLOW if one in cell["methods"]), None)
    if not kept or seen is None:
        return cell
    bapa = seen["accuracy"][0] + seen["bapa"][0]
    methods = {**cell["methods"], **{one: _moved(row, bapa, None) for one, row in kept.items()}}
    episodes = {**cell["episodes"], **{one: before["episodes"][one] for one in kept}}
    about = {"methods": sorted(kept), "half_widths_of": _measured_at(before)}
    return {**cell, "added": before.get("added", {}), "moved": about, "episodes": episodes, "methods": methods}


def _measured_at(cell: Mapping[str, Any]) -> str:
    """The commit at which the half-widths of a cell's rivals were measured."""
    return cell.get("moved", cell).get("half_widths_of", cell["commit"])


def _moved(row: Mapping[str, Any], bapa: float, peer: float | None) -> dict[str, Any]:
    """A rival's numbers beside BAPA, and beside its peer, where these have other accuracies on the same tasks."""
    differences = {"bapa": bapa, "peer": peer}
    moved = {key: value for key, value in differences.items() if key in row and value is not None}
    apart = {key: [round(value - row["accuracy"][0], 2), *row[key][1:]] for key, value in moved.items()}
    return {**row, **apart}


def _provenance(device: str) -> dict[str, Any]:
    return {"hardware": hardware(device), "versions": versions(), "commit": commit()}


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

    row: dict[str, Any] = {
        "accuracy": rounded(result.accuracy, result.ci95, result.ci95_classes),
        "bapa": rounded(*bapa.minus(result), bapa.minus_classes(result)),
    }
    if peer is not bapa:
        row["peer"] = rounded(*peer.minus(result), peer.minus_classes(result))
    if result.unknown_auroc is not None:
        row["auroc"] = round(100 * float(result.unknown_auroc.mean()), 2)
    return row
