"""Reports in a real browser and without a network."""

import pytest
from helpers.pages import watch


@pytest.fixture
def opened(tmp_path, chromium):
    """opened(page): the page from a file. Fails where it loads anything or a script breaks."""
    said: list[str] = []
    asked: list[str] = []
    context = chromium.new_context(accept_downloads=True)

    def show(page, width=1200, **media):
        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        view = context.new_page()
        view.set_viewport_size({"width": width, "height": 800})
        view.emulate_media(**media)
        watch(view, asked, said)
        view.goto(path.as_uri())
        return view

    yield show
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
