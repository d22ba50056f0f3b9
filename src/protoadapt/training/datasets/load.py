"""One split of a dataset, by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from protoadapt.core.errors import UserError, no_such, whole_number
from protoadapt.core.files import cache_folder
from protoadapt.training.datasets import glyphs
from protoadapt.training.datasets.registry import SPLITS, class_list, download_hint, find_dataset, search
from protoadapt.vision.pictures.decode import Resize
from protoadapt.vision.pictures.formats import BUILT_IN, readable
from protoadapt.vision.pictures.split import (
    FORMAT,
    Images,
    SplitSource,
    fingerprint,
    in_order,
    read_pixels,
    unreadable,
    write_pixels,
)


def load_images(
    name: str,
    split: str,
    data_dir: str | Path | None = None,
    *,
    size: int | None = None,
    crop: str = "none",
    resize: Resize | None = None,
    per_class: int | None = None,
    cache_dir: str | Path | None = None,
    on_corrupt: Literal["fatal", "skip"] = "fatal",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Images:
    """One split of a dataset as uint8 pixels, from the cache or decoded into it first.

    Reads the pictures of that split and no others.

    Parameters
    ----------
    name : str
        A key of DATASETS, such as "cub", "glyphs" or "folder".
    split : str
        "base", "val" or "novel"; "all" for one's own folder.
    data_dir : str or Path, optional
        Folder that holds the dataset; None for built-in ones.
    size : int, optional
        Side in pixels, 8 to 1024; default: 84, or what the dataset says.
    crop : str, default "none"
        "none" or, for CUB, "box".
    resize : Resize, optional
        How pictures are brought to that size (see `decode`); default: squeezed to a square.
    per_class : int, optional
        Use the first so many pictures per class (of glyphs: draw so many); default: all.
    cache_dir : str or Path, optional
        Folder of decoded pictures; default: `.protoadapt-cache` in the data folder.
    on_corrupt : {"fatal", "skip"}
        A picture that cannot be read is an error that names it, or it is left out and listed in `skipped`.
    on_progress : function of two int, optional
        Called with the number of pictures decoded and their total; not called where they are cached.

    Returns
    -------
    Images
        pixels (N, 3, size, size) uint8, labels (N), class_names, paths.

    Examples
    --------
    >>> load_images("cub", "novel", "data", crop="box").pixels.shape
    """
    name, dataset = find_dataset(name)
    splits = SPLITS | ({"all": "all"} if name == "folder" else {})
    if split not in splits:
        raise no_such("split", split, splits)
    split = splits[split]
    size = dataset.size if size is None else size
    if crop not in dataset.crops:
        raise UserError(f"{dataset.title} has no crop {crop!r}: choose {' or '.join(map(repr, dataset.crops))}")
    whole_number("size", size, 8, 1024)
    source, home = _source(name, split, data_dir, crop, per_class)
    # A cache in the data folder may move with it; elsewhere the key must tell apart folders that look the same. A
    # picture skipped for want of a plugin is read once the plugin is installed.
    where: list[object] = [source.root.resolve()] if cache_dir and data_dir else []
    where += [resize] if resize else []
    where += [name for name in readable() if name not in BUILT_IN]
    key = fingerprint([FORMAT, name, split, size, crop, per_class, source.fingerprint, *where])[:16]
    entry = Path(cache_dir or home, f"{name}-{split}-{size}-{crop}-{key}")
    cached = read_pixels(entry, size)
    if cached is None:
        pictures = in_order(source, per_class, len(class_list(name, split)))
        skip = on_corrupt == "skip"
        write_pixels(entry, pictures, size, resize=resize, skip=skip, on_progress=on_progress)
        cached = read_pixels(entry, size)
    assert cached is not None
    images = Images(**cached, name=name, split=split, crop=crop, root=source.root)
    if images.skipped and on_corrupt == "fatal":
        raise unreadable(images.skipped[0])
    return images


def _source(
    name: str, split: str, data_dir: str | Path | None, crop: str, per_class: int | None
) -> tuple[SplitSource, Path]:
    """The source of the pictures, and the default place of their cache."""
    _, dataset = find_dataset(name)
    if not dataset.layouts:
        return glyphs.drawn(class_list(name, split), per_class or glyphs.PER_CLASS), cache_folder()
    source = search(name, split, data_dir, crop)
    if source is not None:
        return source, Path(str(data_dir), ".protoadapt-cache")
    if name != "folder":
        raise UserError(
            f"the {split} classes of {dataset.title} are not in {data_dir}: expected layout: {dataset.looks_like}; "
            f"{download_hint(name, str(data_dir))}"
        )
    raise UserError(
        f"{str(data_dir)!r} has no class folders for the split {split}: put the pictures of each class into a folder "
        f"with its name, at least eight for training; for pictures without names use `protoadapt manifest` and "
        f"`extract --manifest`"
    )
