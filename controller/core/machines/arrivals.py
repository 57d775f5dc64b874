"""Pods to come that have come: they are expected on the nodes that their places were planned on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from controller.core.api.pod import Pod
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.provisioning.pods_to_come import is_to_come, owner_and_number


def with_arrivals(
    expected: Mapping[str, ExpectedPod], unbound: Iterable[Pod], to_come: Mapping[str, range]
) -> dict[str, ExpectedPod]:
    """Return the expected pods (by uid) with those that came in the places of pods to come, the lowest numbers first.

    unbound: pods without a node. to_come: the numbers that are still to come, by the owner's uid; places of other
    numbers that no pod has taken are given up.
    """
    places: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    left = dict[str, ExpectedPod]()
    for uid, each in expected.items():
        if is_to_come(each.key):
            owner, number = owner_and_number(uid)
            if number not in to_come.get(owner, ()):
                places[owner].append((number, each.node))
                continue
        left[uid] = each
    if not places:
        return left
    for of_owner in places.values():
        of_owner.sort(reverse=True)
    for pod in unbound:
        if pod.owners and pod.uid not in left and places.get(pod.owners[0].uid):
            left[pod.uid] = ExpectedPod(pod.key, places[pod.owners[0].uid].pop()[1])
    return left
