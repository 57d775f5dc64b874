"""One pod that kube-scheduler could not place speaks for the pods of its class that it has not come to yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import NodeSelectorTerm, Pod, SelectorRequirement, TopologySpreadConstraint
from controller.core.provisioning import SolveOptions, solve
from controller.core.provisioning.planned_ahead import room_problem, untried, wanted, with_bound
from controller.core.state.snapshot import Snapshot
from tests import factories

SPREAD = (TopologySpreadConstraint(1, "topology.kubernetes.io/zone", "DoNotSchedule", factories.selector(tier="web")),)
OPTED_OUT = NodeSelectorTerm((SelectorRequirement("karpenter.sh/provisioner-name", "DoesNotExist"),))
MARKED = factories.pending_pod(name="marked", labels={"app": "web", "tier": "web"})


def snapshot(*pods: Pod, **more: Any) -> Snapshot:
    return factories.snapshot(pending=list(pods), **more)


def ahead(*pods: Pod) -> list[str]:
    return [pod.name for pod in untried(snapshot(MARKED, *pods)).ahead]


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"labels": {"app": "api"}}, True),  # no selector looks at it
        ({"namespace": "other"}, False),
        ({"scheduler_name": "other"}, False),
        ({"gated": True}, False),
        ({"requests": {"cpu": "2"}}, False),
        ({"owner": factories.daemon_owner()}, False),
        ({"pod_fields": {"deleted_at": 1.0}}, False),
        ({"pod_fields": {"node_name": "other"}}, False),
        ({"pod_fields": {"phase": "Failed"}}, False),
    ],
)
def test_pods_count_ahead_that_the_filters_treat_like_the_marked_one(fields: dict[str, Any], counts: bool) -> None:
    assert ahead(factories.pod(name="next", **fields)) == (["next"] if counts else [])


def test_a_pod_that_preempts_others_does_not_count_ahead() -> None:
    preempting = factories.pod(name="next", priority=5, pod_fields={"nominated_node_name": "n"})
    victim = factories.running_pod(node="n", priority=4, pod_fields={"deleted_at": 1.0})
    there = factories.state_node(node=factories.node(name="n"), pods=(victim,))
    marked = factories.pending_pod(name="marked", priority=5)
    assert untried(snapshot(marked, preempting, nodes=[there])).ahead == ()
    assert untried(snapshot(marked, preempting)).ahead == (preempting,)
    victims = [factories.running_pod(node="n", priority=each, pod_fields={"deleted_at": 1.0}) for each in (9, 5)]
    assert untried(snapshot(marked, preempting, nodes=[replace(there, pods=tuple(victims))])).ahead == (preempting,)


def test_a_pod_that_never_preempts_counts_although_lower_ones_end_on_its_nominated_node() -> None:
    never = factories.pod(name="next", priority=5, preemption_policy="Never", pod_fields={"nominated_node_name": "n"})
    ends = factories.running_pod(node="n", priority=4, pod_fields={"deleted_at": 1.0})
    there = factories.state_node(node=factories.node(name="n"), pods=(ends,))
    marked = factories.pending_pod(name="marked", priority=5, preemption_policy="Never")
    assert untried(snapshot(marked, never, nodes=[there])).ahead == (never,)


def test_a_label_that_a_selector_looks_at_tells_classes_apart() -> None:
    marked = factories.pending_pod(name="marked", labels={"tier": "web"}, topology_spread=SPREAD)
    like = factories.pod(name="like", labels={"tier": "web", "pod-index": "7"}, topology_spread=SPREAD)
    unlike = factories.pod(name="unlike", labels={"tier": "api"}, topology_spread=SPREAD)
    found = untried(snapshot(marked, like, unlike))
    assert [pod.name for pod in found.ahead] == ["like"]
    assert [pod.name for pod in found.others] == ["unlike"]


@pytest.mark.parametrize(
    ("fields", "are"),
    [
        ({}, "others"),
        ({"priority": 5}, "others"),
        ({"priority": 6}, "apart"),  # kube-scheduler may preempt pods for it that it could not for the marked one
        ({"priority": 6, "preemption_policy": "Never"}, "others"),
        ({"scheduler_name": "other"}, "apart"),  # of which no word has come
        ({"required_node_affinity": (OPTED_OUT,)}, "apart"),
    ],
)
def test_pods_of_other_classes_count_where_the_mark_tells_about_them(fields: dict[str, Any], are: str) -> None:
    marked = factories.pending_pod(name="marked", priority=5)
    found = untried(snapshot(marked, factories.pod(name="next", requests={"cpu": "2"}, **fields)))
    assert [pod.name for pod in getattr(found, are)] == ["next"]
    assert len((*found.ahead, *found.others, *found.apart)) == 1


def test_without_a_marked_pod_nothing_is_planned_ahead() -> None:
    """A class whose marked pod is deleted meanwhile: what was planned ahead is wanted no more, until the next mark."""
    next_one = factories.pod(name="next")
    assert untried(snapshot(next_one)).ahead == ()
    both = (MARKED, next_one)
    assert wanted(snapshot(*both), both, True) == {pod.key for pod in both}
    assert wanted(snapshot(next_one), both, True) == frozenset()
    marked_since = replace(next_one, unschedulable=True)
    assert wanted(snapshot(marked_since), both, True) == {next_one.key}
    assert wanted(snapshot(*both), both, False) == {MARKED.key}


def test_a_pod_of_another_uid_is_not_the_one_that_was_planned() -> None:
    assert wanted(snapshot(replace(MARKED, uid="another")), [MARKED], True) == frozenset()


def test_of_a_rollout_the_pods_that_end_are_not_counted() -> None:
    """The old ReplicaSet's pods that are still pending count until their deletion is asked for."""
    old = [factories.pod(name=f"old-{n}", labels={"pod-template-hash": "a"}) for n in range(3)]
    new = [factories.pod(name=f"new-{n}", labels={"pod-template-hash": "b"}) for n in range(3)]
    ending = [replace(pod, deleted_at=1.0) for pod in old[:2]]
    assert ahead(*ending, old[2], *new) == ["new-0", "new-1", "new-2", "old-2"]


def test_other_pods_that_were_not_tried_yet_take_existing_room_first() -> None:
    """kube-scheduler tries them before it tries a marked pod again; on nodes that still start it binds nothing."""
    ready = factories.state_node(node=factories.node(name="ready"))
    starts = factories.state_node(node=factories.node(name="starts", initialized=False))
    other = [factories.pod(name=f"other-{n}", requests={"cpu": "1500m"}) for n in range(2)]
    state = snapshot(MARKED, *other, nodes=[ready, starts], provisioners=[factories.provisioner()])
    plan = solve(room_problem(state, untried(state).others), SolveOptions(budget_seconds=0.0))
    assert [placement.node for placement in plan.existing] == ["ready"]
    bound = with_bound(state, {each.node: each.pods for each in plan.existing})
    (taken,) = bound.nodes["ready"].pods
    assert bound.pods[taken.key].node_name == "ready"
    assert taken.name.startswith("other-")
    assert [pod.name for pod in bound.unbound if pod.spec == other[0].spec] != [pod.name for pod in other]
    assert with_bound(state, {}) is state
    assert bound.nodes["starts"] is state.nodes["starts"]
    assert FrozenMap(bound.provisioners) == FrozenMap(state.provisioners)


def test_a_pod_that_moves_is_bound_to_its_new_node_alone() -> None:
    moving, staying = (factories.running_pod(node="old", name=name) for name in ("moving", "staying"))
    nodes = [
        factories.state_node(node=factories.node(name="old"), pods=[moving, staying]),
        factories.state_node(node=factories.node(name="new")),
    ]
    after = with_bound(factories.snapshot(nodes=nodes), {"new": [moving.key]})
    assert {name: [pod.name for pod in node.pods] for name, node in after.nodes.items()} == {
        "new": ["moving"],
        "old": ["staying"],
    }
    assert after.pods[moving.key].node_name == "new"
