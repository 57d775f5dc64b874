"""An earlier controller, for scenarios in which one version replaces another: its sources, from the repository."""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMIT = "19291eacebdf51260386935892591cfbe2d79ce6"
"""The last one before records had a version."""


def earlier_sources(folder: Path) -> Path | None:
    """Unpack the earlier controller's sources into `folder`; None where the clone does not have that commit."""
    archive_of = ["git", "archive", "--format=zip", COMMIT, "controller"]
    packed = subprocess.run(archive_of, cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        return None
    with zipfile.ZipFile(io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder)
    return folder
