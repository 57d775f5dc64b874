"""Host ports: two claims on one node conflict as kube-scheduler's NodePorts filter says."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.api.pod import HostPort

WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, never bound


def conflict(one: HostPort, two: HostPort) -> bool:
    """Same protocol and port, and the same address or either of them every address."""
    if one.port != two.port or one.protocol != two.protocol:
        return False
    return one.ip == two.ip or one.ip in WILDCARDS or two.ip in WILDCARDS


def any_conflict(ones: Iterable[HostPort], twos: Iterable[HostPort]) -> bool:
    """Whether any claim of one side conflicts with one of the other."""
    held = tuple(twos)
    return any(conflict(one, two) for one in ones for two in held)
