"""The command that serves the page. What it needs takes seconds to load, so it is loaded when called."""

from importlib.util import find_spec
from typing import Annotated

import typer

from protoadapt.cli.labeling import MODEL
from protoadapt.cli.options import Device, find_device
from protoadapt.core.errors import UserError, install


def serve(
    model: Annotated[str, typer.Option(help="a name that `protoadapt models` lists, timm:NAME, or a file")] = MODEL,
    host: Annotated[str, typer.Option(help="where to listen; others than this computer need a token")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")] = 7860,
    token: Annotated[
        str | None,
        typer.Option(envvar="PROTOADAPT_TOKEN", help="what visitors must know (default elsewhere: a new one)"),
    ] = None,
    max_mb: Annotated[int, typer.Option(min=1, max=512, help="of a file")] = 20,
    max_pictures: Annotated[int, typer.Option(min=2, max=50_000, help="of an open page")] = 5000,
    device: Device = "auto",
) -> None:
    """Name pictures on a page in the browser.

    Drop examples and pictures, see them named, correct by a click. Ctrl-C ends it.
    """
    if find_spec("gradio") is None:
        raise UserError(f"the page needs gradio: {install('app')}")
    from protoadapt import app
    from protoadapt.vision import networks

    network, about = networks.load(model, find_device(device))

    def tell(address: str) -> None:
        print(f"Open {address} in a browser; Ctrl-C here ends it.", flush=True)

    limits = app.Limits(max_mb << 20, max_pictures)
    app.serve(network, about, host=host, port=port, token=token, limits=limits, on_ready=tell)
