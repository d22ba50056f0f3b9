"""Pictures of folders: embedded, joined with examples by content, and named.

`label` names the pictures of a folder, or the rows of a table, from a few examples of each class; `predict` names
pictures one by one, by a classifier that `label` wrote. It loads no torch where the network's graph is in the user's
cache (`networks.load_for_files`): a picture is named in the time that loading torch would take.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output, check_output_folder
from protoadapt.labeling import DEFAULT_METHOD, DEFAULT_MODEL, outputs
from protoadapt.labeling.classifier import CLASSIFIER, Loaded, load_classifier, load_same
from protoadapt.labeling.explain import explained
from protoadapt.labeling.names import name_in, to_text
from protoadapt.labeling.outputs import (
    PARQUET,
    UNLABELED,
    LabelOutput,
    Page,
    Progress,
    codes_of,
    skipped_records,
)
from protoadapt.labeling.parquet import parquet_writer
from protoadapt.labeling.sorting import check_way
from protoadapt.labeling.support import (
    IN_FOLDER,
    IN_TABLE,
    Example,
    Examples,
    check_classes,
    class_names,
    one_per_picture,
    read_support,
)
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures import formats
from protoadapt.vision.pictures.walk import Listing, Skipped, find_pictures

if TYPE_CHECKING:
    from protoadapt.labeling.collection import Collection


class Embedded(NamedTuple):
    """Pictures and examples with their features."""

    files: list[str]  # the pictures
    content_of: dict[str, bytes | None]  # sha256 by file; None: it cannot be read
    store: Store  # features by content
    metadata: dict[str, Any]  # of the network
    skipped: list[Skipped]  # files that are no picture or cannot be read


def pictures_of(images: str | Path, leave: Sequence[str | Path] = ()) -> Listing:
    """The pictures of a folder, of which there must be some; folders in `leave` are not entered."""
    pictures = find_pictures(images, leave)
    if not pictures.files:
        why = "".join(f" ({to_text(file)!r}: {reason})" for file, reason in pictures.skipped[:1])
        raise UserError(
            f"there are no pictures in {str(images)!r}{why}: give a folder of {', '.join(formats.readable())} files"
        )
    return pictures


def embed_folder(
    images: str | Path, leave: Path, examples: Examples, model: str | Path, cache: Any, device: str, tick: Progress
) -> Embedded:
    """`embed_pictures` of a folder, whose folder `leave` is not entered and holds the cache unless it has a place."""
    cache = Path(cache or leave / ".features")
    pictures = pictures_of(images, [leave, cache])
    return embed_pictures(pictures, examples, networks.load_for_files(model, device), cache, tick)


def embed_pictures(
    pictures: Listing,
    examples: Examples,
    loaded: Loaded,
    cache: str | Path | None,
    on_progress: Progress = lambda stage, done, total: None,
    views: int = 1,
) -> Embedded:
    """Computes the features that the cache lacks. At least one of the pictures, if there are any, must be readable."""
    if cache:
        check_output_folder(Path(cache))
    network, metadata = loaded
    store = Store(cache, metadata["weights"], metadata["size"])
    files = list(dict.fromkeys([*pictures.files, *(example.file for example in examples.examples)]))
    contents, broken = embed_files(files, network, metadata, store, partial(on_progress, "pictures embedded"), views)
    skipped = [*examples.skipped, *pictures.skipped, *(Skipped(files[i], reason) for i, reason in broken.items())]
    content_of = dict(zip(files, contents))
    if (pictures.files or pictures.skipped) and not any(content_of[file] for file in pictures.files):
        first = f" ({to_text(skipped[-1].file)!r}: {skipped[-1].reason})" if skipped else ""
        raise UserError(f"no picture can be read{first}: give {', '.join(formats.readable())} files or folders of them")
    return Embedded(pictures.files, content_of, store, metadata, skipped)


def pictures_collection(images: str | Path, examples: Examples, embedded: Embedded) -> "Collection":
    """Joins pictures and examples by content, one row per content.

    Examples that are not among the pictures come after them, so that all labels are in one list.
    """
    from protoadapt.labeling.collection import Collection

    given, (pictures, content_of, store, metadata, skipped) = examples.examples, embedded
    example_of = one_per_picture((content_of[example.file], example) for example in given)
    classes = class_names(example_of.values())
    check_classes(given, classes, skipped)
    present = {content_of[file] for file in pictures}
    listed = [*pictures, *(example.file for content, example in example_of.items() if content not in present)]
    content = {file: found for file in listed if (found := content_of[file]) is not None}
    row = {one: place for place, one in enumerate(dict.fromkeys(content.values()))}
    number = codes_of(classes)
    in_folder = {content_of[example.file] for example in given if not example.by_table}
    real = {os.path.realpath(file): one for file, one in content_of.items()}

    def knows(example: Example) -> bool:
        one = real.get(os.path.realpath(example.file), b"")  # None: the file cannot be read
        return one is None or (one in example_of and example_of[one].label == example.label)

    names = [name_in(images, file) for file in content]
    return Collection.of_rows(
        to_text(Path(os.path.abspath(images)).name),
        names,
        np.array([row[one] for one in content.values()]),
        store.rows(list(row)),
        np.array([number[example_of[one].label] if one in example_of else UNLABELED for one in row]),
        classes,
        metadata,
        root=os.fspath(images),
        origin=np.array([IN_FOLDER if one in in_folder else IN_TABLE for one in row]),
        skipped=skipped_records(skipped, partial(name_in, images)),
        notes=examples.notes(),
        contents=dict(zip(names, content.values())),
        knows=knows,
    )


def label(
    support: Sequence[str | Path],
    images: str | Path | None,
    out: str | Path,
    *,
    features: str | Path | None = None,
    model: str | Path | None = None,
    method: str = DEFAULT_METHOD,
    settings: Mapping[str, Any] | None = None,
    sort: str | None = None,
    explain: str | Path | None = None,
    cache: str | Path | None = None,
    device: str = "cpu",
    page: Page | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures from a few examples; the unlabelled pictures shape the classifier too.

    Parameters
    ----------
    support : folders with one folder of pictures per class, csv files with the columns `file` and `label`, such as a
        labels.csv that was corrected, and JSON exports of Label Studio. At least two classes. With `features`, the
        latter name files as the manifest does.
    images : the folder whose pictures are named, at any depth. They may include the examples.
    out : the folder that gets labels.csv, labels.json and classifier.safetensors; with `features` labels.parquet, and
        labels.csv for at most 100,000 rows.
    features : in place of `images` the folder that `extract --manifest` wrote: every row is named, in bounded memory.
    model : a network that `protoadapt models` lists, "timm:NAME", or a model file; by default "lite0". With `features`,
        the network that made them, where it is not found under the name that they keep.
    method : "bapa" (any class balance), "cipa", "protonet", "semi_protonet", "soft_kmeans" or "pt_map".
    settings : settings of the method by name; the defaults are those of its estimator.
    sort : "copy" or "link" puts the pictures of `images` into `out`/sorted/CLASS/ as well.
        A picture that may be of none of the classes goes into `out`/sorted/unknown/, or the folder of its group, such
        as unnamed-1/.
    explain : one of the pictures: the result then has `explained`, why it is called what it is (`explain`).
    cache : folder that keeps features by content; by default `out`/.features.
    device : "cpu", "cuda", …
    page : makes `out`/report.html of the result, such as `protoadapt.report.label_page.labels_page`; None: no page.
    on_progress : called with "pictures embedded", "thumbnails" or "rows, all passes", how many are done, and of how
        many.

    Returns
    -------
    What labels.json holds: `classes`, one record per picture in `pictures` (of a table a sample; `classes` count all
    rows), `unnamed` groups of pictures that resemble each other and no class, `estimate`, of 100 names how many are
    right, `skipped` files with reasons, `notes`, the `model`, `method`, `temperature`, `threshold` and `paths` for the
    report (`protoadapt.report`).

    Examples
    --------
    >>> result = label(["examples"], "photos", "named", model="lite0")
    >>> result["pictures"][0]["label"]
    'oak'
    """
    check_way(sort)
    output = LabelOutput(out, "labels", page, support)
    _check_places(output.folder, images, support, sort)
    for name in (CLASSIFIER, PARQUET) if features else (CLASSIFIER,):
        check_output(output.folder / name, kind=outputs.OURS[name])
    if features:
        import pyarrow.parquet  # noqa: F401  (where it is absent, that is said before the work)

        if method == "pt_map":
            raise UserError("--features with --method pt_map would read all rows thousands of times: choose bapa")
    from protoadapt.labeling.collection import parts_collection  # loads torch, which `predict` does without
    from protoadapt.labeling.label_methods import make_estimator

    estimator = make_estimator(method, settings or {}, device)
    examples = read_support(support, images)
    check_way(sort, class_names(examples.examples))
    if images is not None:
        network = DEFAULT_MODEL if model is None else model
        embedded = embed_folder(images, output.folder, examples, network, cache, device, on_progress)
        collection = pictures_collection(images, examples, embedded)
    else:
        passes = estimator.get_params().get("n_iter", 0) + 3
        collection = parts_collection(str(features), examples, model, device, passes, on_progress)
    with output.alone():
        output.check_corrections(collection.knows, images, support)
        rows_file: Any = nullcontext(lambda block: None)
        if features:
            rows_file = parquet_writer(output.folder / PARQUET, collection.classes, output.unchanged)
        with rows_file as each:
            named = collection.name(estimator, each=each)
        output.write(collection, named, sort, on_progress, support)
    return named.result | ({"explained": explained(collection, named, explain)} if explain else {})


def _check_places(out: Path, images: str | Path | None, support: Sequence[str | Path], sort: str | None) -> None:
    """Refuses before the work what would fail after it."""
    for path in [*support, *([] if images is None else [images])]:
        if os.path.realpath(out) == os.path.realpath(path):
            raise UserError(f"--out is {str(out)!r}, which is also read: give the results a folder of their own")
        if sort and Path(os.path.realpath(path)).is_relative_to(Path(os.path.realpath(out), "sorted")):
            raise UserError(f"--sort would write into {str(path)!r}, which is also read: leave --sort out")
    # It would contradict the new labels; of millions of pictures, so not removed.
    if images is not None and (out / PARQUET).exists():
        raise UserError(f"{str(out / PARQUET)!r} holds labels of label --features: remove it, or give another --out")


def predict(
    classifier: str | Path,
    images: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    sort: str | None = None,
    model: str | Path | None = None,
    device: str = "cpu",
    page: Page | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures one by one with a classifier that `label` wrote; nothing is fitted.

    Parameters
    ----------
    classifier : classifier.safetensors, or the folder that `label` wrote it into.
    images : pictures, and folders of pictures.
    out : a folder that gets labels.csv and labels.json as `label` writes them, not that of `label`; None: no file.
    sort, page : with `out`, as in `label`.
    model : the network, where it is not found under the name that the classifier keeps; its weights must be the same.
    device : "cpu", "cuda", …
    on_progress : called with "pictures embedded", how many are done, and of how many.

    Returns
    -------
    `pictures`: one record per picture with file, label, confidence, runner_up, margin and unknown; `classes`, `model`,
    and `skipped` files with reasons. With `out`, what labels.json holds, as `label` returns it: files are
    relative to the folder that all pictures have in common.

    Examples
    --------
    >>> predict("named/classifier.safetensors", ["new.jpg"])["pictures"][0]["label"]
    'oak'
    """
    fitted = load_classifier(classifier)
    check_way(sort, fitted.classes)
    output = LabelOutput(out, "labels", page) if out is not None else None
    if output and (output.folder / CLASSIFIER).exists():
        raise UserError(f"{str(out)!r} holds results of label, which would be replaced: give another --out")
    found = [pictures_of(path) if os.path.isdir(path) else Listing([str(path)], []) for path in images]
    given = Listing(*(list(chain(*parts)) for parts in zip(*found)))
    views = fitted.model.get("views", 1)
    load = networks.load_for_files if views == 1 else networks.load
    network = load_same(
        model, fitted.model["name"], fitted.model["weights"], "the classifier was", lambda name: load(name, device)
    )
    _, content_of, store, _, skipped = embed_pictures(given, Examples([], []), network, None, on_progress, views)
    content = {file: one for file in given.files if (one := content_of[file]) is not None}
    rows, codes = store.rows(list(content.values())), np.full(len(content), UNLABELED)
    files = [to_text(file) for file in content]
    if output is None:
        return {
            "schema": "protoadapt-predictions/1",
            "model": fitted.model,
            "classes": fitted.classes,
            "pictures": outputs.picture_records(files, fitted.answer(rows), codes, fitted.classes),
            "skipped": skipped_records(skipped),
        }
    from protoadapt.labeling.collection import Collection  # loads torch

    base = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in content])
    names = [name_in(base, file) for file in content]
    table = names, np.arange(len(names)), rows, codes, fitted.classes, fitted.model
    about: dict[str, Any] = {"skipped": skipped_records(skipped), "contents": dict(zip(names, content.values()))}
    collection = Collection.of_rows(Path(base).name, *table, root=base, **about)
    with output.alone():
        output.check_corrections(collection.knows, base)  # they teach nothing here, but are somebody's work
        named = collection.answered(fitted, {"name": "predict", "settings": {}})
        output.write(collection, named, sort, on_progress)
    return named.result
