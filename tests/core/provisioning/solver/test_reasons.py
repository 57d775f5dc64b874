"""Why a pod gets no node, in the words that its event shows: every conflict, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import NodeSelectorTerm
from tests.core.provisioning.plans import WEB, daemon_sets, solved, spread
from tests.factories import (
    ZONES,
    instance_type,
    node,
    node_affinity,
    pending_pod,
    problem,
    provisioner,
    requirement,
    running_pod,
    state_node,
)

GPU = "nvidia.com/gpu"
M5 = instance_type(name="m5.xlarge", cpu="4", memory="16Gi")
G5 = instance_type(name="g5.xlarge", cpu="4", memory="16Gi", extended={GPU: 1})
SOLD_OUT = replace(M5, offerings=tuple(replace(each, available=False) for each in M5.offerings))
ONLY_M5 = [requirement(keys.INSTANCE_FAMILY, "In", "m5")]


def why(pod: dict[str, Any], pool: dict[str, Any] | None = None, *types: Any, **posed: Any) -> str:
    """The reason of a pod that gets no node from one Provisioner."""
    chosen = provisioner(**({"requirements": ONLY_M5} | (pool or {})))
    plan = solved(problem(pending=[pending_pod(**pod)], provisioners=[chosen], catalog=types or (M5, G5), **posed))
    assert plan.new_nodes == ()
    return plan.unplaced[0].reason.removeprefix("Provisioner default: ")


@pytest.mark.parametrize(
    ("pod", "pool", "types", "reason"),
    [
        pytest.param(
            {"requests": {GPU: "1"}}, {}, (),
            "no instance type that it allows has nvidia.com/gpu; allow a family that has it (g5) in "
            "spec.requirements, here or in another Provisioner",
            id="a GPU that its types lack",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpus": "1"}}, {}, (),
            "no instance type on offer has nvidia.com/gpus; did you mean nvidia.com/gpu?",
            id="a resource that nobody has",
        ),
        pytest.param(
            {"node_selector": {keys.ARCH: "arm64"}}, {"requirements": [requirement(keys.ARCH, "In", "amd64")]}, (),
            "kubernetes.io/arch In [arm64] is asked for, and its nodes have amd64",
            id="another architecture",
        ),
        pytest.param(
            {"node_selector": {keys.INSTANCE_TYPE: "g5.xlarge"}}, {}, (),
            "node.kubernetes.io/instance-type In [g5.xlarge] is asked for, and its nodes have m5.xlarge",
            id="a type that its requirements rule out",
        ),
        pytest.param(
            {"node_selector": {keys.ARCH: "arm64", keys.ZONE: "us-east-9z", "foo": "bar"}, "requests": {GPU: "1"}},
            {"taints": [Taint("dedicated", "", "NoSchedule"), Taint("team", "a", "NoExecute")]}, (),
            "its taint dedicated:NoSchedule is not tolerated; add a toleration, or a Provisioner without the taint; "
            "its taint team=a:NoExecute is not tolerated; add a toleration, or a Provisioner without the taint; "
            "foo In [bar] is asked for, and its nodes have no label foo; "
            "kubernetes.io/arch In [arm64] is asked for, and its nodes have amd64; "
            f"topology.kubernetes.io/zone In [us-east-9z] is asked for, and it offers {', '.join(ZONES)}; "
            "no instance type that it allows has nvidia.com/gpu; allow a family that has it (g5) in "
            "spec.requirements, here or in another Provisioner",
            id="every conflict",
        ),
        pytest.param(
            {"node_selector": {keys.CAPACITY_TYPE: "spot"}},
            {"requirements": [*ONLY_M5, requirement(keys.CAPACITY_TYPE, "In", "on-demand")]}, (),
            "karpenter.sh/capacity-type In [spot] is asked for, and it offers on-demand",
            id="a capacity type of another Provisioner",
        ),
        pytest.param(
            {}, {}, (SOLD_OUT, G5),
            "what would do has no capacity now (m5.xlarge); it is tried again within minutes, or allow more",
            id="sold out",
        ),
        pytest.param(
            {"requests": {"cpu": "382970m"}}, {}, (),
            "it asks for 382.97 CPU, and the largest type leaves 4 CPU beside DaemonSets; ask for less, or allow "
            "larger types",
            id="larger than any type",
        ),
        pytest.param(
            {"requests": {"memory": "16777217Ki"}}, {}, (),
            "it asks for 16777217Ki memory, and the largest type leaves 16Gi memory beside DaemonSets; ask for less, "
            "or allow larger types",
            id="larger by a little",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}}, {"limits": {"cpu": "2", "memory": "64Gi"}}, (),
            "its limit of 2 CPU is reached: 0 CPU in use, and the smallest node that would do has 4 CPU; raise "
            "spec.limits.resources",
            id="a limit below one node",
        ),
        pytest.param(
            {"node_selector": {keys.INSTANCE_FAMILY: "m5", keys.ZONE: ZONES[0]}},
            {"requirements": []}, (replace(M5, offerings=M5.offerings[-1:]), replace(G5, offerings=G5.offerings[:1])),
            "no instance type with an available offering meets all its requirements at once "
            f"(karpenter.k8s.aws/instance-family In [m5], topology.kubernetes.io/zone In [{ZONES[0]}]); "
            "relax one of them",
            id="each alone",
        ),
    ],
)  # fmt: skip
def test_reasons_name_every_conflict_and_what_would_help(
    pod: dict[str, Any], pool: dict[str, Any], types: tuple[Any, ...], reason: str
) -> None:
    assert why(pod, pool, *types) == reason


def test_a_limit_that_is_reached_is_told_with_its_use_and_what_is_planned() -> None:
    pool = provisioner(requirements=ONLY_M5, limits={"cpu": "9"})
    here = state_node(node=node(name="here"), pods=[running_pod(node="here", requests={"cpu": "2"})])
    pods = [pending_pod(requests={"cpu": "3"}) for _ in range(2)]
    plan = solved(problem(pending=pods, nodes=[here], provisioners=[pool], catalog=(M5,)))
    assert len(plan.new_nodes) == 1
    assert plan.unplaced[0].reason == (
        "Provisioner default: its limit of 9 CPU is reached: 2 CPU in use and 4 CPU planned, and the smallest node "
        "that would do has 4 CPU; raise spec.limits.resources. The only node has no room"
    )


def test_daemon_sets_are_deducted_and_ored_terms_are_told_together() -> None:
    assert why({"requests": {"cpu": "4"}}, daemon_sets=daemon_sets(requests={"cpu": "250m"})) == (
        "it asks for 4 CPU, and the largest type leaves 3.75 CPU beside DaemonSets; ask for less, or allow larger types"
    )
    nowhere = node_affinity(requirement(keys.ZONE, "In", "nowhere"))[0]
    either = (nowhere, NodeSelectorTerm((requirement(keys.ARCH, "In", "arm64"),)))
    assert why({"required_node_affinity": either}) == (
        f"none of its affinity terms can be met: topology.kubernetes.io/zone In [nowhere] is asked for, and it offers "
        f"{', '.join(ZONES)}; or kubernetes.io/arch In [arm64] is asked for, and its nodes have amd64"
    )


def test_a_spread_over_a_label_that_no_node_can_have_says_so() -> None:
    assert why({"labels": WEB, "topology_spread": (spread("rack"),)}).startswith(
        "its topology spread over rack finds no node with that label, and no Provisioner sets it; "
        "set it in spec.labels of one, or spread over another key"
    )
