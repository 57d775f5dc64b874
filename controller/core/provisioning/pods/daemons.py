"""DaemonSets and the requests of the pods that they run on every matching node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import OwnerReference, Pod, PodSpec, Resources
from controller.core.api.workloads import DaemonSet
from controller.core.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Daemon:
    """A DaemonSet: node selection as in its template, requests as in its newest pod (as Karpenter v0.27).

    The template does not show what a LimitRange or a webhook makes of requests on admission.
    """

    daemon_set: DaemonSet
    spec: PodSpec
    requests: Resources
    """With the slots of its host ports, after `with_ports`."""


def owned_by(owner: OwnerReference, daemon_set: DaemonSet) -> bool:
    """Return whether the reference names this DaemonSet."""
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
    """List every DaemonSet with the requests that its pods have."""
    if not snapshot.daemon_sets:
        return ()
    pods = chain(snapshot.pods.values(), *(node.pods for node in snapshot.nodes.values()))
    newest = _newest(pod for pod in pods if pod.owners and pod.daemon)
    every = []
    for key, daemon_set in sorted(snapshot.daemon_sets.items()):
        pod = newest.get(daemon_set.uid) or newest.get("/".join(key))
        template = daemon_set.template.spec
        every.append(Daemon(daemon_set, template, pod.spec.requests if pod else template.requests))
    return tuple(every)


def _newest(pods: Iterable[Pod]) -> Mapping[str, Pod]:
    """Return the newest pod of each DaemonSet, by uid, or by namespace/name where the owner reference has no uid."""
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
