"""The pods that DaemonSets run on every matching node, with the requests that they really have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import OwnerReference, Pod, PodSpec, Resources
from controller.core.api.workloads import DaemonSet
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Daemon:
    """One DaemonSet: node selection as in its template, requests as in its newest pod (Karpenter v0.27 does the same).

    A LimitRange or a webhook may change requests on admission, which the template does not show.
    """

    daemon_set: DaemonSet
    spec: PodSpec
    requests: Resources
    """With the slots of its host ports, after `with_ports`."""


def owned_by(owner: OwnerReference, daemon_set: DaemonSet) -> bool:
    """Whether the reference names this DaemonSet."""
    return owner.kind == "DaemonSet" and (
        owner.uid == daemon_set.uid if owner.uid and daemon_set.uid else owner.name == daemon_set.name
    )


def with_ports(daemons: tuple[Daemon, ...], slots: Callable[[PodSpec, Resources], Resources]) -> tuple[Daemon, ...]:
    """Add the slots of host ports to the requests of each daemon."""
    return tuple(
        replace(d, requests=FrozenMap({**slots(d.spec, EMPTY), **d.requests})) if d.spec.host_ports else d
        for d in daemons
    )


def daemons(snapshot: Snapshot) -> tuple[Daemon, ...]:
    """Every DaemonSet with the requests that its pods have."""
    if not snapshot.daemon_sets:
        return ()
    newest = _newest(pod for pod in _every_pod(snapshot) if pod.owners and pod.daemon)
    every = []
    for key, daemon_set in sorted(snapshot.daemon_sets.items()):
        pod = newest.get(daemon_set.uid) or newest.get("/".join(key))
        template = daemon_set.template.spec
        every.append(Daemon(daemon_set, template, pod.spec.requests if pod else template.requests))
    return tuple(every)


def _every_pod(snapshot: Snapshot) -> Iterable[Pod]:
    yield from snapshot.pods.values()
    for node in snapshot.nodes.values():
        yield from node.pods


def _newest(pods: Iterable[Pod]) -> Mapping[str, Pod]:
    newest: dict[str, Pod] = {}
    for pod in pods:
        for owner in pod.owners:
            if owner.kind != "DaemonSet":
                continue
            key = owner.uid or f"{pod.namespace}/{owner.name}"
            held = newest.get(key)
            if held is None or (pod.created, pod.name) > (held.created, held.name):
                newest[key] = pod
    return newest
