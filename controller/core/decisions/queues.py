"""Queues of the cluster: pods that wait for a node, nodes that start, nodes that terminate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.decisions.fleet_cost import owned
from controller.core.provisioning.problem import opted_out, provisionable
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Queue:
    """`oldest_seconds`: how long its oldest member has waited; 0 when nothing waits."""

    name: str
    length: int
    oldest_seconds: float


def queues(snapshot: Snapshot, now: float) -> tuple[Queue, ...]:
    """`pods`: pending pods that are ours to serve. `starting`, `terminating`: our nodes. `now` in Unix seconds."""
    pods = (p.created for p in snapshot.unbound if provisionable(p, snapshot) and not opted_out(p))
    ours = [state.node for state in owned(snapshot)]
    initialized = {state.name for state in owned(snapshot) if state.initialized}
    starting = (node.created for node in ours if node.deleted_at is None and node.name not in initialized)
    terminating = (node.deleted_at for node in ours if node.deleted_at is not None)
    return (_queue("pods", pods, now), _queue("starting", starting, now), _queue("terminating", terminating, now))


def _queue(name: str, since: Iterable[float], now: float) -> Queue:
    times = list(since)
    return Queue(name, len(times), max(0.0, now - min(times)) if times else 0.0)
