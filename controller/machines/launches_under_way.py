"""The launches of one loop that have not ended: their stand-ins for further plans, and their failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from controller.core.machines.on_their_way import stand_in, with_stand_ins
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import StoppingError
from controller.machines.launch_pipeline import Launch
from controller.machines.launcher import Launcher
from controller.runtime.executors import Job

Failed = Callable[[Launch, BaseException], None]


@dataclass(frozen=True, slots=True)
class _UnderWay:
    launch: Launch
    job: Job[None]
    node: StateNode
    failed: Failed


class LaunchesUnderWay:
    """A launch is under way until it failed, or the cluster state has its Node. For the loop's own thread."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._launches: list[_UnderWay] = []

    def add(self, launches: Sequence[Launch], jobs: Iterable[Job[None]], now: float, failed: Failed) -> None:
        """Add launches with their jobs. `failed` is called by `settle` for each that fails."""
        for launch, job in zip(launches, jobs, strict=True):
            self._launches.append(_UnderWay(launch, job, stand_in(launch.request, now), failed))

    @property
    def tokens(self) -> frozenset[str]:
        """Their launch tokens."""
        return frozenset(each.launch.request.token for each in self._launches)

    @property
    def names(self) -> frozenset[str]:
        """The names of their stand-ins."""
        return frozenset(each.node.name for each in self._launches)

    def settle(self) -> None:
        """Forget what has ended; report failures."""
        if not self._launches:
            return
        open_tokens = self._launcher.open_tokens()  # before the jobs are looked at: a token is there until its job ends
        ended = [each for each in self._launches if each.job.done()]
        failures = [(each, error) for each in ended if (error := each.job.exception()) is not None]
        gone = {id(each) for each, _ in failures}
        gone.update(id(each) for each in ended if each.launch.request.token not in open_tokens)
        self._launches = [each for each in self._launches if id(each) not in gone]
        for each, error in failures:
            if not isinstance(error, StoppingError):
                each.failed(each.launch, error)

    def counted_in(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with a stand-in for each of their Nodes that it does not have."""
        return with_stand_ins(snapshot, (each.node for each in self._launches)) if self._launches else snapshot
