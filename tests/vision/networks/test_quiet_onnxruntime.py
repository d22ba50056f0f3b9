"""onnxruntime is imported without its telemetry."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")


def test_it_leaves_no_session_file(tmp_path):
    code = "from protoadapt.vision.networks.quiet_onnxruntime import import_onnxruntime; import_onnxruntime()"
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment | {"TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
