"""A page in the browser for naming pictures: `board` is its state, `view` and `page` its looks, `guard` its access."""

from protoadapt.app.intake import Limits
from protoadapt.app.server import serve

__all__ = ["Limits", "serve"]
