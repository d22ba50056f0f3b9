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

from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_output_folder, unchanged_since_now
from protoadapt.core.methods.many import Learned
from protoadapt.labeling import label_tables, outputs
from protoadapt.labeling.classifier import Answers, Classifier, described, estimator, save_classifier
from protoadapt.labeling.given import Given, read_given
from protoadapt.labeling.names import from_text, to_text
from protoadapt.labeling.processes import joined, of_all
from protoadapt.labeling.prototype_paths import prototype_paths
from protoadapt.labeling.run import METHOD, model_of
from protoadapt.labeling.support import listed_shots, nothing_lost
from protoadapt.vision.networks.cards import calibration_of, card_file, trained_on
from protoadapt.vision.pictures.decode import data_url, thumbnail
from protoadapt.vision.pictures.read import read_file
from protoadapt.vision.shards import adapt, stream
from protoadapt.vision.shards.shard_files import Header

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
        chosen = _streamable(method, settings or {}, device)
        label_tables.check_pyarrow()
        check_output_folder(out)
        rows, about, total = _opened(features, rank, world)
        labels_csv = out / "labels.csv"
        unchanged = unchanged_since_now(labels_csv)
        given = read_given(support, rows, about, model, device)
        if labels_csv.is_file():
            nothing_lost(labels_csv, listed_shots(labels_csv), given.labels.get)
        stream.check_all(rows)
        rows = _without(rows, given, chosen.n_iter + 2, on_progress)
        power = adapt.Power(chosen.beta, chosen.power)
        card = card_file(model or about["model"]["model"])  # as it is now, not as it was when features were made
        classifier = _classifier(chosen, rows, given, about, calibration_of(card, about["weights"]), power, device)

        answer, one_of = _answering(classifier, power, device), -(-total // SAMPLE)
        told_of = given.places | dict.fromkeys(given.unknown, label_tables.NO_CLASS)
        path = out / label_tables.part_name(rank, world)
        own = label_tables.write(path, rows, told_of, classifier.classes, answer, one_of, unchanged)
        parts = of_all((own._replace(few=None), _broken(rows)))
        label_tables.remove_others(out, world)  # now that all parts are there

        network = about["model"] | {"trained_on": trained_on(card, about["model"].get("dataset"))}
        told = _told(features, total, parts, given, classifier, network, described(chosen))
        told["folder"] = outputs.way_to(about["root"], out)
        if rank == 0:
            table = np.concatenate([given.rows, *(answered.sample_rows for answered, _ in parts)]).astype(np.float32)
            codes = np.concatenate([given.codes, np.full(len(table) - len(given.codes), -1)])
            told["paths"] = prototype_paths(estimator(method, settings or {}), classifier, table, codes)
            for i, key, side in outputs.pictured(told["pictures"]):
                file = from_text(told["pictures"][i]["file"])
                told["pictures"][i][key] = _thumbnail(os.path.join(about["root"], file), side)
            _write_csv(labels_csv, told, own.few if world == 1 else None, given, support, unchanged)
            outputs.write_json(out / "labels.json", told)
            save_classifier(out / "classifier.safetensors", classifier)
        return told


def _streamable(method: str, settings: Mapping[str, Any], device: str) -> Any:
    """The estimator, if it can learn from rows that are never held."""
    chosen = estimator(method, settings, device)
    asked = chosen.get_params()
    if method not in ("bapa", "cipa") or asked.get("center") not in (None, "separate") or not asked.get("l2", True):
        raise UserError("--features takes --method bapa, or cipa with its own center and l2: change --method")
    return chosen


def _opened(features: Path, rank: int, world: int) -> tuple[stream.Rows, dict[str, Any], int]:
    """This process's rows, what the folder says of itself, and how many rows all processes have."""
    rows, about = stream.open_features(features, (rank, world))
    if not rows.headers:
        raise UserError(f"{world} processes for {count(about['shards'], 'shard')} are too many: start fewer")
    total = sum(of_all(sum(header.shape[0] for header in rows.headers)))
    if not total:
        raise UserError(f"{str(features)!r} has no rows: none of its pictures could be read, see its broken.csv")
    return rows, about, total


def _told(
    features: Path,
    total: int,
    parts: Sequence[tuple[label_tables.Answered, list[dict[str, str]]]],
    given: Given,
    classifier: Classifier,
    network: Mapping[str, Any],
    method: dict[str, Any],
) -> dict[str, Any]:
    """What labels.json holds, still without thumbnails and paths. parts: of each process, what was found and broken."""
    answers, broken = [answered for answered, _ in parts], [one for _, part in parts for one in part]
    shown = [picture for answered in answers for picture in answered.sample]
    title = f"{to_text(features.resolve().name)}: {len(shown):,} of {count(total, 'picture')}"
    told = outputs.tell(title, shown, given.shots, classifier, network, method)
    found, unknown = (np.sum(each, 0).tolist() for each in zip(*((a.found, a.unknown) for a in answers)))
    for one, number, no in zip(told["classes"], found, unknown):
        one |= {"found": number, "unknown": no}
    told["skipped"] = outputs.tell_skipped(given.skipped, to_text) + broken[:SKIPPED]
    return told | {"notes": given.notes}


def _write_csv(
    file: Path,
    told: Mapping[str, Any],
    few: list[dict[str, Any]] | None,
    given: Given,
    support: Sequence[Path],
    unchanged: Callable[[], None],
) -> None:
    """The labels of all rows, where they are few; else no csv of an earlier run stays, which would say otherwise."""
    if few is not None:
        by_table = {to_text(name) for name in given.by_table}
        few = [picture | {"by_table": picture["file"] in by_table} for picture in few]
        outputs.write_text(file, outputs.as_csv({**told, "pictures": few}), unchanged)
    elif not any(source.exists() and file.exists() and source.samefile(file) for source in support):
        unchanged()
        file.unlink(missing_ok=True)


def _without(rows: stream.Rows, given: Given, passes: int, on_progress: Callable[[int, int], None]) -> stream.Rows:
    """The rows that have no label yet; they tell how far the passes over them are."""
    total, done = passes * sum(header.shape[0] for header in rows.headers), 0

    def tick(count: int) -> None:
        nonlocal done
        done += count
        on_progress(min(done, total), total)  # BAPA takes one more where class sizes differ

    leave: dict[int, list[int]] = {header.metadata["shard"]: [] for header in rows.headers}
    for shard, position in given.places:
        if shard in leave:
            leave[shard].append(position)
    return replace(rows, leave={shard: np.array(found) for shard, found in leave.items() if found}, tick=tick)


def _classifier(
    chosen: Any,
    rows: stream.Rows,
    given: Given,
    about: Mapping[str, Any],
    calibration: dict[str, Any] | None,
    power: adapt.Power,
    device: str,
) -> Classifier:
    """Learned from all rows, some of which have labels."""
    learned = _learned(chosen, rows, given, power, device)
    chosen.center_, chosen.prototypes_, chosen.class_bias_ = (part.cpu().numpy() for part in learned)
    kept = model_of(about["model"])
    if about["views"] > 1:  # a card is calibrated with one
        kept, calibration = kept | {"views": about["views"]}, None
    return Classifier.of(chosen, given.classes, kept, given.rows, given.codes, calibration)


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
        return data_url(thumbnail(read_file(file), side))
    except Exception:  # in a tar file, or on another machine; without a thumbnail its label is still right
        return None


def _broken(rows: stream.Rows) -> list[dict[str, str]]:
    found = (broken for header in rows.headers for broken in header.metadata["broken"])
    return [{"file": to_text(one["name"]), "reason": one["reason"]} for one, _ in zip(found, range(SKIPPED))]
