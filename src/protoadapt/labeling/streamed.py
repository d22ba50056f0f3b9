"""Labels for pictures by the million: `label --features`, over the shards that `extract --manifest` wrote.

Rows are run through once a step and never held (`shards.adapt`). Under torchrun each process takes its part of the
shards, and the sums of a step are added up. The labels of all rows are Parquet, and csv too where they are few; the
report shows a sample.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.errors import UserError
from protoadapt.labeling import outputs, pictures, tables
from protoadapt.labeling.classifier import Classifier, estimator, save_classifier
from protoadapt.labeling.given import Given, read_given
from protoadapt.labeling.names import from_text, to_text
from protoadapt.labeling.paths import prototype_paths
from protoadapt.labeling.processes import joined, of_all
from protoadapt.labeling.run import METHOD, _model, _settings, calibration
from protoadapt.methods.bapa import check as check_bapa
from protoadapt.methods.many import Learned, two_best
from protoadapt.shards import adapt, stream
from protoadapt.shards.store import Header

SAMPLE = 2000
"""Pictures in the report, beside those that were given."""
SKIPPED = 1000
"""Broken pictures that it lists; extract's broken.csv has all."""


def label_features(
    support: Path,
    features: Path,
    out: Path,
    *,
    model: str | Path | None = None,
    method: str = METHOD,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Names every row of a feature folder. Returns what labels.json holds, which tells of a sample."""
    with joined(device) as (rank, world, device):
        chosen = estimator(method, settings or {}, device)
        asked = chosen.get_params()
        if method not in ("bapa", "cipa") or asked.get("center") not in (None, "separate") or not asked.get("l2", True):
            raise UserError("--features takes --method bapa, or cipa with its own center and l2: change --method")
        tables.check_pyarrow()
        rows, about = stream.open_features(features, (rank, world))
        if not rows.headers:
            raise UserError(f"{world} processes for {about['shards']} shards are too many: start fewer")
        given = read_given(support, rows, about, model, device)
        stream.check_all(rows)
        rows = _without(rows, given, asked["n_iter"] + 2, on_progress)
        power = adapt.Power(asked["beta"], asked["power"])
        fitted = (part.cpu().numpy() for part in _learned(chosen, rows, given, power, device))
        chosen.center_, chosen.prototypes_, chosen.class_bias_ = fitted
        calibrated = calibration(about["model"], method, settings or {})
        classifier = Classifier.of(chosen, given.classes, _model(about["model"]), **calibrated)

        parts = (classifier.center, classifier.prototypes, classifier.class_bias)
        scores = adapt.Scorer.of(Learned(*(part.to(device) for part in parts)), classifier._how)

        def answer(header: Header, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return _two_best(header, table, scores, power, classifier.temperature, device)

        count = sum(of_all(sum(header.shape[0] for header in rows.headers)))
        name = "labels.parquet" if world == 1 else f"labels-{rank:05d}-of-{world:05d}.parquet"
        answered = tables.write(out / name, rows, given.places, classifier, answer, every=-(-count // SAMPLE))
        every_part = of_all((answered.found, answered.sample, answered.sample_rows, _broken(rows)))
        found, sample, sampled, broken = (list(parts) for parts in zip(*every_part))
        shown = [picture for part in sample for picture in part]
        title = f"{to_text(features.resolve().name)}: {len(shown):,} of {count:,} pictures"
        how = {"name": method, "settings": _settings(chosen)}
        told = outputs.tell(title, shown, given.shots, classifier, about["model"], how)
        for one, number in zip(told["classes"], np.sum(found, 0).tolist()):
            one["found"] = number
        told["skipped"] = [one for part in broken for one in part][:SKIPPED]
        if rank == 0:
            codes = np.concatenate([given.codes, np.full(sum(map(len, sampled)), -1)])
            table = np.concatenate([given.rows, *sampled]).astype(np.float32)
            told["paths"] = prototype_paths(estimator(method, settings or {}), classifier, table, codes)
            for picture in told["pictures"]:
                picture["thumb"] = _thumbnail(os.path.join(about.get("root", ""), from_text(picture["file"])))
            save_classifier(out / "classifier.safetensors", classifier)
            outputs.write_text(out / "labels.json", json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")
            if world == 1 and answered.few is not None:
                outputs.write_text(out / "labels.csv", outputs.as_csv({**told, "pictures": answered.few}))
        return told


def _without(rows: stream.Rows, given: Given, passes: int, on_progress: Callable[[int, int], None]) -> stream.Rows:
    """The rows that have no label yet; they tell how far the passes over them are."""
    total, done = passes * sum(header.shape[0] for header in rows.headers), 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total)

    leave: dict[int, list[int]] = {header.told["shard"]: [] for header in rows.headers}
    for shard, position in given.places:
        if shard in leave:
            leave[shard].append(position)
    return replace(rows, leave={shard: np.array(found) for shard, found in leave.items() if found}, tick=tick)


def _learned(chosen: Any, rows: stream.Rows, given: Given, power: adapt.Power, device: str) -> Learned:
    support = torch.from_numpy(given.rows).double().to(device)
    support = chosen._power(support)
    labels = torch.from_numpy(given.codes).to(device)
    arguments = (rows, support, labels, len(given.classes), chosen._how(), power)
    if not hasattr(chosen, "kappa"):
        return adapt.learn_cipa(*arguments)
    check_bapa(chosen.n_iter, chosen.sigma, chosen.lam, chosen.kappa, chosen.k_s)
    return adapt.learn_bapa(*arguments, kappa=chosen.kappa, k_s=chosen.k_s)


def _two_best(
    header: Header, table: np.ndarray, scores: adapt.Scorer, power: adapt.Power, temperature: float, device: str
) -> tuple[np.ndarray, np.ndarray]:
    """The two likeliest classes of each row (n, 2), and their probabilities."""
    best, probability = np.empty((len(table), 2), np.int32), np.empty((len(table), 2), np.float32)
    start = 0
    with torch.inference_mode():
        for piece in adapt.pieces(header, table, power, device):
            place = slice(start, start + len(piece.s))
            found = two_best(scores(piece)[0].mT / temperature)
            best[place], probability[place] = (part.cpu().numpy() for part in found)
            start = place.stop
    return best, probability


def _thumbnail(file: str) -> str | None:
    try:
        return pictures.data_url(pictures.thumbnail(pictures.read(file)))
    except Exception:  # in a tar file, or on another machine; without a thumbnail its label is still right
        return None


def _broken(rows: stream.Rows) -> list[dict[str, str]]:
    found = (broken for header in rows.headers for broken in header.told["broken"])
    return [{"file": to_text(one["name"]), "reason": one["reason"]} for one, _ in zip(found, range(SKIPPED))]
