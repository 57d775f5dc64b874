"""Children of the sandbox: how they are ended."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sandbox.processes import Processes


@pytest.mark.parametrize(("throwaway", "number"), [(False, signal.SIGTERM), (True, signal.SIGKILL)])
def test_a_throwaway_child_is_not_asked_to_tidy_up(tmp_path: Path, throwaway: bool, number: int) -> None:
    with Processes(tmp_path) as processes:
        child = processes.start("sleeper", ["sleep", "60"], python=False, throwaway=throwaway)
    assert child.process.returncode == -number
