"""CUB's pictures with the fidelity of mini-ImageNet's files: `python -m paper.small_files SOURCE DEST`.

SOURCE holds CUB-200-2011's full-size pictures in class folders with cub-boxes.csv (or boxes.csv) beside them. DEST gets
the same folders and names, each picture 84 × 84 pixels whatever its shape (Lanczos, as mini-ImageNet was made), JPEG
quality 75 with 4:2:0 colour, and the same list of boxes, which names the full size, so that boxes are cut right.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image

SIDE, QUALITY = 84, 75


def reduce(picture: Path, to: Path) -> None:
    """One picture, reduced."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(picture) as image:
        small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    small.save(to, "JPEG", quality=QUALITY, subsampling="4:2:0")


def reduce_all(source: Path, to: Path) -> int:
    """Every .jpg file under `source`, and the lists beside them; returns how many pictures there were."""
    pictures = sorted(source.rglob("*.jpg"))
    for picture in pictures:
        reduce(picture, to / picture.relative_to(source))
    for name in ("boxes.csv", "cub-boxes.csv"):
        if (source / name).is_file():
            shutil.copyfile(source / name, to / name)
    return len(pictures)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m paper.small_files SOURCE DEST")
    print(f"{reduce_all(Path(sys.argv[1]), Path(sys.argv[2])):,} pictures")
