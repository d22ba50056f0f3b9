"""`label`: names for the pictures of a folder, or the rows of a table, from a few examples of each class. `predict`:
names for pictures one by one, by a classifier that `label` wrote.

`predict` loads no torch where the network's graph is in the user's cache (`networks.load_for_files`): a picture is
named in the time that loading torch would take.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from protoadapt.core.errors import UserError, count
from protoadapt.core.files import check_ours
from protoadapt.labeling import outputs
from protoadapt.labeling.classifier import METHOD, load_classifier
from protoadapt.labeling.names import name_in, to_text
from protoadapt.labeling.outputs import PARQUET, UNLABELED, LabelOutput, Page, picture_records, skipped_records
from protoadapt.labeling.pictures import embed_folder, embed_pictures, load_same, pictures_collection, pictures_of
from protoadapt.labeling.sorting import check_way
from protoadapt.labeling.support import Examples, class_names, read_support
from protoadapt.labeling.thumbnails import Progress, thumbnails_ahead
from protoadapt.vision import networks
from protoadapt.vision.pictures.walk import Listing

MODEL = "lite0"
"""The network of `label` unless another is asked for."""


def label(
    support: Sequence[str | Path],
    images: str | Path | None,
    out: str | Path,
    *,
    features: str | Path | None = None,
    model: str | Path | None = None,
    method: str = METHOD,
    settings: Mapping[str, Any] | None = None,
    sort: str | None = None,
    sort_unknown: str | None = None,
    unknown: str | float | None = None,
    cache: str | Path | None = None,
    device: str = "cpu",
    page: Page | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures from a few examples; the unlabelled pictures shape the classifier too.

    Parameters
    ----------
    support : folders with one folder of pictures per class, and csv files with the columns `file` and `label`, such as
        a labels.csv that was corrected. At least two classes. With `features`, tables name files as the manifest does.
    images : the folder whose pictures are named, at any depth. They may include the examples.
    out : the folder that gets labels.csv, labels.json and classifier.safetensors; with `features` labels.parquet, and
        labels.csv for at most 100,000 rows.
    features : in place of `images` the folder that `extract --manifest` wrote: every row is named, in bounded memory.
    model : a network that `protoadapt models` lists, "timm:NAME", or a model file; by default "lite0". With `features`,
        the network that made them, where it is not found under the name that they keep.
    method : "bapa" (any class balance), "cipa", "protonet", "semi_protonet", "soft_kmeans" or "pt_map".
    settings : settings of the method by name; the defaults are those of its estimator.
    sort : "copy" or "link" puts the pictures of `images` into `out`/sorted/CLASS/ as well.
    sort_unknown : with `sort`: "together" (default) keeps a picture that may be of none of the classes in the folder of
        its likeliest class; "apart" puts it into `out`/sorted/unknown/, where a picture that a person called unknown
        goes in any case.
    unknown : how many of the known pictures may be called unknown, as a share up to 0.5; None: 0.1; "off": none.
    cache : folder that keeps features by content; by default `out`/.features.
    device : "cpu", "cuda", …
    page : makes `out`/report.html of the result, such as `protoadapt.report.label_page.labels_page`; None: no page.
    on_progress : called with "pictures embedded", "thumbnails" or "rows, all passes", how many are done, and of how
        many.

    Returns
    -------
    What labels.json holds: `classes`, one record per picture in `pictures` (of a table a sample; `classes` count all
    rows), `skipped` files with reasons, `notes`, the `model`, `method`, `calibrated`, `threshold` and `paths` for the
    report (`protoadapt.report`).

    Examples
    --------
    >>> result = label(["examples"], "photos", "named", model="lite0")
    >>> result["pictures"][0]["label"]
    'oak'
    """
    output = LabelOutput(out, sort, sort_unknown, page)
    _check_places(output.folder, images, support, sort)
    if features:
        import pyarrow.parquet  # noqa: F401  (where it is absent, that is said before the work)

        check_ours(output.folder / PARQUET, outputs.OURS[PARQUET])
        if method == "pt_map":
            raise UserError("--features with --method pt_map would read all rows thousands of times: choose bapa")
    libraries = ThreadPoolExecutor(1).submit(_load_libraries)

    def learner() -> Any:
        libraries.result()
        from protoadapt.labeling.familiarity import checked_rate
        from protoadapt.labeling.label_methods import make_estimator

        return make_estimator(method, settings or {}, device), checked_rate(unknown)

    if settings or method != METHOD or unknown is not None or features:
        learner()  # mistakes are said before the work
    examples = read_support(support, images)
    check_way(sort, classes=class_names(examples.examples))
    if images is not None:
        network = MODEL if model is None else model
        embedded = embed_folder(images, output.folder, examples, network, cache, device, on_progress)
        estimator, rate = learner()
        collection = pictures_collection(images, examples, embedded)
    else:
        from protoadapt.labeling.parts_collection import parts_collection

        estimator, rate = learner()
        passes = estimator.get_params().get("n_iter", 0) + 2
        collection = parts_collection(str(features), examples, model, device, passes, on_progress)
    output.check_corrections(collection.knows, images, support)
    if features:
        writer = outputs.parquet_writer(output.folder / PARQUET, collection.classes, output.unchanged)
    with ThreadPoolExecutor(1) as pool, writer if features else nullcontext(lambda block: None) as each:
        pool.submit(thumbnails_ahead, collection.root, collection.contents, output.folder)
        named = collection.name(estimator, rate=rate, each=each)
    if features:
        named.result["title"] += f": {len(named.result['pictures']):,} of {count(collection.rows_on_disk, 'picture')}"
    output.write(collection, named, on_progress, support)
    return named.result


def _load_libraries() -> None:
    """What naming needs, while pictures are embedded: these take seconds to load.

    None of our own modules: two threads that enter a package by different modules may each see the other's half-made.
    """
    for module in ("torch", "scipy.linalg", "sklearn.base", "sklearn.manifold"):
        import_module(module)


def _check_places(out: Path, images: str | Path | None, support: Sequence[str | Path], sort: str | None) -> None:
    """Refuses before the work what would fail after it."""
    read = [("--support", path) for path in support] + ([] if images is None else [("--images", images)])
    for option, path in read:
        if os.path.realpath(out) == os.path.realpath(path):
            raise UserError(f"--out and {option} are both {str(out)!r}: give the results a folder of their own")
        if sort and Path(os.path.realpath(path)).is_relative_to(Path(os.path.realpath(out), "sorted")):
            raise UserError(f"--sort would write into {str(path)!r}, which is also read: leave --sort out")
    # It would contradict the new labels; of millions of pictures, so not removed.
    if images is not None and (out / PARQUET).exists():
        raise UserError(
            f"{str(out / PARQUET)!r} holds labels of label --features: remove it, or choose another folder for --out"
        )


def predict(
    classifier: str | Path,
    images: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    sort: str | None = None,
    sort_unknown: str | None = None,
    model: str | Path | None = None,
    device: str = "cpu",
    page: Page | None = None,
    on_progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Names pictures one by one with a classifier that `label` wrote; nothing is fitted.

    Parameters
    ----------
    classifier : classifier.safetensors.
    images : pictures, and folders of pictures.
    out : a folder that gets labels.csv and labels.json as `label` writes them, not that of `label`; None: no file.
    sort, sort_unknown, page : with `out`, as in `label`.
    model : the network, where it is not found under the name that the classifier keeps; its weights must be the same.
    device : "cpu", "cuda", …
    on_progress : called with "pictures embedded", how many are done, and of how many.

    Returns
    -------
    `pictures`: one record per picture with file, label, confidence, runner_up, margin and unknown; `classes`, `model`,
    `calibrated`, and `skipped` files with reasons. With `out`, what labels.json holds, as `label` returns it: files are
    relative to the folder that all pictures have in common.

    Examples
    --------
    >>> predict("named/classifier.safetensors", ["new.jpg"])["pictures"][0]["label"]
    'oak'
    """
    fitted, output = (
        load_classifier(classifier),
        LabelOutput(out, sort, sort_unknown, page) if out is not None else None,
    )
    check_way(sort, sort_unknown, fitted.classes)
    if output and output.classifier.exists():
        raise UserError(
            f"{str(out)!r} holds results of label, which would be replaced: choose another folder for --out"
        )
    given = Listing([], [])
    for path in map(str, images):
        if not os.path.lexists(path):
            raise UserError(f"there is no picture {to_text(path)!r}: check the name")
        found = pictures_of(path) if os.path.isdir(path) else Listing([path], [])
        given = Listing([*given.files, *found.files], [*given.skipped, *found.skipped])
    views = fitted.model.get("views", 1)
    load = networks.load_for_files if views == 1 else networks.load
    network = load_same(
        model, fitted.model["name"], fitted.model["weights"], "the classifier was", lambda name: load(name, device)
    )
    _, content_of, store, _, skipped = embed_pictures(given, Examples([], [], []), network, None, on_progress, views)
    content = {file: one for file in given.files if (one := content_of[file]) is not None}
    rows, codes = store.rows(list(content.values())), np.full(len(content), UNLABELED)
    if output is None:
        return {
            "schema": "protoadapt-predictions/1",
            "model": fitted.model,
            "calibrated": fitted.threshold is not None,
            "classes": fitted.classes,
            "pictures": picture_records(list(map(to_text, content)), fitted.answer(rows), codes, fitted.classes),
            "skipped": skipped_records(skipped),
        }
    from protoadapt.labeling.collection import Collection  # loads torch

    base = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in content])
    names = [name_in(base, file) for file in content]
    table = names, np.arange(len(names)), rows, codes, fitted.classes, fitted.model
    about: dict[str, Any] = {"skipped": skipped_records(skipped), "contents": dict(zip(names, content.values()))}
    collection = Collection.of_rows(Path(base).name, *table, root=base, **about)
    output.check_corrections(collection.knows, base)  # they teach nothing here, but are somebody's work
    named = collection.answered(fitted, {"name": "predict", "settings": {}})
    output.write(collection, named, on_progress)
    return named.result
