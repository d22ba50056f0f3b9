"""onnxruntime without its telemetry."""

import os
from types import ModuleType


def import_onnxruntime() -> ModuleType:
    """Import onnxruntime, which otherwise reports its use to its maker.

    Its wheels of version 1.31 do so from the moment of import, also on Linux: they leave a session file `.ses` in the
    temporary folder and know an address to send events to. Only this variable keeps them from it;
    `disable_telemetry_events` comes too late. Who has set it keeps their choice. Raises ImportError.

    >>> import_onnxruntime().__name__
    'onnxruntime'
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime
