"""A page where people name pictures: `board` is what it knows, `view` and `page` its looks, `guard` who sees it."""

from protoadapt.app.intake import Limits
from protoadapt.app.server import serve

__all__ = ["Limits", "serve"]
