"""The image: the Dockerfile's own steps give what runs as the image's user, writes nothing, and does its work."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.image import (
    DOCKERFILE,
    PART_BYTES,
    ROOT,
    USER_ID,
    ImageFigures,
    build,
    can_be_the_images_user,
    image_table,
    largest_parts,
    readable_folder,
    size_bytes,
    stages,
    start,
)
from tests.faults.crashworld import CrashWorld, crash_world

DEADLINE_SECONDS = 60.0
CREDENTIALS = {"sts", "sso", "sso-oidc", "signin"}
"""Services that botocore itself asks for credentials."""


def called_services() -> set[str]:
    """The services of AWS that the controller makes a client of."""
    sources = (each.read_text() for each in (ROOT / "controller").rglob("*.py"))
    return {name for text in sources for name in re.findall(r"""\.client\(\s*"([a-z0-9-]+)""", text)}


def until(world: CrashWorld, process: subprocess.Popen[bytes], condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert process.poll() is None, f"ended with {process.returncode}:\n{world.log.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"{what} did not come true:\n{world.log.read_text()[-3000:]}"
        time.sleep(0.05)


def contents(folder: Path) -> dict[str, float]:
    return {str(each): each.stat().st_mtime for each in folder.rglob("*")}


@pytest.mark.timeout(180)
def test_the_dockerfiles_steps_give_a_controller_that_launches_and_removes_a_node() -> None:
    with readable_folder() as folder:
        entrypoint = build(folder, UV_LINK_MODE="hardlink")
        installed = entrypoint.parents[1]
        packages = next(installed.glob("lib/python3*/site-packages"))
        assert size_bytes(installed) < 125e6
        for absent in ("pulumi", "moto", "pytest", "sandbox"):
            assert not (packages / absent).exists(), f"{absent} has no business in the image"
        assert {each.name for each in (packages / "components").glob("[!_]*")} == {"config", "documents"}
        before = contents(folder / "app")
        state = folder / "state"
        state.mkdir()
        with crash_world(state) as world:
            for each in (state / "kubeconfig", state / "proxied"):
                each.chmod(0o644)
            world.start_kubelets()
            process = start(entrypoint, world.environment, world.log)
            try:
                world.scale(1)
                until(world, process, lambda: world.running() == 1, "a pod that runs on a node of ours")
                if can_be_the_images_user():
                    assert Path(f"/proc/{process.pid}").stat().st_uid == USER_ID
                world.scale(0)
                until(world, process, lambda: not world.nodes() and world.live() == 0, "no node and no instance")
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            finally:
                process.kill()
                process.wait()
        assert contents(folder / "app") == before, "it wrote into its own installation"


def test_a_dockerfile_is_read_by_stages() -> None:
    first = "ARG A=1\n# said\nFROM a AS b\nENV X=1 Y=/z\nCOPY --from=c d e\nCOPY f g ./\n"
    read = stages(first + "RUN --mount=type=cache \\\n  do it\nFROM a\nUSER 1:2\n")
    assert [each.runs for each in read] == [("do it",), ()]
    assert read[0].copies == (("f", "g", "./"),)
    assert read[0].environment == {"X": "1", "Y": "/z"}
    assert read[1].instructions == {"USER": "1:2"}
    assert stages(DOCKERFILE.read_text())[-1].instructions["USER"] == f"{USER_ID}:{USER_ID}"


def test_the_services_that_are_called_are_those_that_the_image_keeps() -> None:
    moved = next(run for stage in stages(DOCKERFILE.read_text()) for run in stage.runs if "botocore/data" in run)
    kept = re.search(r"mv \*\.json ([a-z0-9 -]+) \.\./kept", moved)
    assert kept is not None
    assert set(kept[1].split()) == called_services() | CREDENTIALS


def test_libraries_count_to_the_package_that_they_belong_to(tmp_path: Path) -> None:
    for name, size in (("large/a", PART_BYTES // 2), ("large.libs/b", PART_BYTES // 2), ("small/c", PART_BYTES - 1)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"0" * size)
    assert largest_parts(tmp_path) == (("large", PART_BYTES),)


def test_the_page_says_size_and_times() -> None:
    parts = (("numpy", 52_000_000),)
    page = image_table(ImageFigures(110_400_000, 189_000_000, parts, 89_000, (1.0, 3.0, 2.0), 1.25))
    assert "imports | 110 MB |" in page
    assert "| 189 MB |" in page
    assert "| 89 MB |" in page
    assert "| numpy | 52 |" in page
    assert "median of 3 | 2.0 s |" in page
