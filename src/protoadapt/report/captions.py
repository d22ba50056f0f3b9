"""Words on what a result was measured on: data, protocol, embedding."""

from collections.abc import Mapping
from typing import Any

USUAL = {"crop": "none", "views": 1, "pooling": 1}


def dataset(features: Mapping[str, Any]) -> str:
    """The name of the data that features come from: a folder of one's own by its name."""
    return str(features.get("folder") or features.get("dataset") or "")


def origin(features: Mapping[str, Any]) -> str:
    """The same with the split."""
    return " ".join(filter(None, (dataset(features), str(features.get("split") or ""))))


def caption(result: Mapping[str, Any], shots: str = "") -> str:
    """What a table was measured on, in one line; `shots` such as "1- and 5-" where it holds several."""
    p = result["protocol"]
    queries = {
        "balanced": f"{p['query']} queries per class",
        "dirichlet": f"{result['queries']} queries, Dirichlet({p['alpha']:g})",
        "semi": f"{p['query']} queries and {p['unlabeled']} unlabelled per class",
    }[p["kind"]]
    queries += f", {p['distractors']} distractor classes" if p["distractors"] else ""
    data = origin(result.get("features", {}))
    words = f"{p['way']}-way {shots or p['shot']}{'' if shots else '-'}shot, {queries}, {result['episodes']:,} episodes"
    return (f"{data}: " if data else "") + f"{words}, seed {result['seed']}, 95 % CI"


def run_name(result: Mapping[str, Any]) -> str:
    """The name of an embedding: its training run, else its weights or its features."""
    features = result["features"]
    return str(_run(result) or features.get("weights") or features.get("hash") or "features")


def _run(result: Mapping[str, Any]) -> object:
    training = result.get("training")
    return training.get("run") if isinstance(training, dict) else None


def embedding(result: Mapping[str, Any]) -> str:
    """Network, training run, weights, and whatever is unusual about crop, views and pooling."""
    features = result["features"]
    parts = [
        *(features.get("backbone"), f"run {_run(result)}" if _run(result) else None),
        f"weights {features['weights']}" if features.get("weights") else None,
        *(f"{key} {value}" for key, usual in USUAL.items() if (value := features.get(key, usual)) not in (usual, None)),
    ]
    return ", ".join(str(part) for part in parts if part)
