"""An earlier controller, for scenarios in which one version replaces another: its sources, from the repository."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMIT = "19291eacebdf51260386935892591cfbe2d79ce6"
"""The last one before records had a version."""


def earlier_sources(folder: Path) -> Path | None:
    """Unpack the earlier controller's sources into `folder`; None where the clone does not have that commit."""
    packed = subprocess.run(["git", "archive", COMMIT, "controller"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
