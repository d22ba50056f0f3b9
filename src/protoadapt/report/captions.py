"""Words on what a result was measured on: data, protocol, embedding."""

from collections.abc import Mapping, Sequence
from typing import Any

from protoadapt.core.errors import count

USUAL = {"crop": "none", "views": 1, "store": None, "pooling": 1}


def dataset(features: Mapping[str, Any]) -> str:
    """The name of the data that features come from: a folder of one's own by its name."""
    return str(features.get("folder") or features.get("dataset") or "")


def origin(features: Mapping[str, Any]) -> str:
    """The same with the split."""
    return " ".join(filter(None, (dataset(features), str(features.get("split") or ""))))


def caption(result: Mapping[str, Any], shots: str = "") -> str:
    """What a table was measured on, in one line; `shots` such as "1- and 5-" where it holds several."""
    data = origin(result.get("features", {}))
    return (f"{data}: " if data else "") + f"{_protocol(result, shots)}, seed {result['seed']}, 95 % CI"


def caption_of_runs(results: Sequence[Mapping[str, Any]]) -> str:
    """The same for results of several runs: feature files, seeds, or both."""
    data = ", ".join(filter(None, dict.fromkeys(origin(result["features"]) for result in results)))
    files, seeds = ({result["features"].get("hash") for result in results}, {result["seed"] for result in results})
    runs = len({(result["features"].get("hash"), result["seed"]) for result in results})
    number = f"{count(runs, 'run')}: {count(len(files), 'feature file')} × {count(len(seeds), 'seed')}"
    return (f"{data}: " if data else "") + f"{_protocol(results[0])} per run, 95 % CI; {number}"


def _protocol(result: Mapping[str, Any], shots: str = "") -> str:
    p = result["protocol"]
    queries = {
        "balanced": f"{p['query']} queries per class",
        "dirichlet": f"{result['queries']} queries, Dirichlet({p['alpha']:g})",
        "semi": f"{p['query']} queries and {p['unlabeled']} unlabelled per class",
        "present": f"{result['queries']} queries of {p['present']} classes",
        "one-class": f"{result['queries']} queries of one class",
        "few": count(result["queries"], "query", "queries"),
        "open": f"{p['query']} queries per class, {100 * p['foreign']:g} % of all queries of other classes",
    }[p["kind"]]
    queries += f", {p['distractors']} distractor classes" if p["distractors"] else ""
    return f"{p['way']}-way {shots or str(p['shot']) + '-'}shot, {queries}, {count(result['episodes'], 'episode')}"


def run_name(result: Mapping[str, Any]) -> str:
    """The name of an embedding: its training run, else its weights or its features."""
    features = result["features"]
    return str(_run(result) or features.get("weights") or features.get("hash") or "features")


def _run(result: Mapping[str, Any]) -> object:
    training = result.get("training")
    return training.get("run") if isinstance(training, dict) else None


def embedding(result: Mapping[str, Any]) -> str:
    """Network, training run, weights, and whatever is unusual about crop, views, their stored side and pooling."""
    features = result["features"]
    parts = [
        *(features.get("backbone"), f"run {_run(result)}" if _run(result) else None),
        f"weights {features['weights']}" if features.get("weights") else None,
        *(f"{key} {value}" for key, usual in USUAL.items() if (value := features.get(key, usual)) not in (usual, None)),
    ]
    return ", ".join(str(part) for part in parts if part)
