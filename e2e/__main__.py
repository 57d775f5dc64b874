"""`python -m e2e [PYTEST ARGUMENTS]`: find or build the control plane's binaries, then run the scenarios on them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sandbox import kubebinaries
from sandbox.realkube import ASSETS_VARIABLE, AssetsMissingError


def main(arguments: list[str]) -> int:
    """The exit code: pytest's, or EX_UNAVAILABLE (69) where there is no control plane and none can be built."""
    try:
        folder = kubebinaries.find_or_build(lambda line: print(line, file=sys.stderr, flush=True))
    except AssetsMissingError as error:
        print(f"make e2e cannot run: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    os.environ[ASSETS_VARIABLE] = str(folder)
    return int(pytest.main([*(arguments or ALL), *ALWAYS]))


ROOT = Path(__file__).parents[1]
ALL = ("-vv", "--durations=10", "-n", "2", "--dist", "loadfile")
"""Two control planes side by side, each with half of the files: scenarios wait more than they compute."""
ALWAYS = ("--rootdir", str(ROOT), "--timeout", "300", str(ROOT / "e2e"))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
