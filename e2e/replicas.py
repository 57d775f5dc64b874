"""Run the replicas of the controller's Deployment as processes, restarted when they end, as a kubelet does."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sandbox.environment import Environment
from sandbox.processes import Child
from sandbox.stack_kube import Container

RESTART_SECONDS = 1.0
"""Wait before a restart."""
ROLL_OUT_SECONDS = 60.0
"""For one replica: it has 30 s to end."""


@dataclass(slots=True)
class Replica:
    """One pod of the Deployment."""

    name: str
    child: Child
    exits: list[int] = field(default_factory=list)
    """Exit codes of its earlier processes, oldest first; -9 for SIGKILL."""
    away: bool = False
    """Not restarted, as if its machine were gone."""


class Replicas:
    """Keep replicas running inside a `with` block."""

    def __init__(self, environment: Environment, container: Container, names: tuple[str, ...]) -> None:
        self._environment, self._container = environment, container
        self._sources: Path | None = None
        self._ending = threading.Event()
        self.by_name = {name: Replica(name, self._start(name)) for name in names}
        self._keeper = threading.Thread(target=self._keep, name="replicas", daemon=True)

    def _start(self, name: str) -> Child:
        container = self._container
        if self._sources is not None:
            container = replace(container, environment={**container.environment, "PYTHONPATH": str(self._sources)})
        return self._environment.start_controller(container, name, pod_name=name)

    def __enter__(self) -> Replicas:
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._keeper.join()
        for replica in self.by_name.values():
            replica.child.process.terminate()
        for replica in self.by_name.values():
            replica.child.stop(30)

    def _keep(self) -> None:
        while not self._ending.wait(0.1):
            for replica in self.by_name.values():
                if not replica.away and not replica.child.alive:
                    replica.exits.append(replica.child.process.wait())
                    if not self._ending.wait(RESTART_SECONDS):
                        replica.child = self._start(replica.name)

    def take_away(self, name: str) -> None:
        """Kill a replica by SIGKILL, and do not restart it until `bring_back`: it must not renew its lease."""
        replica = self.by_name[name]
        replica.away = True
        replica.child.kill()

    def bring_back(self, name: str) -> None:
        """Restart a replica that `take_away` killed."""
        self.by_name[name].away = False

    def roll_out(self, sources: Path | None) -> None:
        """Replace one replica after the other, as a rolling update does: each is told to end, and its successor runs
        the controller in `sources` (a folder), or the one at hand."""
        self._sources = sources
        for replica in self.by_name.values():
            ended = len(replica.exits)
            replica.child.process.terminate()
            deadline = time.monotonic() + ROLL_OUT_SECONDS
            while len(replica.exits) == ended or not replica.child.alive:
                assert time.monotonic() < deadline, f"{replica.name} was not replaced:\n{replica.child.tail()}"
                time.sleep(0.1)

    def lines(self, mark: dict[str, int] | None = None) -> list[dict[str, Any]]:
        """Return the log lines of all replicas since a mark, by time, each with the replica's name under `replica`."""
        logged = []
        for name, replica in self.by_name.items():
            with replica.child.log.open("rb") as file:
                file.seek((mark or {}).get(name, 0))
                for line in file:
                    text = line.decode(errors="replace").strip()
                    document = json.loads(text) if text.startswith("{") and text.endswith("}") else {"message": text}
                    logged.append({"replica": name, **document})
        return sorted(logged, key=lambda line: str(line.get("time", "")))

    def mark(self) -> dict[str, int]:
        """Return the current size of each replica's log in bytes."""
        return {name: replica.child.log.stat().st_size for name, replica in self.by_name.items()}
