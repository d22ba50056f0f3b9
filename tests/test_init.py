"""What importing the package does."""

import os
import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "scipy", "sklearn", "numba", "matplotlib", "PIL", "rich"}
PROBE = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            sys.exit(os.environ.get("GOMP_SPINCOUNT", "unset"))

sys.meta_path.insert(0, Watch())
from protoadapt.cli import main
sys.argv[1:] = ["methods"]
main()
"""


@pytest.mark.parametrize(
    ("own", "found"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "unset")],
    ids=["none", "a count", "a policy"],
)
def test_the_command_line_lets_waiting_threads_sleep_unless_the_user_chose(own, found):
    rest = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", PROBE], env={**rest, **own}, capture_output=True, text=True)
    assert done.stderr.strip() == found


def test_importing_sets_nothing_and_loads_nothing_heavy():
    probe = "import os, sys; before = dict(os.environ); import protoadapt; import protoadapt.cli.verbs; "
    probe += "assert dict(os.environ) == before; print(*sorted(HEAVY & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", f"HEAVY = {HEAVY}; {probe}"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")
