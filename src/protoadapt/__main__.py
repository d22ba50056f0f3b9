import os
import sys

# `python -m` looks for packages in the current folder first: files that came with somebody's pictures would run.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from protoadapt.cli import main

main()
