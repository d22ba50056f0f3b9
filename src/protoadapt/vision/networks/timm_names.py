"""Networks of timm: those with a short name here, and where their weights are. Needs neither torch nor timm.

Weights are downloaded when a person asks for that (`download_weights`), never because a network is named somewhere.
"""

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from protoadapt.core.errors import UserError, no_such
from protoadapt.core.files import cache_folder, sha256_of

if TYPE_CHECKING:
    from protoadapt.core.web import OnBytes

PREFIX = "timm:"
ANSWER = 3
"""Seconds in which the server must answer first."""


class Known(NamedTuple):
    """What timm records of a network."""

    timm: str  # its name there
    dim: int
    size: int  # pixels per side
    mb: int  # of its parameters as float32, without a classifier
    licence: str
    trained_on: str


TIMM = {  # DINOv2 with 224 pixels has a fifth of the patches of timm's 518
    "dinov2-small": Known("vit_small_patch14_dinov2.lvd142m", 384, 224, 87, "apache-2.0", "LVD-142M"),
    "dinov2-base": Known("vit_base_patch14_dinov2.lvd142m", 768, 224, 343, "apache-2.0", "LVD-142M"),
    "dinov2-large": Known("vit_large_patch14_dinov2.lvd142m", 1024, 224, 1213, "apache-2.0", "LVD-142M"),
    "dinov3-small": Known("vit_small_patch16_dinov3.lvd1689m", 384, 256, 86, "dinov3-license", "LVD-1689M"),
    "dinov3-base": Known("vit_base_patch16_dinov3.lvd1689m", 768, 256, 343, "dinov3-license", "LVD-1689M"),
    "dinov3-large": Known("vit_large_patch16_dinov3.lvd1689m", 1024, 256, 1212, "dinov3-license", "LVD-1689M"),
    "siglip2-base": Known("vit_base_patch16_siglip_224.v2_webli", 768, 224, 372, "apache-2.0", "WebLI"),
    "siglip2-large": Known("vit_large_patch16_siglip_256.v2_webli", 1024, 256, 1264, "apache-2.0", "WebLI"),
    "clip-base": Known("vit_base_patch16_clip_quickgelu_224.openai", 768, 224, 343, "apache-2.0", "WIT"),
    "clip-large": Known("vit_large_patch14_clip_quickgelu_224.openai", 1024, 224, 1213, "apache-2.0", "WIT"),
    "convnext-tiny": Known("convnext_tiny.fb_in22k", 768, 224, 111, "apache-2.0", "ImageNet-22k"),
    "convnext-base": Known("convnext_base.fb_in22k", 1024, 224, 350, "apache-2.0", "ImageNet-22k"),
    "eva02-base": Known("eva02_base_patch16_clip_224.merged2b", 768, 224, 343, "mit", "Merged-2B"),
    "eva02-large": Known("eva02_large_patch14_clip_224.merged2b", 1024, 224, 1213, "mit", "Merged-2B"),
}


class Source(NamedTuple):
    """A network of timm with the file of its weights."""

    timm: str
    file: Path
    size: int | None  # pixels per side; None: timm's own
    digest: str  # of the file and all else that is stated here


def timm_source(name: str) -> Source:
    """What "dinov2-small", "timm:NAME" or "timm:NAME@FILE" names. Raises UserError where its weights are not here, or
    are no longer what was downloaded."""
    known = TIMM.get(name)
    timm, _, given = (known.timm if known else name.removeprefix(PREFIX)).partition("@")
    file = Path(given) if given else downloaded(timm)
    if not file:
        raise UserError(
            f"the weights of {name!r} are not here: `protoadapt models --get {name}` downloads them, or give a file of "
            f"them as {PREFIX}{timm}@FILE"
        )
    if not file.is_file():
        raise UserError(f"there is no file {given!r}: give the weights of {timm} as {PREFIX}{timm}@FILE")
    found = sha256_of(file)
    if not given and found not in file.name:
        raise UserError(f"{str(file)!r} is not what was downloaded: remove it, and download it with models --get again")
    size = known.size if known else None
    return Source(timm, file, size, hashlib.sha256(f"{timm} {size} {found}".encode()).hexdigest()[:16])


def downloaded(timm: str) -> Path | None:
    """The file that `download_weights` wrote, which has its checksum in its name; None where it is not here."""
    return next((cache_folder() / "weights").glob(f"{timm}-{'?' * 64}.safetensors"), None)


def download_weights(name: str, on_progress: "OnBytes" = lambda done, total: None) -> Path:
    """Download the weights of a name of TIMM, or of "timm:NAME", into the user's cache, unless they are there.

    They come from timm's own collection, which states their checksum; that is kept. Returns the file.
    """
    from huggingface_hub.constants import ENDPOINT

    from protoadapt.core.web import fetch, urlopen, within  # takes a while to load, which `predict` can do without

    if not (name in TIMM or name.startswith(PREFIX)):
        raise no_such("network to download", name, TIMM, also=f"{PREFIX}NAME")
    timm = TIMM[name].timm if name in TIMM else name.removeprefix(PREFIX)
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", timm):
        raise UserError(f"{timm!r} is no name of a network of timm: give one that timm.list_models() lists")
    if here := downloaded(timm):
        return here
    place = f"timm/{timm.replace('_quickgelu', '')}"
    listing = f"{ENDPOINT}/api/models/{place}/tree/main"
    try:
        with within(ANSWER, partial(urlopen, listing, timeout=ANSWER)) as answer:
            files = {one["path"]: one for one in json.load(answer)}
        checksum = files["model.safetensors"]["lfs"]["oid"]
    except (OSError, ValueError, LookupError, TypeError) as error:  # urllib's errors are OSErrors
        raise UserError(
            f"{ENDPOINT}/{place} does not say what {timm!r} is ({error!r}): check the name and the connection, or "
            f"download its weights by hand and give {PREFIX}{timm}@FILE"
        ) from error
    target = cache_folder() / "weights" / f"{timm}-{checksum}.safetensors"
    fetch(f"{ENDPOINT}/{place}/resolve/main/model.safetensors", target, checksum, on_progress, "sha256")
    return target
