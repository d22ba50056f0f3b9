"""What importing the package does."""

import os
import subprocess
import sys

import pytest

PROBE = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            sys.exit(os.environ.get("GOMP_SPINCOUNT", "unset"))

sys.meta_path.insert(0, Watch())
import protoadapt.cli
"""


@pytest.mark.parametrize(
    ("own", "found"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "unset")],
    ids=["none", "a count", "a policy"],
)
def test_threads_are_told_to_sleep_before_torch_is_loaded_unless_the_user_chose(own, found):
    rest = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", PROBE], env={**rest, **own}, capture_output=True, text=True)
    assert done.stderr.strip() == found
