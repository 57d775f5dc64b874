"""What every test shares: property tests have no deadline (no test is timed), and CI replays the same examples.

A worker gets files, or groups (`xdist_group`), whole. Tests that mostly wait (for real processes to die and come back)
run first, on few workers, so that the others compute meanwhile, and none of them is the last alone.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
import structlog
import yaml
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

from sandbox import service_models

FIRST = (
    "tests/faults/test_bad_days.py",
    "tests/faults/",
    "tests/components/test_sandbox_stack.py",
    "tests/aws/",
)
"""What begins first, in this order: two units that wait for minutes, for two of the workers, and two long ones that
compute beside them."""

gc.disable()
"""Modules and items that are collected stay: looking through them for garbage is a quarter of that time."""

service_models.read_once()

structlog.configure([structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])
"""By default structlog draws each traceback with its local variables: half the time of the tests of failures."""

yaml.safe_load = partial(yaml.load, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""Each process of the suite reads the custom resource definitions dozens of times: libyaml is ten times as fast."""

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("heavy", deadline=None, max_examples=3000)
settings.load_profile("ci" if os.environ.get("CI") else "local")


class WholeFiles(LoadGroupScheduling):  # type: ignore[misc]
    """A file's tests, those of groups aside, run on one worker: what they share is made once, not in every worker."""

    def _split_scope(self, nodeid: str) -> str:
        return str(super()._split_scope(nodeid)).partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles:
    """See WholeFiles; the order is that of the collection, while xdist's own is by number of tests."""
    config.option.loadscopereorder = False
    return WholeFiles(config, log)


def pytest_collection_finish() -> None:
    """From here on garbage is collected among what the tests make, as seldom as with those."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 100)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Workers collect the same rooms, each from another one on.

    All compile what they import and none has compiled yet, so that in a fresh clone each would compile everything.
    """
    worker = getattr(config, "workerinput", None)
    if worker is not None and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        here = Path(__file__).parent
        rooms = sorted(str(each) for each in here.iterdir() if each.is_dir() or each.name.startswith("test_"))
        first = int(worker["workerid"].removeprefix("gw")) * len(rooms) // worker["workercount"]
        config.args = rooms[first:] + rooms[:first]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """The same order on every worker, as xdist wants it: by place in FIRST, then by the names of files.

    So files that wait and files that compute, which are in folders of their own, take turns.
    """
    items.sort(key=lambda item: item.nodeid.partition("::")[0])
    yield
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, str]:
    first = next((at for at, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST))
    return first, item.path.name
