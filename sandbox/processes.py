"""Child processes of the sandbox: started with a log file each, awaited until they say they are ready, ended by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType


class ProcessFailedError(Exception):
    """A child ended early or never became ready; the message has the last lines of its log."""


@dataclass(slots=True)
class Child:
    """A running child process and its log. `throwaway`: nothing that it would tidy up is needed afterwards."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    throwaway: bool = False

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_for_line(self, prefix: str, timeout_seconds: float = 60.0) -> str:
        """The rest of the first log line that starts with `prefix`. Raises ProcessFailedError."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            for line in self.log.read_text(errors="replace").splitlines():
                if line.startswith(prefix):
                    return line[len(prefix) :].strip()
            if not self.alive:
                raise ProcessFailedError(f"{self.name} ended with code {self.process.returncode}:\n{self.tail()}")
            time.sleep(0.02)
        raise ProcessFailedError(f"{self.name} was not ready after {timeout_seconds:.0f} s:\n{self.tail()}")

    def stop(self, timeout_seconds: float = 10.0) -> int:
        """SIGTERM, then SIGKILL when that is not heard; returns the exit code."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        self.process.kill()
        self.process.wait()


class Processes:
    """Children that end with this object, in the reverse order of their start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []
        folder.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        python: bool = True,
        throwaway: bool = False,
    ) -> Child:
        """Start a child; `python` prefixes this interpreter and `-m`."""
        line = [sys.executable, "-u", "-m", *command] if python else list(command)
        log = self._folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                line, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, start_new_session=True
            )
        child = Child(name, process, log, throwaway)
        self._children.append(child)
        return child

    def stop(self) -> None:
        """End all that still run, throwaway ones by SIGKILL: an API server waits ten seconds for its watches."""
        for child in reversed(self._children):
            if child.throwaway:
                child.kill()
            else:
                child.stop()

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
