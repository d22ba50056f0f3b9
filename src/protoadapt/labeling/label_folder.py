"""`label`: names for the pictures of a folder, from a few examples of each class."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output_folder, unchanged_since_now
from protoadapt.core.threads import thread_pool
from protoadapt.labeling.classifier import METHOD
from protoadapt.labeling.names import UNKNOWN, to_folder, to_text
from protoadapt.labeling.outputs import (
    NONE_OF_CLASSES,
    UNLABELED,
    check_replaced,
    link_between,
    skipped_records,
)
from protoadapt.labeling.parquet_table import PARQUET
from protoadapt.labeling.sorting import APART, check_folders, check_way, sort_pictures
from protoadapt.labeling.support import (
    IN_FOLDER,
    Support,
    check_classes,
    check_corrections,
    class_names,
    one_per_picture,
    read_support,
    table_examples,
)
from protoadapt.labeling.thumbnails import Progress, made_meanwhile
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures import formats
from protoadapt.vision.pictures.walk import Listing, Skipped, find_pictures

if TYPE_CHECKING:
    from protoadapt.core.estimators import PrototypeClassifier
    from protoadapt.labeling.pipeline import Task


def label(
    support: Sequence[str | Path],
    images: str | Path,
    out: str | Path,
    *,
    model: str | Path,
    method: str = METHOD,
    settings: Mapping[str, Any] | None = None,
    sort: str | None = None,
    sort_unknown: str | None = None,
    unknown: str | float | None = None,
    cache: str | Path | None = None,
    device: str = "cpu",
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names the pictures of a folder from a few examples; the unlabelled pictures shape the classifier too.

    Parameters
    ----------
    support : folders with one folder of pictures per class, and csv files with the columns `file` and `label`, such as
        a labels.csv that was corrected. At least two classes.
    images : the folder whose pictures are named, at any depth. They may include the examples.
    out : the folder that gets labels.csv, labels.json and classifier.safetensors.
    model : a network that `protoadapt models` lists, "timm:NAME", or a model file.
    method : "bapa" (any class balance), "cipa", "protonet", "semi_protonet", "soft_kmeans" or "pt_map".
    settings : settings of the method by name; the defaults are those of its estimator.
    sort : "copy" or "link" puts the pictures into `out`/sorted/CLASS/ as well.
    sort_unknown : with `sort`: "together" (default) keeps a picture that may be of none of the classes in the folder of
        its likeliest class; "apart" puts it into `out`/sorted/unknown/, where a picture that a person called unknown
        goes in any case.
    unknown : how many of the known pictures may be called unknown, as a share up to 0.5; None: 0.1; "off": none.
    cache : folder that keeps features by content; by default `out`/.features.
    device : "cpu", "cuda", …
    on_progress : called with "pictures embedded" or "thumbnails", how many are done, and of how many.

    Returns
    -------
    What labels.json holds: `classes`, one record per picture in `pictures`, `skipped` files with reasons, `notes`, the
    `model`, `method`, `calibrated`, `threshold` and `paths` for the report (`protoadapt.report`).

    Examples
    --------
    >>> result = label(["examples"], "photos", "named", model="lite0")
    >>> result["pictures"][0]["label"]
    'oak'
    """
    out, cache = Path(out), Path(cache or Path(out, ".features"))
    _check(out, images, support, sort, sort_unknown)
    labels_csv = out / "labels.csv"
    unchanged = unchanged_since_now(labels_csv)
    examples = read_support(support, images)
    if sort:
        check_folders(class_names(examples.examples))
    pictures = pictures_of(images, [out, cache])
    libraries = thread_pool(1).submit(_load_libraries)  # not before: it would get its turn at every file's size
    if settings or method != METHOD or unknown is not None:
        libraries.result()
        _learner(method, settings or {}, device, unknown)  # mistakes are said before the work
    embedded = embed_pictures(pictures, examples, model, cache, device, on_progress)
    libraries.result()
    task, files = folder_task(images, pictures.files, examples, embedded, device)
    unchanged()  # or the next line would speak of corrections that were made since
    if labels_csv.is_file():
        _check_corrections(labels_csv, images, support, examples, embedded.content_of)
    from protoadapt.labeling.pipeline import name_pictures, write_results

    estimator, rate = _learner(method, settings or {}, device, unknown)
    with made_meanwhile(task.root, task.contents, out):
        named = name_pictures(task, estimator, rate=rate)
    named.result["folder"] = link_between(out, images)
    write_results(out, task, named, support, unchanged, on_progress)
    result = named.result
    if sort:
        places = sorted_places(result["pictures"], files, images, sort_unknown == APART)
        done = sort_pictures(out / "sorted", places, sort)
        result["left_alone"] = done.left_alone
        result["skipped"] += skipped_records(done.failed, partial(name_in, images))
    return result


def _load_libraries() -> None:
    """What naming needs, while pictures are embedded: these take seconds to load.

    None of our own modules: two threads that enter a package by different modules may each see the other's half-made.
    """
    for module in ("torch", "scipy.linalg", "sklearn.base", "sklearn.manifold"):
        import_module(module)


def _learner(
    method: str, settings: Mapping[str, Any], device: str, unknown: str | float | None
) -> "tuple[PrototypeClassifier, float | None]":
    """The estimator and the rate of unknowns."""
    from protoadapt.labeling.familiarity import checked_rate
    from protoadapt.labeling.label_methods import make_estimator

    return make_estimator(method, settings, device), checked_rate(unknown)


class Embedded(NamedTuple):
    """Pictures and examples with their features."""

    content_of: dict[str, bytes | None]  # sha256 by file; None: it cannot be read
    store: Store  # features by content
    metadata: dict[str, Any]  # of the network
    skipped: list[Skipped]  # of all kinds


def pictures_of(images: str | Path, leave: Sequence[str | Path] = ()) -> Listing:
    """The pictures of a folder, of which there must be some; folders in `leave` are not entered."""
    pictures = find_pictures(images, leave)
    if not pictures.files:
        raise UserError(
            f"there are no pictures in {str(images)!r}: give a folder of {', '.join(formats.readable())} files"
        )
    return pictures


def embed_pictures(
    pictures: Listing,
    support: Support,
    model: str | Path,
    cache: str | Path | None,
    device: str,
    on_progress: Progress,
) -> Embedded:
    """Computes the features that the cache lacks. At least one of the pictures must be readable."""
    if cache:
        check_output_folder(Path(cache))
    network, metadata = networks.load_for_files(model, device)
    store = Store(cache, metadata["weights"], metadata["size"], metadata.get("dim"))
    files = list(dict.fromkeys([*pictures.files, *(example.file for example in support.examples)]))
    contents, broken = embed_files(files, network, metadata, store, partial(on_progress, "pictures embedded"))
    skipped = [*support.skipped, *pictures.skipped, *(Skipped(files[i], reason) for i, reason in broken.items())]
    content_of = dict(zip(files, contents))
    if pictures.files and not any(content_of[file] for file in pictures.files):
        raise UserError(
            f"no picture can be read ({to_text(skipped[-1].file)!r}: {skipped[-1].reason}): give other pictures"
        )
    return Embedded(content_of, store, metadata, skipped)


def folder_task(
    images: str | Path, files: Sequence[str], support: Support, embedded: Embedded, device: str
) -> "tuple[Task, list[str]]":
    """Joins pictures and examples by content, one row per content; also returns the file of each picture.

    Examples that are not among the files come after them, so that all labels are in one list.
    """
    from protoadapt.labeling.pipeline import in_memory

    examples, (content_of, store, metadata, skipped) = support.examples, embedded
    example_of = one_per_picture((content_of[example.file], example) for example in examples)
    classes = class_names(example_of.values())
    check_classes(examples, classes, skipped)
    present = {content_of[file] for file in files}
    files = [*files, *(example.file for content, example in example_of.items() if content not in present)]
    readable = [(file, content) for file in files if (content := content_of[file]) is not None]
    row = {content: place for place, content in enumerate(dict.fromkeys(content for _, content in readable))}
    number = {name: code for code, name in enumerate(classes)} | {UNKNOWN: NONE_OF_CLASSES}
    codes = np.array([number[example_of[c].label] if c in example_of else UNLABELED for c in row])
    in_folder = {content_of[example.file] for example in examples if not example.by_table}
    origins = {c: IN_FOLDER if c in in_folder else example.origin for c, example in example_of.items()}
    names = [name_in(images, file) for file, _ in readable]
    task = in_memory(
        to_text(Path(os.path.abspath(images)).name),
        names,
        np.array([row[content] for _, content in readable]),
        store.rows(list(row)),
        codes,
        classes,
        metadata,
        root=os.fspath(images),
        device=device,
        origin=np.array([origins.get(content, IN_FOLDER) for content in row]),
        skipped=skipped_records(skipped, partial(name_in, images)),
        notes=support.notes(),
        contents=dict(zip(names, (content for _, content in readable))),
    )
    return task, [file for file, _ in readable]


def name_in(images: str | Path, file: str) -> str:
    """The name of a file relative to the folder of the pictures, as csv and JSON have it."""
    return to_text(os.path.relpath(file, images))


def sorted_places(
    records: Sequence[Mapping[str, Any]], files: Sequence[str], images: str | Path, apart: bool = False
) -> dict[str, str]:
    """Where in sorted/ each picture of `images` goes: below its class, at the same path as below `images`.

    apart: pictures that may be of no class go below unknown/.
    """
    places = {}
    for record, file in zip(records, files):
        inside = os.path.relpath(file, images)
        if not inside.startswith(os.pardir + os.sep):
            nowhere = record.get("no_class") or (apart and record["unknown"])
            folder = UNKNOWN if nowhere else to_folder(record["label"])
            places[os.path.join(folder, inside)] = file
    return places


def _check(
    out: Path, images: str | Path, support: Sequence[str | Path], sort: str | None, sort_unknown: str | None
) -> None:
    """Refuses before the work what would fail after it."""
    check_replaced(out)
    real = {path: Path(os.path.realpath(path)) for path in (out, images, *support)}
    for option, paths in (("--images", [images]), ("--support", support)):
        if any(real[out] == real[path] for path in paths):
            raise UserError(f"--out and {option} are both {str(out)!r}: give the results a folder of their own")
    if (table := out / PARQUET).exists():  # it would contradict the new labels; of millions of pictures, so not removed
        raise UserError(
            f"{str(table)!r} holds labels of label --features: remove it, or choose another folder for --out"
        )
    check_way(sort, sort_unknown)
    for path in (images, *support):
        if sort and real[path].is_relative_to(real[out] / "sorted"):
            raise UserError(f"--sort would write into {str(path)!r}, which is also read: leave --sort out")


def _check_corrections(
    table: Path,
    images: str | Path,
    sources: Sequence[str | Path],
    support: Support,
    content_of: Mapping[str, bytes | None],
) -> None:
    """The corrections of a labels.csv that is about to be replaced must be among the examples, or unreadable."""
    label_of = {content_of[example.file]: example.label for example in support.examples}
    real = {os.path.realpath(file): content for file, content in content_of.items()}

    def content(file: str) -> bytes | None:
        return real.get(os.path.realpath(file), b"")  # None: the file cannot be read

    examples = table_examples(table, images, sources, strict=False)
    readable = (example for example in examples if content(example.file) is not None)
    check_corrections(table, readable, lambda file: label_of.get(content(file)))
