"""`nodeless run` as a process of its own, forked from one that has imported its modules: 30 ms a start, not 1.5 s."""

from __future__ import annotations

import multiprocessing
import os
import time
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

from controller.operator.composition import OperatorTimes
from controller.reconcilers.deprovisioning.deprovisioning_reconciler import DeprovisioningTimes
from controller.reconcilers.deprovisioning.executor import CommandTimes
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageTimes

TIMES = OperatorTimes(
    commands=CommandTimes(appear_seconds=1.0),
    garbage=GarbageTimes(sight_seconds=0.0),
    deprovisioning=DeprovisioningTimes(plan_seconds=1.0),
)
"""The sandbox shows a new instance sooner than EC2 does: a replacement that nobody sees is given up sooner."""
CLOCK_AHEAD = "CLOCK_AHEAD_SECONDS"
"""In the environment: how wrong the clock of the controller's machine is."""
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["controller.cli.main", "controller.operator.process", "kubernetes.config", __name__])


def start(environment: dict[str, str], log: Path, times: OperatorTimes = TIMES) -> BaseProcess:
    """Start the controller; what it prints is added to `log`."""
    process = FORKSERVER.Process(target=_run, args=(environment, log, times))
    process.start()
    return process


def _run(environment: dict[str, str], log: Path, times: OperatorTimes) -> None:
    from controller.cli import main
    from controller.operator import process
    from controller.runtime import clock

    wrong_seconds = float(environment.get(CLOCK_AHEAD, 0.0))
    patch.object(clock.SystemClock, "now", lambda _: time.time() + wrong_seconds).start()
    process.run = partial(process.run, times=times)
    with log.open("ab") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.environ.update(environment)
    main.main(["run", "--log-format", "json"])
