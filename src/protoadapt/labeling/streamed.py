"""Labels for pictures by the million: `label --features`, over the shards that `extract --manifest` wrote.

Rows are run through once a step and never held (`shards.adapt`). Under torchrun each process takes its part of the
shards, and the sums of a step are added up. The labels of all rows are Parquet, and csv too where they are few; the
report shows a sample.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from protoadapt.errors import UserError, count
from protoadapt.files import check_output_folder, unchanged_since_now
from protoadapt.labeling import outputs, pictures, tables
from protoadapt.labeling.classifier import Answers, Classifier, described, estimator, save_classifier
from protoadapt.labeling.given import Given, read_given
from protoadapt.labeling.names import from_text, to_text
from protoadapt.labeling.paths import prototype_paths
from protoadapt.labeling.processes import joined, of_all
from protoadapt.labeling.run import METHOD, model_of
from protoadapt.labeling.support import listed_shots, nothing_lost
from protoadapt.methods.many import Learned
from protoadapt.models.cards import calibration_of, card_file, trained_on
from protoadapt.shards import adapt, stream
from protoadapt.shards.store import Header

SAMPLE = 2000
"""Pictures in the report, beside those that were given."""
SKIPPED = 1000
"""Broken pictures that it lists; extract's broken.csv has all."""


def label_features(
    support: Sequence[Path],
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
        check_output_folder(out)
        rows, about = stream.open_features(features, (rank, world))
        if not rows.headers:
            raise UserError(f"{world} processes for {count(about['shards'], 'shard')} are too many: start fewer")
        total = sum(of_all(sum(header.shape[0] for header in rows.headers)))
        if not total:
            raise UserError(f"{str(features)!r} has no rows: none of its pictures could be read, see its broken.csv")
        labels_csv = out / "labels.csv"
        unchanged = unchanged_since_now(labels_csv)
        given = read_given(support, rows, about, model, device)
        if labels_csv.is_file():
            nothing_lost(labels_csv, listed_shots(labels_csv), given.labels.get)
        stream.check_all(rows)
        rows = _without(rows, given, asked["n_iter"] + 2, on_progress)
        power = adapt.Power(asked["beta"], asked["power"])
        fitted = (part.cpu().numpy() for part in _learned(chosen, rows, given, power, device))
        chosen.center_, chosen.prototypes_, chosen.class_bias_ = fitted
        card = card_file(model or about["model"]["model"])  # as it is now, not as it was when features were made
        kept, calibration = model_of(about["model"]), calibration_of(card, about["weights"])
        if about["views"] > 1:  # a card is calibrated with one
            kept, calibration = kept | {"views": about["views"]}, None
        classifier = Classifier.of(chosen, given.classes, kept, given.rows, given.codes, calibration)
        answer = _answering(classifier, power, device)
        told_of = given.places | dict.fromkeys(given.unknown, tables.NO_CLASS)
        path = out / tables.part_name(rank, world)
        answered = tables.write(path, rows, told_of, classifier.classes, answer, -(-total // SAMPLE), unchanged)
        every_part = of_all((answered.found, answered.unknown, answered.sample, answered.sample_rows, _broken(rows)))
        tables.remove_others(out, world)  # now that all parts are there
        found, unknown, sample, sampled, broken = (list(parts) for parts in zip(*every_part))
        shown = [picture for part in sample for picture in part]
        title = f"{to_text(features.resolve().name)}: {len(shown):,} of {count(total, 'picture')}"
        network = about["model"] | {"trained_on": trained_on(card, about["model"].get("dataset"))}
        told = outputs.tell(title, shown, given.shots, classifier, network, described(chosen))
        for one, number, no in zip(told["classes"], np.sum(found, 0).tolist(), np.sum(unknown, 0).tolist()):
            one |= {"found": number, "unknown": no}
        told["skipped"] = outputs.tell_skipped(given.skipped, to_text)
        told["skipped"] += [one for part in broken for one in part][:SKIPPED]
        told |= {"notes": given.notes, "folder": outputs.way_to(about["root"], out)}
        if rank == 0:
            codes = np.concatenate([given.codes, np.full(sum(map(len, sampled)), -1)])
            table = np.concatenate([given.rows, *sampled]).astype(np.float32)
            told["paths"] = prototype_paths(estimator(method, settings or {}), classifier, table, codes)
            for i, key, side in outputs.pictured(shown):
                shown[i][key] = _thumbnail(os.path.join(about["root"], from_text(shown[i]["file"])), side)
            if world == 1 and answered.few is not None:
                by_table = {to_text(name) for name in given.by_table}
                few = [picture | {"by_table": picture["file"] in by_table} for picture in answered.few]
                outputs.write_text(labels_csv, outputs.as_csv({**told, "pictures": few}), unchanged)
            elif not any(source.exists() and labels_csv.exists() and source.samefile(labels_csv) for source in support):
                unchanged()
                labels_csv.unlink(missing_ok=True)  # an earlier run's: it would say otherwise
            outputs.write_json(out / "labels.json", told)
            save_classifier(out / "classifier.safetensors", classifier)
        return told


def _without(rows: stream.Rows, given: Given, passes: int, on_progress: Callable[[int, int], None]) -> stream.Rows:
    """The rows that have no label yet; they tell how far the passes over them are."""
    total, done = passes * sum(header.shape[0] for header in rows.headers), 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        on_progress(min(done, total), total)  # BAPA takes one more where class sizes differ

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
    if described(chosen)["name"] == "cipa":
        return adapt.learn_cipa(*arguments)
    return adapt.learn_bapa(*arguments, kappa=chosen.kappa, k_s=chosen.k_s)


def _answering(classifier: Classifier, power: adapt.Power, device: str) -> Callable[[Header, np.ndarray], Answers]:
    """`Classifier.answer` for the rows of a shard."""
    center, prototypes, bias, means = (
        part.to(device) for part in (classifier.center, classifier.prototypes, classifier.class_bias, classifier.means)
    )
    scores = adapt.Scorer.of(Learned(center, prototypes, bias), classifier._how)
    cosines = adapt.Scorer.linear(means, torch.zeros_like(bias), center)

    @torch.inference_mode()
    def answer(header: Header, table: np.ndarray) -> Answers:
        pieces = adapt.pieces(header, table, power, device)
        return Answers.of(classifier.decide(scores(piece)[0].mT, cosines(piece)[0].amax(0)) for piece in pieces)

    return answer


def _thumbnail(file: str, side: int) -> str | None:
    try:
        return pictures.data_url(pictures.thumbnail(pictures.read(file), side))
    except Exception:  # in a tar file, or on another machine; without a thumbnail its label is still right
        return None


def _broken(rows: stream.Rows) -> list[dict[str, str]]:
    found = (broken for header in rows.headers for broken in header.told["broken"])
    return [{"file": to_text(one["name"]), "reason": one["reason"]} for one, _ in zip(found, range(SKIPPED))]
