"""The arena: BAPA beside twelve rivals, those that do not know the class balance and those that take it to be even, on
balanced and unbalanced tasks, few queries, and queries of other classes.

    python -m paper.arena DIR [--device cuda] [--only 'cub/balanced/5/*'] [--results results]

DIR holds feature files: NAME-novel.safetensors with NAME-val.safetensors of the same network, and photographs by one
network, NETWORK-NAME.safetensors, where the largest other set stands in for validation classes. Where both have
statistics of base classes, everything is measured once more on whitened rows, and BAVARDAGE there alone. Settings of
PADDLE and UNEM are found on validation tasks of the same kind. All methods see the same tasks; slow ones the first.

Numbers go to arena.csv and their origin to arena.json, both written after every cell, SET/PROTOCOL/WAY/SHOT/ROWS; cells
that are there are kept, or with --again measured once more. Several commands, each with its own --only, may share them.
"""

import argparse
import csv
import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from paper.rivals.unem import fit_unem
from protoadapt.cli import main as run_command
from protoadapt.core.episodes import Episodes, draw
from protoadapt.core.errors import UserError
from protoadapt.core.evaluate import compare, tune
from protoadapt.core.features import Features, load_features
from protoadapt.core.files import csv_text, write_json, write_text
from protoadapt.core.methods import Method, declarations, method
from protoadapt.core.methods.transforms import whiten
from protoadapt.core.protocol import Protocol
from protoadapt.core.provenance import provenance
from protoadapt.core.results import Result, class_interval

SHOTS = (1, 5)
WAYS = (5, 20)
PROTOCOLS = {
    "balanced": Protocol(),
    "Dirichlet(2)": Protocol("dirichlet"),
    "Dirichlet(0.5)": Protocol("dirichlet", alpha=0.5),
    "5 of 20": Protocol("present", way=20),
    "5 of all": Protocol("present", way=10**6),
    "one class": Protocol("one-class", query=30),
    "1 query": Protocol("few", query=1),
    "3 queries": Protocol("few", query=3),
    "10 queries": Protocol("few", query=10),
    "30 % foreign": Protocol("open"),
    "25 + 5 foreign": Protocol("open", query=25, foreign=1 / 6),
    "5 + 25 foreign": Protocol("open", query=5, foreign=5 / 6),
}
OURS, TOLD_EQUAL = "BAPA", "BAPA, sizes given"
QUICK = {
    OURS: "bapa",
    TOLD_EQUAL: "bapa(class_prior=equal)",
    "ProtoNet": "protonet",
    "CIPA": "cipa(power=auto)",
    "PT+MAP": "pt_map(power=auto)",
    "TIM-ADM": "tim_adm",
    "OSLO": "paper.rivals.oslo:oslo",
    "protoLP": "paper.rivals.proto_lp:proto_lp(n_iter=20)",  # the authors take 50; on validation classes 20 are better
}
EVEN = ("PT+MAP", "TIM-ADM")
"""Rivals that take the classes to be equally frequent: compared with BAPA given this, too."""
FITTED = {"PADDLE": "paddle", "UNEM": "paper.rivals.unem:unem"}
SLOW = {
    "EOL": "paper.rivals.eol:eol",
    "α-TIM": "alpha_tim",
    "α-AM": "paper.rivals.alpha_am:alpha_am",
}
BASED = "BAVARDAGE"
"""It whitens for itself."""
GIVEN = {"25 + 5 foreign": {"EOL": {"b": 0.3}}, "5 + 25 foreign": {"EOL": {"b": 0.7}}}
"""What the authors' code gives where it knows the share of foreign queries."""
ALPHA_AM_PROTOCOLS = ("balanced", "Dirichlet(2)", "Dirichlet(0.5)")
"""5-way tasks of these alone: it takes a second per task."""
TUNING_EPISODES = 128


class Row(NamedTuple):
    """A line of arena.csv: a method on one cell, and the paired difference `against` − it. Intervals are over tasks
    and, where their name says so, over classes."""

    cell: str  # SET/PROTOCOL/WAY/SHOT/ROWS
    method: str
    against: str
    episodes: int
    accuracy: float
    interval: float
    interval_classes: float | None
    difference: float
    difference_interval: float
    difference_classes: float | None
    auroc: float | None
    settings: str


def read(file: Path) -> list[Row]:
    """The lines of an arena.csv; none where there is no file."""
    if not file.is_file():
        return []

    def number(text: str) -> float | None:
        return float(text) if text else None

    with open(file, encoding="utf-8", newline="") as lines:
        table = list(csv.reader(lines))[1:]
    return [Row(*one[:3], int(one[3]), *map(number, one[4:11]), one[11]) for one in table]  # type: ignore[arg-type]


def run(
    folder: Path,
    results: Path,
    *,
    episodes: int = 1000,
    slow_episodes: int = 200,
    device: str = "cpu",
    only: Sequence[str] = (),
    again: bool = False,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Measures every cell of a folder's sets that `results` lacks, or with `again` every one; `only` are patterns of
    SET/PROTOCOL/WAY/SHOT/ROWS."""
    numbers, origin = results / "arena.csv", results / "arena.json"
    for name, (novel, known) in feature_files(folder).items():
        there = {line.cell for line in read(numbers)}
        asked = [
            (cell, protocol)
            for cell, protocol in _cells(name)
            if (again or cell not in there) and (not only or any(fnmatch.fnmatch(cell, one) for one in only))
        ]
        if not asked:
            continue
        tables = {"plain": (load_features(novel), load_features(known))}
        if all(part is not None for table in tables["plain"] for part in table.base.values()):
            tables["whitened"] = tuple(map(whitened, tables["plain"]))
        hashes = {part: table.about["hash"] for part, table in zip(("novel", "validation"), tables["plain"])}
        fits: dict[Any, dict[str, dict[str, Any]]] = {}
        for cell, protocol in asked:
            if cell.rpartition("/")[2] not in tables:
                continue
            try:
                made = _measured(cell, protocol, tables, fits, episodes, slow_episodes, device)
            except UserError as error:  # classes or rows are too few for this protocol
                say(f"{cell} is left out: {error}")
                continue
            lines = [*(line for line in read(numbers) if line.cell != cell), *made]
            about = json.loads(origin.read_text()) if origin.is_file() else {"schema": "protoadapt-arena/3", "sets": {}}
            about["sets"][name] = hashes | provenance(device)
            write_text(numbers, csv_text([Row._fields, *lines]))
            write_json(origin, about)
            say(f"{cell}: {'  '.join(f'{line.method} {line.accuracy:.1f}' for line in made)}")
    return read(numbers)


def feature_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Set → its features, and those of other classes to find settings on."""
    novel = sorted(folder.glob("*-novel.safetensors"))
    found = {file.name.removesuffix("-novel.safetensors"): file for file in novel}
    pairs = {name: (file, file.with_name(f"{name}-val.safetensors")) for name, file in found.items()}
    rest = {file for file in folder.glob("*-*.safetensors") if not file.stem.endswith(("-novel", "-val"))}
    for file in sorted(rest):
        same = [one for one in rest - {file} if one.stem.partition("-")[0] == file.stem.partition("-")[0]]
        if same:
            pairs[file.stem] = (file, max(same, key=lambda one: (_classes(load_features(one)), one.name)))
    if not pairs:
        raise UserError(f"there is no NAME-novel.safetensors in {str(folder)!r}: make them with protoadapt extract")
    return pairs


def _cells(name: str) -> Iterator[tuple[str, Protocol]]:
    for kind in ("plain", "whitened"):
        for words, protocol in PROTOCOLS.items():
            for way in WAYS if protocol.kind != "present" else (protocol.way,):
                for shot in SHOTS:
                    cell = f"{name}/{words}/{way if way in (5, 20) else 'all'}/{shot}/{kind}"
                    yield cell, replace(protocol, way=way, shot=shot)


def whitened(table: Features) -> Features:
    """The same rows as `whiten` has them, which depend on no other row."""
    none = torch.zeros(1, 1, dtype=torch.long)
    rows = whiten(Episodes(table.features, none, none, none, 1, base_covariance=table.base_covariance)).rows
    return replace(table, features=rows, base_mean=None, base_covariance=None)


def _classes(table: Features) -> int:
    return len(table.labels[table.labels >= 0].unique())


def _measured(
    cell: str,
    protocol: Protocol,
    tables: Mapping[str, tuple[Features, Features]],
    fits: dict[Any, dict[str, dict[str, Any]]],
    many: int,
    few: int,
    device: str,
) -> list[Row]:
    """All methods on one cell; `fits` keeps the settings found on the set's validation classes."""
    _, words, way, _, kind = cell.split("/")
    table, validation = tables[kind]
    if way == "all":
        protocol = replace(protocol, way=_classes(table))
        if protocol.way <= max(WAYS):
            raise UserError(f"there are {protocol.way} classes, no more than in another protocol")
    slow = dict(SLOW)
    if words not in ALPHA_AM_PROTOCOLS or way != "5":
        del slow["α-AM"]
    specs = {one: method(spec) for one, spec in (QUICK | slow).items()}
    if kind == "whitened":  # which took the power transform already
        powers = [one for one, spec in specs.items() if "power" in declarations(spec.function)]
        specs |= {one: method(specs[one], power="off") for one in powers}
    specs |= {one: method(specs[one], **given) for one, given in GIVEN.get(words, {}).items()}
    # Queries of other classes have no part in fitting: those settings are the balanced tasks'.
    alike = (
        replace(PROTOCOLS["balanced"], way=protocol.way, shot=protocol.shot) if protocol.kind == "open" else protocol
    )
    alike = replace(alike, way=min(alike.way, _classes(validation)))
    if (kind, alike) not in fits:
        fits[kind, alike] = fitted(validation, alike, device)
    found = fits[kind, alike]
    specs |= {one: method(FITTED[one], **settings) for one, settings in found.items()}
    texts = {one: json.dumps(settings, separators=(",", ":")) for one, settings in found.items()}

    def results(chosen: Mapping[str, Method], on: Features, count: int) -> dict[str, Result]:
        options: dict[str, Any] = {**on.base, "episodes": count, "device": device}
        return dict(zip(chosen, compare(on.features, on.labels, list(chosen.values()), protocol, **options)))

    quick = results({one: specs[one] for one in specs if one not in slow}, table, many)
    if kind == "whitened":
        quick |= results({BASED: method("bavardage")}, tables["plain"][0], many)
    first = results({one: specs[one] for one in (OURS, *slow)}, table, min(many, few))
    pairs = [(quick, one, OURS) for one in quick] + [(first, one, OURS) for one in slow]
    if words == "balanced":
        pairs += [(quick, one, TOLD_EQUAL) for one in EVEN]
    return [
        Row(cell, one, against, *_numbers(group[one], group[against]), texts.get(one, ""))
        for group, one, against in pairs
    ]


def fitted(validation: Features, protocol: Protocol, device: str) -> dict[str, dict[str, Any]]:
    """The settings of each of FITTED on validation tasks."""
    rows, labels, episodes = validation.features, validation.labels, max(16, TUNING_EPISODES * 5 // protocol.way)
    drawn = next(draw(labels.numpy(), protocol, 1, episodes, chunk=episodes))
    answers = torch.from_numpy(drawn.query_labels).to(device)
    return {
        "PADDLE": tune(rows, labels, "paddle", protocol, episodes=episodes, seed=1, device=device),
        "UNEM": fit_unem(drawn.episodes(rows.float().to(device), protocol.way), answers),
    }


def _numbers(result: Result, ours: Result) -> list[Any]:
    """From episodes to auroc, as in `Row`."""
    record = result.to_json()
    auroc = None if result.unknown_auroc is None else 100 * float(result.unknown_auroc.mean())
    values = [result.accuracy, result.ci95, class_interval(record), *ours.minus(result)]
    values += [class_interval(ours.to_json(), record), auroc]
    return [len(result.correct), *(None if value is None else round(value, 2) for value in values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--slow-episodes", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", action="append", default=[], help="patterns of SET/PROTOCOL/WAY/SHOT/ROWS")
    parser.add_argument("--again", action="store_true", help="measure the cells that are there once more")
    given = vars(parser.parse_args())
    run(given.pop("features"), given.pop("results"), **given)


if __name__ == "__main__":
    run_command(main)
