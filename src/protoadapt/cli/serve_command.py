"""`protoadapt serve`."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

from protoadapt.cli.options import MODEL_HELP, Device, find_device, option
from protoadapt.labeling import DEFAULT_MODEL

MODEL_OR_CLASSIFIER_HELP = f"{MODEL_HELP} (default: {DEFAULT_MODEL}; with --classifier, the one that made it)"
TOKEN_HELP = "file with the access token, or PROTOADAPT_TOKEN; else generated with --keep or where --host is not local"


def serve_command(
    model: Annotated[str | None, option(MODEL_OR_CLASSIFIER_HELP)] = None,
    classifier: Annotated[Path | None, option("classifier.safetensors: adds POST /api/predict", "FILE")] = None,
    host: Annotated[str, option("address to listen on; 0.0.0.0 lets other computers in, with the token")] = "127.0.0.1",
    port: Annotated[int, option("port to listen on; 0: any free one", min=0, max=65535)] = 7860,
    token_file: Annotated[Path | None, option(TOKEN_HELP, "FILE")] = None,
    max_mb: Annotated[int, option("largest size of one uploaded file, in MB", min=1, max=512)] = 20,
    max_pictures: Annotated[int, option("most pictures per open page", min=2, max=50000)] = 5000,
    keep: Annotated[Path | None, option("directory that keeps the boards; without it, nothing is kept", "DIR")] = None,
    device: Device = "auto",
) -> None:
    """Name pictures on a page in the browser.

    Drop in a folder of pictures, name a few, see the others named, and correct them by keyboard or mouse. Ctrl-C ends
    it.
    """
    from protoadapt import app
    from protoadapt.labeling.classifier import load_classifier, load_same
    from protoadapt.vision import networks

    # Not as an option: all users of a computer see the words of a command.
    token = token_file.read_text("utf-8", "replace").strip() if token_file else os.environ.get("PROTOADAPT_TOKEN")
    load = partial(networks.load, device=find_device(device))
    fitted = load_classifier(classifier) if classifier else None
    if fitted:
        network, metadata = load_same(model, fitted.model["name"], fitted.model["weights"], "the classifier was", load)
    else:
        network, metadata = load(DEFAULT_MODEL if model is None else model)

    def announce(address: str) -> None:
        print(f"Open {address} in a browser; Ctrl-C here ends it.", flush=True)
        if keep is None:
            print("Nothing is kept when it ends: save on the page, or start with --keep DIR.", flush=True)
        if fitted:
            print("Programs: POST pictures to /api/predict; /openapi.json describes it, /health answers.", flush=True)

    limits = app.Limits(max_mb << 20, max_pictures)
    place = {"host": host, "port": port, "token": token or None, "keep": keep}
    app.serve(network, metadata, limits=limits, **place, classifier=fitted, on_ready=announce)  # type: ignore[arg-type]
