"""How far names can be trusted: kinds without a name, how sure names are, what to label next, how good they are.

    python -m benchmarks.trust FILE … --json results/trust.json [--splits 2]

FILE: features of labelled pictures (`extract`), one collection each. A task draws eight classes with 1, 2 or 5 examples
and 32 unlabelled pictures each (ten classes and 45 for what to label next). *Foreign* pictures come with it: one or two
classes without examples, 40 pictures of one other kind, 40 or 8 of many kinds, or three strays; junk is drawn from
another of the collections that have features of the same network, or else from the collection's other classes. Every
answer is that of `label` (`Collection.name`); beside it stands what came before: no groups, no strays, and the same
temperature of 0.85 for all.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from protoadapt import load_features
from protoadapt.core.methods.unnamed import first_groups
from protoadapt.labeling.collection import Collection
from protoadapt.labeling.label_methods import make_estimator
from protoadapt.labeling.suggest import centred, suggest
from protoadapt.report.tables import markdown

WAY, PER_CLASS = 8, 32
SHOTS = (1, 2, 5)
FOREIGN = ("nothing", "one class", "two classes", "one kind of junk", "junk of many kinds", "8 of many kinds", "strays")
NEXT_WAY, NEXT_PER_CLASS, ROUNDS, ASKED = 10, 45, 5, 10
STARTS = (0, 1, 2, 5)
BEFORE = 0.85
"""The temperature that all probabilities had."""
GOOD = 85.0
"""Percent right from which on foreign pictures can be told at all."""
NETWORK = {"model": "m", "weights": "0" * 16, "size": 8, "mean": [0.5] * 3, "std": [0.5] * 3, "trained_on": ""}
Table = tuple[np.ndarray, np.ndarray, str]
"""Rows, labels, and the weights that made the rows."""
Row = dict[str, Any]


def named(rows: np.ndarray, codes: np.ndarray, n_classes: int, n_next: int = 0, **settings: Any) -> dict[str, Any]:
    """labels.json of rows (N, D) with classes (N), −1 where they are asked for."""
    names = [f"{i:05d}" for i in range(len(rows))]
    classes = [f"class {code:03d}" for code in range(n_classes)]
    collection = Collection.of_rows("t", names, np.arange(len(rows)), rows, codes, classes, NETWORK)
    return collection.name(make_estimator("bapa", settings), paths=False, n_next=n_next).result


def drawn(tables: dict[str, Table], name: str, foreign: str, shot: int, seed: int) -> tuple[np.ndarray, ...]:
    """A task: rows, codes (−1: asked), and the truth, −1 for foreign pictures, below that of their kind."""
    rows, labels, weights = tables[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    order = rng.permutation(np.unique(labels))
    way = min(WAY, len(order) - 2)
    more = {"one class": 1, "two classes": 2}.get(foreign, 0)
    parts, codes, truth = [], [], []
    for code, label in enumerate(order[: way + more]):
        own = rng.permutation(np.flatnonzero(labels == label))[: shot + PER_CLASS]
        given = shot if code < way else 0
        parts.append(rows[own[shot - given :]])
        codes += [code] * given + [-1] * (len(own) - shot)
        truth += [code if code < way else -code] * (len(own) - shot + given)
    if foreign not in FOREIGN[:3]:
        others = [key for key, table in tables.items() if key != name and table[2] == weights]
        if others:
            rows, labels, _ = tables[others[seed % len(others)]]
        taken = np.zeros(len(labels), bool) if others else np.isin(labels, order[:way])
        pool = rng.permutation(np.flatnonzero(~taken))
        if foreign == "one kind of junk":
            pool = pool[labels[pool] == labels[pool[0]]]
        if foreign == "strays":
            pool = rng.permutation(pool[np.unique(labels[pool], return_index=True)[1]])[:3]
        pool = pool[: 8 if foreign == "8 of many kinds" else 40]
        parts.append(rows[pool])
        codes += [-1] * len(pool)
        truth += (-1000 - np.unique(labels[pool], return_inverse=True)[1]).tolist()
    return np.concatenate(parts), np.array(codes), np.array(truth)


def ece(p: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error in percent, in ten bins of equal mass."""
    order = np.argsort(p, kind="stable")
    bins = np.array_split(order, 10)
    return 100 * float(sum(abs(p[b].sum() - right[b].sum()) for b in bins if len(b)) / len(p))


def answers(result: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of all pictures: class, confidence, whether unknown, and group ("" without)."""
    records = result["pictures"]
    codes = np.array([int(one["label"].split()[1]) for one in records])
    sure, unknown = (np.array([one[key] for one in records]) for key in ("confidence", "unknown"))
    return codes, sure, unknown, np.array([one["group"] or "" for one in records])


def tempered(p: np.ndarray, temperature: float) -> np.ndarray:
    """The probabilities (n, W) at another temperature."""
    powers = np.clip(p, 1e-300, None) ** (1 / temperature)
    return powers / powers.sum(1, keepdims=True)


def foreign_rows(tables: dict[str, Table], splits: int) -> Iterator[Row]:
    """One row per task with foreign pictures, or none."""
    for task in product(tables, FOREIGN, SHOTS, range(splits)):
        yield foreign_row(tables, *task)


def foreign_row(tables: dict[str, Table], name: str, foreign: str, shot: int, seed: int) -> Row:
    rows, codes, truth = drawn(tables, name, foreign, shot, seed)
    asked, known, way = codes < 0, truth >= 0, int(codes.max()) + 1
    result = named(rows, codes, way)
    code, sure, unknown, group = answers(result)
    own = asked & known
    clean = answers(named(rows[known], codes[known], way, discover=False))
    without = answers(named(rows, codes, way, discover=False))
    right = 100 * float((clean[0] == truth[known])[codes[known] < 0].mean())
    row = {"collection": name, "foreign": foreign, "examples": shot, "seed": seed, "groups": len(result["unnamed"])}
    row |= {"right": right, "change": 100 * float((code == truth)[own].mean()) - right}
    row |= {"change_before": 100 * float((without[0] == truth)[own].mean()) - right}
    row |= {"known_unknown": 100 * float(unknown[own].mean())}
    if not known.all():
        row["found"] = 100 * float(unknown[~known].mean())
        kinds = {kind: group[truth == kind] for kind in np.unique(truth[~known]) if (truth == kind).sum() >= 20}
        largest = [max([(of == one).mean() for one in set(of) - {""}], default=0.0) for of in kinds.values()]
        row["in_one_group"] = 100 * float(np.mean(largest)) if largest else None
        row["group_pure"] = _pure(group, truth)
    is_named = own & ~unknown
    hits = (code == truth)[is_named]
    row |= {"estimate": result["estimate"], "names_right": 100 * float((code == truth)[asked & ~unknown].mean())}
    row |= {"temperature": result["temperature"]}
    if foreign == "nothing":
        p = make_estimator("bapa", {"discover": False}).fit(rows, codes).predict_proba(rows)
        row["ece"] = ece(sure[is_named], hits)
        row["ece_before"] = ece(tempered(p, BEFORE).max(1)[own], (without[0] == truth)[own])
    return row


def _pure(group: np.ndarray, truth: np.ndarray) -> float | None:
    """The share of a group's pictures that are of its largest kind."""
    shares = [
        np.unique(truth[group == one], return_counts=True)[1].max() / (group == one).sum() for one in set(group) - {""}
    ]
    return 100 * float(np.mean(shares)) if shares else None


def least_confident(u: np.ndarray, codes: np.ndarray, p: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    return np.flatnonzero(codes < 0)[:0] if p is None else np.argsort(np.where(codes < 0, p.max(1), 2))[:ASKED]


def k_centre(u: np.ndarray, codes: np.ndarray, p: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """The greedy k-centre of core-sets (Sener and Savarese, 2018)."""
    chosen = [] if (codes >= 0).any() else [int((u @ u.sum(0)).argmax())]
    while len(chosen) < ASKED:
        near = (u @ u[[*np.flatnonzero(codes >= 0), *chosen]].T).max(1)
        near[chosen] = np.inf
        chosen.append(int(np.where(codes < 0, near, np.inf).argmin()))
    return np.array(chosen)


def typical_first(u: np.ndarray, codes: np.ndarray, p: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """TypiClust (Hacohen et al., 2022): the typical rows of the clusters that have the fewest labels."""
    found = suggest(u, np.full(len(u), -1), int((codes >= 0).sum()) + ASKED)
    nearest = (u[codes >= 0] @ u[[one.row for one in found]].T).argmax(1) if (codes >= 0).any() else []
    covered = np.bincount(nearest, minlength=len(found)) if len(nearest) else np.zeros(len(found))
    free = [place for place in np.argsort(covered, kind="stable") if codes[found[place].row] < 0]
    return np.array([found[place].row for place in free[:ASKED]], int)


def at_random(u: np.ndarray, codes: np.ndarray, p: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.flatnonzero(codes < 0))[:ASKED]


RULES: dict[str, Callable[..., np.ndarray] | None] = {
    "random": at_random,
    "least confident": least_confident,
    "k-centre": k_centre,
    "typical first": typical_first,
    "suggest": None,
}


def next_rows(tables: dict[str, Table], splits: int) -> Iterator[Row]:
    """One row per collection, beginning, rule and round of ten labels: percent right, those labelled counted in."""
    for name, (all_rows, labels, _) in tables.items():
        for seed in range(splits):
            rng = np.random.default_rng([seed, 7, zlib.crc32(name.encode())])
            order = rng.permutation(np.unique(labels))[:NEXT_WAY]
            of = [rng.permutation(np.flatnonzero(labels == label))[:NEXT_PER_CLASS] for label in order]
            rows, truth = all_rows[np.concatenate(of)], np.repeat(np.arange(len(of)), [len(part) for part in of])
            place = np.concatenate([np.arange(len(part)) for part in of])
            for start in STARTS:
                for rule in RULES:
                    codes = np.where(place < start, truth, -1)
                    for turn in range(ROUNDS + 1):
                        row, chosen = turn_of(rows, codes, truth, rule, np.random.default_rng([seed, start, turn]))
                        yield row | {"collection": name, "seed": seed, "start": start, "rule": rule, "round": turn}
                        codes[chosen] = truth[chosen]


def turn_of(
    rows: np.ndarray, codes: np.ndarray, truth: np.ndarray, rule: str, rng: np.random.Generator
) -> tuple[Row, Any]:
    """How much is right with these labels, and the rows that a rule chooses next."""
    u, asked, choose = centred(rows), codes < 0, RULES[rule]
    seen, known = np.unique(codes[~asked], return_inverse=True)
    if len(seen) < 2:
        if choose is None:
            chosen = np.array([one.row for one in suggest(u, codes, ASKED, groups=first_groups(rows))])
        else:
            chosen = choose(u, codes, None, rng)
        return {"right": 100 * float((~asked).mean())}, chosen if len(chosen) else at_random(u, codes, None, rng)
    dense = np.full(len(codes), -1)
    dense[~asked] = known
    result = named(rows, dense, len(seen), n_next=ASKED, discover=choose is None)
    code, sure, unknown, _ = answers(result)
    right = seen[code] == truth
    row = {"right": 100 * float(right.mean()), "uncertain": int((sure[asked & ~unknown] < 0.7).sum())}
    if choose is None:
        row |= {"ece": ece(sure[asked & ~unknown], right[asked & ~unknown]), "estimate": result["estimate"]}
        row["names_right"] = 100 * float(right[asked & ~unknown].mean())
        return row, np.array([int(one["file"]) for one in result["next"]], int)
    p = make_estimator("bapa", {"discover": False}).fit(rows, dense).predict_proba(rows)
    return row, choose(u, codes, p, rng)


def mean(rows: Sequence[Row], key: str) -> float:
    """Over the collections, of their means."""
    of: dict[str, list[float]] = {}
    for row in rows:
        if row.get(key) is not None:
            of.setdefault(row["collection"], []).append(row[key])
    return float(np.mean([np.mean(part) for part in of.values()])) if of else float("nan")


def worst(rows: Sequence[Row], key: str, sign: int) -> float:
    """The collection with the largest (sign 1) or smallest mean."""
    names = {row["collection"] for row in rows}
    return sign * max(sign * mean([row for row in rows if row["collection"] == name], key) for name in names)


def foreign_table(rows: Sequence[Row]) -> str:
    """Kinds without a name and strays; in the second half, collections in which names are mostly right."""
    lines = []
    for foreign in FOREIGN:
        for shot in SHOTS:
            some = [row for row in rows if (row["foreign"], row["examples"]) == (foreign, shot)]
            good = [row for row in some if row["right"] >= GOOD]
            cells = [f"{mean(some, 'groups'):.2f}", f"{mean(some, 'known_unknown'):.1f} %"]
            cells += [f"{worst(some, 'known_unknown', 1):.1f} %"]
            cells += [f"{mean(good, key):.0f} %" for key in ("found", "in_one_group", "group_pure")]
            cells += [f"{mean(some, key):+.1f}" for key in ("change", "change_before")]
            lines.append([foreign, str(shot), *("–" if "nan" in cell else cell for cell in cells)])
    header = ["foreign", "examples", "groups", "known called unknown", "worst collection", "foreign found"]
    header += ["of a kind in one group", "of a group one kind", "change of right names", "before"]
    return markdown(header, lines)


def confidence_table(rows: Sequence[Row], following: Sequence[Row]) -> str:
    """Expected calibration errors, with random examples and after labels that were suggested."""
    lines = []
    for shot in SHOTS:
        some = [row for row in rows if (row["foreign"], row["examples"]) == ("nothing", shot)]
        after = [row for row in following if (row["rule"], row["start"]) == ("suggest", shot)]
        own = [mean([row for row in after if row["round"] == turn], "ece") for turn in range(ROUNDS + 1)]
        first = [mean(some, "ece_before"), mean(some, "ece"), *own]
        lines.append([str(shot), *(f"{value:.1f}" for value in first)])
    labels = [f"+{ASKED * turn} suggested" for turn in range(ROUNDS + 1)]
    return markdown(["examples", f"at {BEFORE} (before)", "now", *labels], lines)


def next_table(rows: Sequence[Row]) -> str:
    """Percent right, the mean over the rounds, by beginning and rule."""
    turns = [row for row in rows if row["round"]]
    lines = []
    for rule in RULES:
        own = [row for row in turns if row["rule"] == rule]
        of = [[row for row in own if row["start"] == start] for start in STARTS]
        lines.append([rule, *(f"{mean(part, 'right'):.1f}" for part in (*of, own))])
    return markdown(["rule", *(f"from {start}" for start in STARTS), "mean"], lines)


def estimate_table(rows: Sequence[Row]) -> str:
    """How often "about a of 100 names are right (low–high)" is true."""
    lines = []
    told = [row for row in rows if row.get("estimate")]
    for low, high in ((0, 70), (70, 85), (85, 95), (95, 101)):
        some = [row for row in told if low <= row["estimate"]["right"] < high]
        inside = [row["estimate"]["low"] <= row["names_right"] <= row["estimate"]["high"] for row in some]
        near = [abs(row["names_right"] - row["estimate"]["right"]) <= 3 for row in some]
        shares = [f"{100 * np.mean(part):.0f} %" if some else "–" for part in (inside, near)]
        lines.append([f"{low} to {min(high, 100)}", str(len(some)), *shares])
    return markdown(["said", "tasks", "true within the bounds", "true within 3 points"], lines)


def tables_of(record: dict[str, Any]) -> dict[str, str]:
    """The tables of docs/labeling.md, by the name of their place."""
    rows, following = record["foreign"], record["next"]
    return {
        "foreign": foreign_table(rows),
        "confidence": confidence_table(rows, following),
        "suggest": next_table(following),
        "estimate": estimate_table([row for row in rows if row["foreign"] == "nothing"] + following),
    }


def main() -> None:
    parser = measure.arguments(__doc__, splits=2)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    tables = {}
    for file in asked.files:
        table = load_features(file)
        weights = str(table.metadata.get("weights", file.stem))
        tables[file.stem] = np.asarray(table.features, np.float32), np.asarray(table.labels), weights
    record: dict[str, Any] = {"splits": asked.splits, "collections": list(tables), "foreign": [], "next": []}
    for key, rows in (("foreign", foreign_rows(tables, asked.splits)), ("next", next_rows(tables, asked.splits))):
        for row in rows:
            record[key].append({name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()})
        measure.write(asked.json, record)
    for name, table in tables_of(record).items():
        print(f"{name}\n\n{table}\n")


if __name__ == "__main__":
    main()
