"""Which of an owner's replicas is nominated to which of the nodes that were planned for them.

Replicas are alike, so the plan is kept whichever of them goes to which of these nodes. With a required topology spread
it matters: kube-scheduler refuses a node while its domain has `maxSkew` pods more than the emptiest one, and places the
pod elsewhere. It takes pods in the order in which it tried them last, so these go to the domains by turns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from controller.core.api.pod import Pod, TopologySpreadConstraint
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.machines.opening import pending
from controller.core.state.snapshot import Snapshot


def by_turns(expected: Mapping[str, ExpectedPod], snapshot: Snapshot) -> dict[str, ExpectedPod]:
    """Return the expected pods (by uid; nodes by their own names) with the nodes of spread replicas exchanged."""
    groups = defaultdict[tuple[str, int], list[Pod]](list)
    for _, pod, _ in pending(expected, snapshot.pods):
        if pod.owners and _required_spreads(pod):
            groups[pod.owners[0].uid, id(pod.spec)].append(pod)
    found = dict(expected)
    bound = _bound(snapshot, {spec for _, spec in groups})
    for (_, spec), pods in groups.items():
        pods.sort(key=_last_tried)
        nodes = _in_turn([expected[pod.uid].node for pod in pods], bound[spec], _required_spreads(pods[0]), snapshot)
        found.update((pod.uid, ExpectedPod(pod.key, node)) for pod, node in zip(pods, nodes, strict=True))
    return found


def _last_tried(pod: Pod) -> tuple[int, str, float]:
    """kube-scheduler writes the pod's condition when an attempt to place it fails, which sets its version."""
    version = pod.resource_version
    return (int(version) if version.isdecimal() else 0, version, pod.created)


def _required_spreads(pod: Pod) -> list[TopologySpreadConstraint]:
    return [each for each in pod.spec.topology_spread if each.required]


def _bound(snapshot: Snapshot, specs: set[int]) -> defaultdict[int, Counter[str]]:
    """Count the bound pods by spec (its id) and node."""
    counts = defaultdict[int, Counter[str]](Counter)
    for pod in snapshot.pods.values() if specs else ():
        if id(pod.spec) in specs and pod.node_name and not (pod.terminating or pod.terminal):
            counts[id(pod.spec)][pod.node_name] += 1
    return counts


def _in_turn(
    planned: Sequence[str], bound: Mapping[str, int], spreads: Sequence[TopologySpreadConstraint], snapshot: Snapshot
) -> list[str]:
    """Order nodes so that each next one is in the domain with the fewest pods, of those that are left.

    planned: a node for each pod. bound: pods that are there already, by node.
    """

    def domains(node: str) -> list[tuple[str, str]]:
        state = snapshot.nodes.get(node)
        labels = state.node.labels if state else {}
        return [(spread.topology_key, labels.get(spread.topology_key, "")) for spread in spreads]

    left = Counter(planned)
    of_node = {node: domains(node) for node in {*left, *bound}}
    pods = Counter[tuple[str, str]]()
    for node, count in bound.items():
        pods.update(dict.fromkeys(of_node[node], count))
    order, heap = list[str](), list[tuple[list[int], str]]()
    for node in left:
        heappush(heap, ([0] * len(spreads), node))
    while heap:
        counted, node = heappop(heap)
        now = [pods[domain] for domain in of_node[node]]
        if now == counted:
            order.append(node)
            pods.update(of_node[node])
            left[node] -= 1
        if left[node]:
            heappush(heap, (now, node))
    return order
