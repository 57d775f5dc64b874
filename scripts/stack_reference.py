"""Writes Pulumi.yaml and docs/reference/stack-config.md from the declarations in components/config.

uv run python scripts/stack_reference.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from components.config.reference import page, project_file  # noqa: E402 - the project is a program, not installed


def main() -> None:
    """Write both files."""
    (ROOT / "Pulumi.yaml").write_text(project_file())
    reference = ROOT / "docs" / "reference" / "stack-config.md"
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(page())


if __name__ == "__main__":
    main()
