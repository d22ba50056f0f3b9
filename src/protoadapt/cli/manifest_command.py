"""`protoadapt manifest`."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

from protoadapt.cli.options import argument, option
from protoadapt.cli.progress import bars, say
from protoadapt.core.errors import count
from protoadapt.core.files import check_output
from protoadapt.vision.shards import SHARD_SIZE


def manifest_command(
    sources: Annotated[list[Path], argument("a directory, a text file of paths, or tar files", "DIR|LIST|TAR")],
    out: Annotated[Path, option("the manifest, as JSON lines", "FILE")],
    shard_size: Annotated[int, option("pictures per shard; a shard is the unit of work")] = SHARD_SIZE,
) -> None:
    """List millions of pictures in shards for extract.

    The manifest is the input of `protoadapt extract --manifest`, on one machine or many.
    """
    from protoadapt.vision.pictures.walk import find, no_pictures
    from protoadapt.vision.shards.manifest import MANIFEST, write_manifest

    check_output(out, *sources, kind=MANIFEST)
    others: Counter[str] = Counter()
    root, listed = find(sources, others)
    with bars(lines=True) as report:
        made = write_manifest(out, root, listed, shard_size, partial(report, "pictures"))
    if others:
        say(f"left out: {no_pictures(others)}")
    print(f"{count(made.pictures, 'picture')} in {count(len(made.shards), 'shard')}: {out}")
