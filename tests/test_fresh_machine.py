"""A fresh machine has the system's tools alone: what make starts there finds its own uv, and CI proves it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
FAKES = """
env() {
    local words=("$@")
    while [[ $1 == *=* ]]; do shift; done
    if [ "$1" = make ]; then echo "${words[@]}"; else command env "${words[@]}"; fi
}
make() { echo "make $*"; }
timeout() { echo "timeout $*"; return "$BINARIES"; }
compgen() { :; }
source "$0"
"""
"""`.ci/run` with all that takes long replaced by a line that says it, on a machine with one Python."""


def ci(binaries: int) -> subprocess.CompletedProcess[str]:
    """Run it; `binaries` is the exit code of their build."""
    command = ["bash", "-c", FAKES, ".ci/run"]
    environment = {**os.environ, "BINARIES": str(binaries), "PYENV_ROOT": "/nonexistent"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_ci_has_the_systems_path_and_an_empty_home_and_waits_half_an_hour_for_the_control_plane() -> None:
    done = ci(binaries=0)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    fresh = [line.split() for line in lines if line.startswith("PATH=")]
    assert [words[2:4] for words in fresh] == [["make", "check"], ["make", "demo"], ["make", "test"]]
    (home,) = {words[1].removeprefix("HOME=") for words in fresh}
    assert {words[0] for words in fresh} == {f"PATH={SYSTEM}"}
    assert not Path(home).exists(), "its folder is removed"
    assert lines[-2:] == ["timeout 1800 make binaries", "make e2e"]


def test_ci_is_red_where_there_is_no_control_plane() -> None:
    done = ci(binaries=os.EX_UNAVAILABLE)
    assert done.returncode == os.EX_UNAVAILABLE
    assert done.stdout.splitlines()[-1] == "timeout 1800 make binaries", "no scenario runs"


@pytest.mark.skipif(shutil.which("make", path=SYSTEM) is None, reason="no make here")
def test_what_make_starts_finds_its_own_uv_where_the_machine_has_none(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "bash"):
        (tools / name).symlink_to(str(shutil.which(name, path=SYSTEM)))
    probe = "probe:\n\t@echo '$(UV)'; echo $$PATH\n"
    command = [str(tools / "make"), "--file", "Makefile", "--file", "-", "--no-print-directory", "probe"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(tools)}, input=probe, capture_output=True, text=True, check=True
    )
    uv, path = done.stdout.splitlines()
    assert uv == ".uv/bin/uv"
    assert path.split(":") == [str(ROOT / ".uv/bin"), str(tools)]
