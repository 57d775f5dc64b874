"""Pod deletion costs: which nodes a scale-in should empty, what is written for that, and what is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import OwnerReference, Pod
from controller.core.deprovisioning.scale_in.deletion_costs import (
    COST_ANNOTATION,
    SCALE,
    SETTLED_SECONDS,
    TOLERANCE,
    WRITTEN_ANNOTATION,
    CostChange,
    changes,
    removals,
)
from controller.core.deprovisioning.scale_in.emptying_order import emptying_order
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import FREELY, NOW, owner, parts, standing

OLD = NOW - 10 * SETTLED_SECONDS


def replica(app: str, node: str, number: int = 0, cost: str = "", written: str = "", **fields: Any) -> Pod:
    notes = {COST_ANNOTATION: cost, WRITTEN_ANNOTATION: written}
    pod = factories.running_pod(name=f"{app}-{node}-{number}", node=node, requests={"cpu": "400m"})
    made: dict[str, Any] = {
        "owners": (OwnerReference("apps/v1", "ReplicaSet", app, f"uid-{app}"),),
        "annotations": FrozenMap({key: value for key, value in notes.items() if value}),
        "created": OLD,
        **fields,
    }
    return replace(pod, **made)


def cluster(*pods: Pod, policy: DisruptionPolicy = FREELY) -> Snapshot:
    def node(name: str) -> StateNode:
        return standing(name, "c5.large", pods=[pod for pod in pods if pod.node_name == name])

    nodes = [node(name) for name in sorted({pod.node_name for pod in pods})]
    return factories.snapshot(nodes=nodes, provisioners=[owner(disruption=policy)])


def order(view: Snapshot) -> list[str]:
    everyone, _, gate = parts(view)
    return [each.name for each in emptying_order(everyone, gate)]


def costs(view: Snapshot, ranking: Sequence[str], now: float = NOW) -> dict[str, int | None]:
    return {change.pod.name: change.cost for change in changes(view, ranking, now)}


def spread(*nodes: str, **fields: Any) -> list[Pod]:
    """A replica of web on each node."""
    return [replica("web", node, **fields) for node in nodes]


def test_the_node_whose_pods_are_the_smallest_part_of_their_replica_sets_is_emptied_first() -> None:
    """b has one of five of web; c one of two of api, a four of five of web, and d a pod of no ReplicaSet."""
    web = [*(replica("web", "a", n) for n in range(4)), replica("web", "b")]
    bare = factories.running_pod(name="bare", node="d", requests={"cpu": "400m"})
    view = cluster(*web, replica("api", "c"), replica("api", "d"), bare)
    assert order(view)[0] == "b"
    assert order(view)[-1] == "a", "the whole of web would have to go"
    assert order(view).index("c") < order(view).index("d")


def test_what_consolidation_must_leave_alone_is_in_no_order() -> None:
    kept = replica("web", "a", annotations=FrozenMap({"karpenter.sh/do-not-evict": "true"}))
    assert order(cluster(kept, *spread("b", "c"))) == ["b", "c"]
    assert order(cluster(*spread("a", "b"), policy=replace(FREELY, consolidation=False))) == []


def test_costs_rise_with_the_rank_and_pods_of_other_nodes_have_none() -> None:
    written = costs(cluster(*spread("a", "b", "c", "x")), ["b", "a", "c"])
    assert list(written) == ["web-b-0", "web-a-0", "web-c-0"], "the first node first: writes may be cut short"
    values = [value for value in written.values() if value is not None]
    assert values == sorted(values)
    assert values[0] == -SCALE
    assert values[-1] < 0


@pytest.mark.parametrize(
    "pods",
    [
        [replica("web", "a")],
        [replica("web", "a", 0), replica("web", "a", 1)],
        [replace(pod, owners=(OwnerReference("apps/v1", "StatefulSet", "s", "s"),)) for pod in spread("a", "b")],
        spread("a", "b", created=NOW - SETTLED_SECONDS / 2),
        [*spread("a", "b"), replica("web", "c", cost="5")],
        [*spread("a", "b"), replica("web", "c", cost="5", written="-100")],
        [*spread("a", "b"), replica("web", "c", written="-100")],
    ],
    ids=["one", "one node", "no ReplicaSet", "young", "set by others", "changed by others", "taken off by others"],
)
def test_nothing_is_written_where_it_changes_nothing_or_somebody_else_decides(pods: list[Pod]) -> None:
    assert not any(cost is not None for cost in costs(cluster(*pods), ["a", "b", "c"]).values())


def test_a_cost_stays_until_the_rank_has_moved_far_enough() -> None:
    """Ten nodes, written in order. Neighbours that swap change nothing; the last that becomes first does."""
    names = list("abcdefghij")
    view = cluster(*spread(*names))
    for change in changes(view, names, NOW):
        cost = str(change.cost)
        pods = [replica("web", node, cost=cost, written=cost) if node == change.pod.node_name else pod
                for node, pod in ((each.node_name, each) for each in view.pods.values())]  # fmt: skip
        view = cluster(*pods)
    assert costs(view, names) == {}
    assert TOLERANCE >= 0.1
    assert costs(view, ["b", "a", *names[2:]]) == {}
    assert costs(view, ["j", *names[:9]]) == {"web-j-0": -SCALE}


def test_what_was_written_is_taken_off_where_it_is_not_wanted_any_more_and_by_itself_when_turned_off() -> None:
    ours, theirs = replica("web", "a", cost="-9", written="-9"), replica("web", "b", cost="7", written="-9")
    view = cluster(ours, theirs)
    every = {change.pod.node_name: change.annotations for change in changes(view, ["a", "b"], NOW)}
    assert every == {"a": {COST_ANNOTATION: None, WRITTEN_ANNOTATION: None}, "b": {WRITTEN_ANNOTATION: None}}
    assert {change.pod.node_name: change.annotations for change in removals(view)} == every
    unranked = cluster(*spread("a", "b", cost="-9", written="-9"))
    assert costs(unranked, ["a"])["web-b-0"] is None


def test_a_cost_that_somebody_removed_is_not_written_again() -> None:
    """Not in the next pass either: what tells it from a pod without a cost stays until costs are turned off."""
    view = cluster(*spread("a", "b", cost="-9", written="-9"), replica("web", "c", written="-9"))
    assert costs(view, ["a", "b", "c"]) == {"web-a-0": None, "web-b-0": None}
    after = cluster(*spread("a", "b"), replica("web", "c", written="-9"))
    assert costs(after, ["a", "b", "c"]) == {}
    assert [(each.pod.name, each.annotations) for each in removals(after)] == [("web-c-0", {WRITTEN_ANNOTATION: None})]


def test_both_annotations_are_written_in_one_patch() -> None:
    assert CostChange(replica("web", "a"), -7).annotations == {COST_ANNOTATION: "-7", WRITTEN_ANNOTATION: "-7"}
