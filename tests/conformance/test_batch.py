"""What goes into a batch, and what one bad object may not do to the others."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.parse import parse_pod
from controller.core.api.pod import HostPort, NodeSelectorTerm, Pod
from controller.core.provisioning.problem import build, opted_out, provisionable
from controller.core.state.snapshot import InvalidObject
from tests.conformance.fixtures import DEFAULT, SMALL, ZONE_1, Cluster, fake_type, six_types, terms
from tests.core.provisioning.plans import BRIEFLY, near, solved, spread
from tests.factories import (
    daemon_owner,
    node,
    pending_pod,
    pending_pods,
    pod_object,
    problem,
    provisioner,
    requirement,
    running_pod,
    selector,
    snapshot,
    state_node,
)

CATALOG = {"default": six_types()}


@pytest.mark.parametrize(
    ("changed", "waits"),
    [
        ({}, True),
        ({"node_name": "n"}, False),
        ({"unschedulable": False}, False),
        ({"owners": (daemon_owner(),)}, False),
        ({"phase": "Failed"}, False),
        ({"deleted_at": 5.0}, False),
    ],
    ids=["plain", "bound", "not-tried-yet", "daemon", "ended", "being-deleted"],
)
def test_only_pods_that_wait_for_capacity_are_provisioned(changed: dict[str, Any], waits: bool) -> None:
    """Better than Karpenter v0.27: pods that ended or are being deleted launch nothing."""
    assert provisionable(replace(pending_pod(), **changed), snapshot()) is waits


@pytest.mark.parametrize(
    ("priority", "deleted_at", "waits"),
    [(4, 5.0, False), (4, None, True), (5, 5.0, True)],
    ids=["preempted", "stays", "ends for another reason"],
)
def test_a_nominated_pod_waits_for_a_node_unless_kube_scheduler_removes_others_for_it(
    priority: int, deleted_at: float | None, waits: bool
) -> None:
    """Better than Karpenter v0.27, which launches nothing for a pod that anybody has nominated."""
    nominated = pending_pod(priority=5, pod_fields={"nominated_node_name": "n"})
    other = running_pod(node="n", priority=priority, pod_fields={"deleted_at": deleted_at})
    cluster = snapshot(pending=[nominated], nodes=[state_node(node=node(name="n"), pods=(other,))])
    assert provisionable(nominated, cluster) is waits


def test_a_pod_may_opt_out() -> None:
    """Provisioner-name DoesNotExist in every term."""
    away = [requirement(keys.PROVISIONER_NAME, "DoesNotExist")]
    assert opted_out(pending_pod(required_node_affinity=terms(away)))
    assert not opted_out(pending_pod(required_node_affinity=terms(away, [requirement("a", "Exists")])))


def test_a_provisioner_that_cannot_be_used_does_not_stop_the_others() -> None:
    """Karpenter v0.27 aborts the loop for all Provisioners when one has no template or no subnet."""
    view = snapshot(pending=[pending_pod()], provisioners=[provisioner(), provisioner(name="broken")])
    plan = solved(build(view, CATALOG, skipped={"broken": "its subnets match nothing"}))
    assert [planned.provisioner for planned in plan.new_nodes] == ["default"]


def test_pods_of_a_broken_provisioner_say_why() -> None:
    """and they name what is broken."""
    wanted = pending_pod(node_selector={keys.PROVISIONER_NAME: "broken"})
    invalid = InvalidObject("Provisioner", "broken", "uid", 1, "spec.weight: 900 is above 100")
    view = snapshot(pending=[wanted], provisioners=[provisioner()], invalid={("Provisioner", "broken"): invalid})
    (left,) = solved(build(view, CATALOG)).unplaced
    assert "spec.weight: 900 is above 100" in left.reason


def test_a_pod_on_a_node_that_is_gone_stops_nobody() -> None:
    """Karpenter v0.27's loop fails when it counts a pod whose Node it cannot find."""
    lost = running_pod(node="gone", labels={"app": "web"})
    waiting = pending_pod(labels={"app": "web"}, topology_spread=(spread(),))
    view = snapshot(pending=[waiting], provisioners=[provisioner()])
    view = replace(view, pods=FrozenMap({**view.pods, lost.key: lost}))
    assert solved(build(view, CATALOG)).unplaced == ()


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "resources": resources}


def of_spec(**spec: Any) -> Pod:
    """A pending pod read from its document."""
    return parse_pod(pod_object(spec=spec))


def test_pod_overhead_counts() -> None:
    """Karpenter v0.27 ignores RuntimeClass overhead, so that the pod never fits its node."""
    waiting = of_spec(containers=[container(requests={"cpu": "1500m"})], overhead={"cpu": "500m"})
    assert Cluster().provision(waiting).types == [DEFAULT]


def test_sidecars_count_beside_the_containers() -> None:
    """a restartable init container runs on."""
    sidecar = {**container(requests={"cpu": "1"}), "name": "sidecar", "restartPolicy": "Always"}
    waiting = of_spec(containers=[container(requests={"cpu": "1500m"})], initContainers=[sidecar])
    assert Cluster().provision(waiting).types == [DEFAULT]
    plain = of_spec(
        containers=[container(requests={"cpu": "1500m"})], initContainers=[{**sidecar, "restartPolicy": None}]
    )
    assert Cluster().provision(plain).types == [SMALL]


def test_pod_level_resources_count() -> None:
    """Kubernetes 1.34: spec.resources stands for the sum of the containers."""
    waiting = of_spec(containers=[container(requests={"cpu": "100m"})], resources={"requests": {"cpu": "2"}})
    assert Cluster().provision(waiting).types == [DEFAULT]


def test_each_pod_s_quantity_is_rounded_up_not_their_sum() -> None:
    """Karpenter v0.27 gets this wrong: five times 380.4m are 1,902m as a sum, and 5 x 381m to kube-scheduler."""
    exact = [fake_type("exact", cpu="2002m")]
    odd = [of_spec(containers=[container(requests={"cpu": "380400u"})]) for _ in range(5)]
    odd = [replace(pod, name=f"odd-{n}") for n, pod in enumerate(odd)]
    assert len(Cluster(catalog=exact).provision(*odd).new) == 2
    even = [of_spec(containers=[container(requests={"cpu": "380m"})]) for _ in range(5)]
    assert len(Cluster(catalog=exact).provision(*even).new) == 1


def test_quantities_in_the_api_server_s_form_are_exact() -> None:
    """2.95Gi is stored as 3167538380800m."""
    memory = 3167538381
    exact = [fake_type("exact", memory=memory + 10 * 2**20)]
    waiting = of_spec(containers=[container(requests={"memory": "3167538380800m"})])
    assert waiting.spec.requests["memory"] == memory
    assert Cluster(catalog=exact).provision(waiting).types == ["exact"]


def test_a_quantity_that_cannot_be_read_holds_its_pod_alone() -> None:
    """Bad input never stops the others, and says which field."""
    bad = of_spec(containers=[container(requests={"cpu": "lots"})])
    plan = solved(problem(pending=[bad, pending_pod()]))
    (left,) = plan.unplaced
    assert left.pod == bad.key
    assert "cpu" in left.reason
    assert len(plan.new_nodes) == 1


def with_port(*, init: bool = False, **port: Any) -> Pod:
    """A pod with one host port, of its container or of a sidecar."""
    ported = {"name": "ported", "ports": [{"containerPort": 80, **port}]}
    if init:
        return of_spec(containers=[container()], initContainers=[{**ported, "restartPolicy": "Always"}])
    return of_spec(containers=[ported])


@pytest.mark.parametrize(
    ("one", "two", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "1.2.3.4"}, {"hostPort": 80, "hostIP": "1.2.3.5"}, False),
        ({"hostPort": 80, "hostIP": "1.2.3.4"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "::"}, {"hostPort": 80, "hostIP": "1.2.3.4"}, True),
    ],
    ids=["same", "other-port", "other-protocol", "other-address", "one-address-and-all", "all-of-six"],
)
def test_pods_whose_host_ports_clash_share_no_node(one: dict[str, Any], two: dict[str, Any], clash: bool) -> None:
    first, second = with_port(**one), replace(with_port(**two), name="second")
    assert len(Cluster().provision(first, second).new) == (2 if clash else 1)


def test_host_ports_of_sidecars_clash_too() -> None:
    """Unlike Karpenter v0.27, which looks at containers alone."""
    first, second = with_port(init=True, hostPort=80), replace(with_port(hostPort=80), name="second")
    assert len(Cluster().provision(first, second).new) == 2


def test_host_ports_of_running_pods_are_taken() -> None:
    """The same on existing nodes."""
    cluster = Cluster()
    cluster.provision(pending_pod(requests={"cpu": "10m"}, host_ports=(HostPort(80),)))
    done = cluster.provision(pending_pod(requests={"cpu": "10m"}, host_ports=(HostPort(80),)))
    assert done.plan.existing == ()
    assert len(done.new) == 1


def test_ephemeral_storage_must_really_fit() -> None:
    """A type that offers 20Gi takes 15Gi, and not 25Gi."""
    disks = [fake_type("disk", gpus={"ephemeral-storage": "20Gi"})]
    small, large = (pending_pod(requests={"ephemeral-storage": size}) for size in ("15Gi", "25Gi"))
    done = Cluster(catalog=disks).provision(small, large)
    assert done.left == {large.name}
    assert "ephemeral-storage" in done.plan.unplaced[0].reason


def test_a_pod_that_names_a_node_in_match_fields_waits_for_it() -> None:
    """Karpenter v0.27 drops such pods without a word; matchFields metadata.name holds as kube-scheduler has it."""
    named = (NodeSelectorTerm((), (requirement("metadata.name", "In", "red"),)),)
    waiting = pending_pod(required_node_affinity=named)
    cluster = Cluster()
    done = cluster.provision(waiting)
    assert done.new == ()
    assert done.plan.unplaced[0].reason
    cluster.add(state_node(node=node(name="red", zone=ZONE_1)))
    assert cluster.provision(waiting).plan.existing[0].node == "red"


def test_the_oldest_pods_are_served_first_where_not_all_can_be() -> None:
    """No pod starves: of replicas under a limit, the first ones created are placed."""
    pods = [replace(each, created=float(100 - n)) for n, each in enumerate(pending_pods(6, requests={"cpu": "1500m"}))]
    done = Cluster([provisioner(limits={"cpu": "6"})], six_types()[1:2]).provision(*pods)
    assert done.left == {each.name for each in pods[:3]}


def of_age(created: float, count: int, **fields: Any) -> list[Pod]:
    return [replace(each, created=created) for each in pending_pods(count, **fields)]


@pytest.mark.parametrize(("created", "placed"), [(0.0, True), (1000.0, False)], ids=["waited-long", "same-age"])
def test_a_large_pod_that_has_waited_goes_before_small_ones_that_keep_coming(created: float, placed: bool) -> None:
    """No pod starves under a limit; of pods of about one age, the limit goes to the most."""
    (large,) = of_age(created, 1, requests={"cpu": "3500m"})
    young = of_age(1000.0, 3, requests={"cpu": "1500m"})
    done = Cluster([provisioner(limits={"cpu": "6"})], six_types()[:2]).provision(large, *young)
    assert done.placed(large) is placed


def test_the_zone_that_is_left_goes_to_the_pod_that_has_waited() -> None:
    """Two apps shun each other's zone and there is one: the name decides only among pods of one age."""
    rule = {"required_pod_anti_affinity": (near(keys.ZONE, selector(tier="x")),), "labels": {"tier": "x"}}
    young = of_age(1000.0, 1, **rule)
    old = of_age(0.0, 1, requests={"cpu": "200m"}, **rule)
    cluster = Cluster([provisioner(requirements=[requirement(keys.ZONE, "In", ZONE_1)])])
    assert cluster.provision(*young, *old).left == {young[0].name}


def test_the_room_on_a_standing_node_goes_to_the_pod_that_has_waited() -> None:
    """Nothing can be launched for either: the large one would go first, were they of one age."""
    standing = state_node(node=node(name="n", zone=ZONE_1, labels={"disk": "ssd"}, allocatable={"cpu": "2", "pods": 9}))
    cluster = Cluster()
    cluster.add(standing)
    old = of_age(0.0, 1, requests={"cpu": "1"}, node_selector={"disk": "ssd"})
    young = of_age(1000.0, 1, requests={"cpu": "1500m"}, node_selector={"disk": "ssd"})
    assert cluster.provision(*young, *old).left == {young[0].name}


def test_every_pod_that_is_left_says_on_which_provisioner() -> None:
    """Reasons name the rule and each Provisioner."""
    pools = [provisioner(name="one"), provisioner(name="two", requirements=[requirement(keys.ARCH, "In", "arm64")])]
    (left,) = Cluster(pools).provision(pending_pod(requests={"cpu": "1000"})).plan.unplaced
    assert "Provisioner one" in left.reason
    assert "Provisioner two" in left.reason
    assert "CPU" in left.reason


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_objects_changes_nothing(seed: int) -> None:
    """Invariant 1: same snapshot, same plan, in any order of input objects."""
    chosen = random.Random(seed)
    pods = [
        pending_pod(
            name=f"p{n}",
            labels={"app": "web" if n % 2 else "db"},
            requests={"cpu": f"{chosen.randint(1, 30)}00m"},
            topology_spread=(spread(),) if n % 3 == 0 else (),
        )
        for n in range(30)
    ]
    pools = [provisioner(name=name, weight=weight) for name, weight in (("a", 1), ("b", 1), ("c", 0))]
    nodes = [state_node(node=node(name=f"n{n}", zone=ZONE_1, provisioner="a")) for n in range(3)]
    plans = []
    for _ in range(3):
        for each in (pods, pools, nodes):
            chosen.shuffle(each)
        types = list(six_types())
        chosen.shuffle(types)
        plans.append(solved(problem(pending=pods, provisioners=pools, nodes=nodes, catalog=types), BRIEFLY))
    assert plans[0] == plans[1] == plans[2]
