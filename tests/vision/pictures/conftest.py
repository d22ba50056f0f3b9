import sys
import types
from collections.abc import Callable, Iterator

import pytest
from PIL import Image, ImageFile

from protoadapt.vision.pictures import formats


@pytest.fixture
def heic_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """HEIC cannot be read until this is called: a plugin that registers as pillow-heif does; every HEIC is green."""

    class Reader(ImageFile.ImageFile):
        format = "HEIF"

        def _open(self):
            self._size, self._mode = (4, 4), "RGB"
            self.tile = []

        def load(self):
            if self._im is None:
                self._im = Image.new("RGB", (4, 4), (0, 255, 0)).im
            return super().load()

    def register() -> None:
        Image.register_open("HEIF", Reader, lambda prefix: prefix[4:12] == b"ftypheic")

    def install() -> None:
        monkeypatch.setitem(sys.modules, "pillow_heif", types.SimpleNamespace(register_heif_opener=register))
        formats.readable.cache_clear()

    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    formats.readable.cache_clear()
    yield install
    formats.readable.cache_clear()
    if "HEIF" in Image.ID:
        Image.OPEN.pop("HEIF")
        Image.ID.remove("HEIF")
