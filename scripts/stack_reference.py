"""Writes Pulumi.yaml, components/config/inputs.py and docs/reference/stack-config.md from components/config.

uv run python scripts/stack_reference.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from components.config.arguments import module  # noqa: E402 - the project is a program, not installed
from components.config.reference import page, project_file  # noqa: E402 - the project is a program, not installed


def main() -> None:
    """Write all three."""
    (ROOT / "Pulumi.yaml").write_text(project_file())
    (ROOT / "components" / "config" / "inputs.py").write_text(module())
    reference = ROOT / "docs" / "reference" / "stack-config.md"
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(page())


if __name__ == "__main__":
    main()
