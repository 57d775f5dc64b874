"""Processor time of the machine, and of the programs that this process has started, from /proc (see proc(5))."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
CONTROLLER, BENCH, OTHER = "controller", "bench", "other programs"
NAMED = {
    "kube-apiserver": "kube-apiserver",
    "kube-scheduler": "kube-scheduler",
    "kube-controller-manager": "kube-controller-manager",
    "etcd": "etcd",
    "nodeless": CONTROLLER,
    "sandbox.world": "kubelets (sandbox)",
    "sandbox.aws": "EC2 (sandbox)",
}
"""What a program is called in tables, by its name or that of the Python module that it runs."""


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds of processor time: of all processes on the machine, and of them those of this process and the programs
    that it started, by program."""

    machine: float
    programs: Mapping[str, float]

    @classmethod
    def now(cls) -> ProcessorTime:
        """Return the time so far."""
        return cls(machine_seconds(), program_seconds())

    def since(self, before: ProcessorTime) -> ProcessorTime:
        """Return the time between both."""
        programs = {name: now - before.programs.get(name, 0.0) for name, now in self.programs.items()}
        return ProcessorTime(self.machine - before.machine, programs)


def machine_seconds() -> float:
    """Return the processor time of all processes since the machine started.

    The first line of stat has user, nice and system; then idle and iowait, which do not count; irq and softirq; steal
    is other machines' time.
    """
    ticks = [int(field) for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(ticks[:3]) + sum(ticks[5:7])) / os.sysconf("SC_CLK_TCK")


def program_seconds() -> dict[str, float]:
    """Return the processor time so far of this process and of those that descend from it, by program."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    for folder in PROC.glob("[0-9]*"):
        if (fields := _stat(folder)) is not None:
            children[int(fields[1])].append(int(folder.name))
            seconds[int(folder.name)] = _seconds(fields)
    total: defaultdict[str, float] = defaultdict(float)
    left = [os.getpid()]
    while left:
        pid = left.pop()
        left.extend(children[pid])
        name = BENCH if pid == os.getpid() else program(_words(PROC / str(pid)))
        total[name] += seconds.get(pid, 0.0)
    return dict(total)


def process_seconds(pid: int) -> float:
    """Return the processor time of a process so far. Raises OSError if it has ended."""
    return _seconds(_fields(PROC / str(pid)))


def program(words: Sequence[str]) -> str:
    """Return what the program of a command line is called in tables."""
    names = (Path(word).name for word in words[:4])
    return next((NAMED[name] for name in names if name in NAMED), OTHER)


def _stat(folder: Path) -> list[str] | None:
    """Return a process's fields; None if it has ended."""
    try:
        return _fields(folder)
    except OSError:
        return None


def _fields(folder: Path) -> list[str]:
    """Return the fields of a process's stat from its state, the third, on: its name, before that, may have spaces."""
    return (folder / "stat").read_text().rpartition(") ")[2].split()


def _seconds(fields: Sequence[str]) -> float:
    """Return user and system time: utime and stime are fields 14 and 15 of stat."""
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _words(folder: Path) -> list[str]:
    try:
        return (folder / "cmdline").read_text().split("\0")
    except OSError:
        return []
