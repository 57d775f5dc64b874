"""`python -m sandbox`: what it says, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sandbox.__main__ import main
from sandbox.realkube import ASSETS_VARIABLE


@pytest.mark.parametrize("command", ["up", "demo"])
def test_the_first_line_says_what_is_being_started_and_a_failure_where_the_logs_are(
    command: str, tmp_path: Path
) -> None:
    """It fails at once here: a real control plane is asked for, and its binaries are not there."""
    without = {ASSETS_VARIABLE: str(tmp_path / "nothing")}
    answer = CliRunner().invoke(main, [command, "--kube", "real", "--state", str(tmp_path / "state")], env=without)
    assert answer.exit_code == 1
    first, *others = answer.output.splitlines()
    assert first.startswith("Starting AWS and a Kubernetes control plane (real)")
    assert any(f"Logs are in {tmp_path / 'state'}" in line for line in others)
