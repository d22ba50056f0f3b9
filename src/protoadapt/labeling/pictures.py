"""Pictures and examples of folders, embedded and joined by content: the collection of `label --images`."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from protoadapt.core.errors import UserError
from protoadapt.core.files import check_output_folder
from protoadapt.labeling.names import UNKNOWN, name_in, to_text
from protoadapt.labeling.outputs import NONE_OF_CLASSES, UNLABELED, skipped_records
from protoadapt.labeling.support import IN_FOLDER, Example, Examples, check_classes, class_names, one_per_picture
from protoadapt.labeling.thumbnails import Progress
from protoadapt.vision import networks
from protoadapt.vision.embed import embed_files
from protoadapt.vision.feature_store import Store
from protoadapt.vision.pictures import formats
from protoadapt.vision.pictures.walk import Listing, Skipped, find_pictures

if TYPE_CHECKING:
    from protoadapt.labeling.collection import Collection

Loaded = tuple[Any, dict[str, Any]]
"""A network and its metadata, as `networks.load` returns them."""


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
        raise UserError(
            f"there are no pictures in {str(images)!r}: give a folder of {', '.join(formats.readable())} files"
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


def load_same(model: str | Path | None, named: str, weights: str, what: str, load: Callable[..., Loaded]) -> Loaded:
    """The network that `what` made, and its metadata, as `load` returns them (`networks.load`): a file of features or
    of a classifier is of use with its own network only.

    model: the user's choice; None: the one that a file names. Only users have a network downloaded, never a file, which
    may come from anywhere.
    """
    if model is None and named.startswith("timm:"):
        raise UserError(
            f"{what} made with the network {named!r}, which may have to be downloaded: if you want that, give "
            f"--model {named!r}"
        )
    network, metadata = load(model or named)
    if metadata["weights"] != weights:
        raise UserError(
            f"the model {metadata['model']!r} has other weights ({metadata['weights']}) than the one that {what} made "
            f"with ({weights}), and features of two models do not mix: give that model"
        )
    return network, metadata


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
    number = {name: code for code, name in enumerate(classes)} | {UNKNOWN: NONE_OF_CLASSES}
    in_folder = {content_of[example.file] for example in given if not example.by_table}
    origins = {one: IN_FOLDER if one in in_folder else example.origin for one, example in example_of.items()}
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
        origin=np.array([origins.get(one, IN_FOLDER) for one in row]),
        skipped=skipped_records(skipped, partial(name_in, images)),
        notes=examples.notes(),
        contents=dict(zip(names, content.values())),
        knows=knows,
    )
