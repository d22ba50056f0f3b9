"""`protoadapt label`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from protoadapt.cli import options
from protoadapt.cli.options import MODEL_HELP, option
from protoadapt.cli.progress import bars, say_notes, say_skipped
from protoadapt.core.errors import UserError, count, for_terminal
from protoadapt.labeling import DEFAULT_METHOD, DEFAULT_MODEL

EXAMPLES_HELP = (
    "labelled examples: one folder per class, a csv with the columns file and label, or a JSON export of Label Studio; "
    "repeatable"
)
MODEL_OR_FEATURES_HELP = f"{MODEL_HELP} (default: {DEFAULT_MODEL}; with --features, the one that made them)"


def label_command(
    out: Annotated[Path, option("directory for labels.csv, report.html, classifier, …", "DIR")],
    support: Annotated[list[Path] | None, option(EXAMPLES_HELP, "DIR|CSV")] = None,
    images: Annotated[Path | None, option("pictures to name, in this directory and those below it", "DIR")] = None,
    features: Annotated[Path | None, option("directory from `extract --manifest`; replaces --images", "DIR")] = None,
    model: Annotated[str | None, option(MODEL_OR_FEATURES_HELP)] = None,
    method: Annotated[str, option("bapa, cipa, protonet, semi_protonet, soft_kmeans or pt_map")] = DEFAULT_METHOD,
    settings: options.Settings = None,
    sort: options.Sort = None,
    explain: Annotated[Path | None, option("one of the pictures: say why it is called what it is", "FILE")] = None,
    cache: options.FeatureCache = None,
    device: options.Device = "auto",
) -> None:
    """Name pictures from a few labelled examples per class.

    Unlabelled pictures also shape the classifier (transductive). Writes labels.csv, a report to check them in, and a
    classifier for `predict`.
    """
    if features:
        of_images = {"--images": images, "--sort": sort, "--cache": cache, "--explain": explain}
        options.refuse_unused(of_images, "with --features")
    elif not images:
        raise UserError("there are no pictures to name: give --images DIR, or --features DIR from extract --manifest")
    if not support:
        raise UserError(
            f"there are no examples: give --support with one folder per class or a csv, or let `protoadapt suggest "
            f"--images {images or 'DIR'} --out {out}` choose pictures to label first"
        )
    from protoadapt import labeling
    from protoadapt.core.methods import parse_assignments
    from protoadapt.report.label_page import labels_findings, labels_page, labels_summary

    given: dict[str, Any] = {"features": features, "model": model, "method": method, "cache": cache}
    given |= {"settings": parse_assignments(settings or []), "device": options.find_device(device)}
    given |= {"sort": sort, "explain": explain}
    with bars(lines=features is not None) as report:
        result = labeling.label(support, images, out, **given, on_progress=report, page=labels_page)
    if any(one["found"] for one in result["classes"]):
        for one in result["classes"]:
            maybe = f"; {one['unknown']:,} more unknown" if one["unknown"] else ""
            of_class = one["support"] + one["found"] - one["unknown"]
            print(f"{of_class:11,} {for_terminal(one['name'])} (with {count(one['support'], 'example')}{maybe})")
    print(labels_summary(result), *labels_findings(result), sep="\n")
    say_notes(result["notes"], out / "labels.json")
    say_skipped(result.get("skipped", ()) if images else (), out / "report.html")
    if result.get("left_alone"):
        print(f"not written by protoadapt and left as is: {count(result['left_alone'], 'file')} in {out / 'sorted'}")
    written = [*(["labels.parquet"] if features else []), "labels.csv", "report.html"]
    print(", ".join(str(out / name) for name in written if (out / name).exists()))
    if explain:
        print(*map(for_terminal, _explanation(result["explained"])), sep="\n")


def _explanation(one: Mapping[str, Any]) -> list[str]:
    """Why a picture is called what it is, in lines."""
    from protoadapt.labeling.explain import reasons_of

    said = "labelled by you" if one["by_you"] else f"{one['confidence']:.0%}, next {one['runner_up']}"
    reasons = reasons_of(one, one["threshold"])
    lines = [f"{one['file']}: {one['label']} ({said})", *reasons, "the nearest examples:"]
    return lines + [f"{near['resemblance']:7.2f} {near['label']}: {near['file']}" for near in one["nearest"]]
