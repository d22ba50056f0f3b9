"""A page in the browser for naming pictures.

`board` is its state, `session` its memory, `api` what the page asks, `server` and `guard` who is answered.
"""

from protoadapt.app.intake import Limits
from protoadapt.app.server import serve

__all__ = ["Limits", "serve"]
