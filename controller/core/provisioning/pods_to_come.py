"""The pods that owners of marked pods still have to make: planned for beside them, with the setting `planAheadOwners`.

Where kube-scheduler could not place a pod, its owner's pods that do not exist yet will not find room either: they will
be equal. The number that an owner wants is read from the ReplicaSet and not from its Deployment: during a rollout each
of the two ReplicaSets has its own. Pods beyond a ResourceQuota are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.core.api.pod import Pod, PodKey
from controller.core.api.workloads import PodOwner
from controller.core.provisioning.problem import opted_out, provisionable, serves
from controller.core.state.snapshot import Snapshot

MARK: Final = "/to-come-"
"""In their names: no pod has a name with a slash."""
MOST: Final = 5_000
"""For one plan: a number of replicas may be a slip."""


@dataclass(frozen=True, slots=True)
class _Coming:
    """An owner, one of its marked pods, how many of its pods there are, and how many more are counted on."""

    owner: PodOwner
    marked: Pod
    there: int
    more: int


def is_to_come(key: PodKey) -> bool:
    """Return whether a key is that of a pod to come: nothing in Kubernetes has it."""
    return MARK in key[1]


def owner_and_number(uid: str) -> tuple[str, int]:
    """Return the owner's uid and the number that the uid of a pod to come consists of."""
    owner, _, number = uid.rpartition("-")
    return owner, int(number)


def numbers_to_come(snapshot: Snapshot) -> dict[str, range]:
    """Return which of an owner's pods are to come, counted from 0, by its uid."""
    return {uid: range(each.there, each.there + each.more) for uid, each in _coming(snapshot).items()}


def pods_to_come(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods to come. A uid names the owner and the pod's number among its pods, in every process the same."""
    return tuple(
        _pod(each, number)
        for _, each in sorted(_coming(snapshot).items())
        for number in range(each.there, each.there + each.more)
    )


def still_to_come(snapshot: Snapshot, planned: Iterable[Pod]) -> frozenset[PodKey]:
    """Return those of the planned pods to come that this snapshot wants too, whether they have come since or not."""
    pods = [pod for pod in planned if is_to_come(pod.key)]
    if not pods:
        return frozenset()
    ends = {uid: min(each.owner.wanted, each.there + each.more) for uid, each in _coming(snapshot).items()}
    return frozenset(pod.key for pod in pods if _number(pod) < ends.get(pod.owners[0].uid, 0))


def _coming(snapshot: Snapshot) -> dict[str, _Coming]:
    """Return the owners with pods to come, by uid. Owners whose pods have volumes or device claims have none:
    such a pod has others, which are not made yet."""
    marked: dict[str, Pod] = {}
    for pod in snapshot.unbound:
        if pod.owners and provisionable(pod, snapshot) and serves(snapshot, pod) and not opted_out(pod):
            marked.setdefault(pod.owners[0].uid, pod)
    owners = {uid: owner for uid, pod in marked.items() if (owner := _owner(snapshot, pod)) is not None}
    if not owners:
        return {}
    pods = (pod for pod in snapshot.pods.values() if pod.owners and not pod.terminal and not pod.terminating)
    there = Counter(pod.owners[0].uid for pod in pods)
    quotas, left = _Quotas(snapshot), MOST
    coming: dict[str, _Coming] = {}
    for uid, owner in sorted(owners.items(), key=lambda entry: (entry[1].namespace, entry[0])):
        wanted = 0 if owner.refused else max(0, min(left, owner.wanted - there[uid]))
        more = quotas.admit(marked[uid], wanted)
        coming[uid] = _Coming(owner, marked[uid], there[uid], more)
        left -= more
    return coming


def _owner(snapshot: Snapshot, pod: Pod) -> PodOwner | None:
    if pod.volumes or pod.spec.resource_claims:
        return None
    reference = pod.owners[0]
    known: Mapping[tuple[str, str], Mapping[PodKey, PodOwner]] = {
        ("apps/v1", "ReplicaSet"): snapshot.replica_sets,
        ("apps/v1", "StatefulSet"): snapshot.stateful_sets,
        ("batch/v1", "Job"): snapshot.jobs,
    }
    owner = known.get((reference.api_version, reference.kind), {}).get((pod.namespace, reference.name))
    return owner if owner is not None and owner.uid == reference.uid else None


class _Quotas:
    """What the quotas of the namespaces still admit, as pods are taken from it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._left: dict[str, list[dict[str, int]]] = {}
        for quota in snapshot.quotas.values():
            self._left.setdefault(quota.namespace, []).append(dict(quota.left))

    def admit(self, pod: Pod, count: int) -> int:
        """Return how many of so many such pods are admitted."""
        quotas = self._left.get(pod.namespace, [])
        for left in quotas:
            for name, amount in left.items():
                each = _amount(pod, name)
                count = min(count, max(0, amount) // each) if each > 0 else count
        for left in quotas:
            left.update({name: amount - count * _amount(pod, name) for name, amount in left.items()})
        return count


def _amount(pod: Pod, name: str) -> int:
    """Return what a pod takes of a quota's resource."""
    if name.startswith("limits."):
        return pod.limits.get(name.removeprefix("limits."), 0)
    return pod.spec.requests.get(name.removeprefix("count/").removeprefix("requests."), 0)


def _pod(coming: _Coming, number: int) -> Pod:
    name = f"{coming.owner.name}{MARK}{number}"
    return replace(coming.marked, name=name, uid=f"{coming.owner.uid}-{number}")


def _number(pod: Pod) -> int:
    return int(pod.name.rpartition("-")[2])
