"""DaemonSet overhead, and what Karpenter v0.27 gets wrong about daemons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import HostPort
from controller.core.api.workloads import DaemonSet
from tests.conformance.fixtures import (
    ARM,
    DEFAULT,
    EVERYTHING,
    SMALL,
    VENDOR_A,
    ZONE_1,
    ZONE_2,
    Cluster,
    daemon_pod,
    daemon_set,
    fake_type,
    six_types,
)
from tests.factories import node, pending_pod, pod, provisioner, running_pod, state_node

ONE = {"cpu": "1", "memory": "1Gi"}


def with_daemons(*daemons: DaemonSet, **fields: Any) -> Cluster:
    return Cluster(objects={"daemon_sets": {(each.namespace, each.name): each for each in daemons}}, **fields)


def test_daemons_are_counted_when_a_type_is_chosen() -> None:
    """1 cpu and 1Gi beside 1 cpu and 1Gi do not fit 2 cpu and 2Gi."""
    assert with_daemons(daemon_set(requests=ONE)).provision(pending_pod(requests=ONE)).types == [DEFAULT]


def test_daemons_count_although_they_do_not_tolerate_a_startup_taint() -> None:
    """The taint goes, the daemon comes."""
    pool = provisioner(startup_taints=(Taint("foo.com/taint", "", "NoSchedule"),))
    cluster = with_daemons(daemon_set(requests=ONE), provisioners=[pool])
    assert cluster.provision(pending_pod(requests=ONE)).types == [DEFAULT]


def test_daemons_larger_than_any_type_leave_no_room() -> None:
    done = with_daemons(daemon_set(requests={"cpu": "10000", "memory": "10000Gi"})).provision(pending_pod())
    assert done.new == ()


def test_a_running_daemon_pod_tells_what_its_daemon_set_asks_for() -> None:
    """Admission shrank the pod from the template's 4 cpu to 1."""
    owner = daemon_set(requests={"cpu": "4", "memory": "4Gi"})
    cluster = with_daemons(owner)
    live = daemon_pod(owner, "other", pod(requests=ONE))
    cluster.add(state_node(node=node(name="other", provisioner="", allocatable=ONE | {"pods": 1}), pods=[live]))
    assert cluster.provision(pending_pod(requests=ONE)).types == [DEFAULT]


def test_limits_of_a_daemon_stand_in_for_requests() -> None:
    done = with_daemons(daemon_set(limits={"cpu": "10000", "memory": "10000Gi"})).provision(pending_pod())
    assert done.new == ()


def test_init_containers_of_daemons_count_where_they_are_larger() -> None:
    """Max(containers, init containers), per resource."""
    agent = daemon_set(requests={"cpu": "300m"}, limits={"memory": "1Gi"}, init={"cpu": "1"})
    assert with_daemons(agent).provision(pending_pod(requests=ONE)).types == [DEFAULT]


def test_the_larger_of_daemon_containers_and_init_containers_may_be_too_large() -> None:
    agent = daemon_set(requests={"cpu": "10000"}, init={"memory": "10000Gi"})
    assert with_daemons(agent).provision(pending_pod()).new == ()


def test_an_init_container_of_a_daemon_may_be_too_large() -> None:
    agent = daemon_set(requests={"cpu": "1"}, init={"cpu": "10000", "memory": "10000Gi"})
    assert with_daemons(agent).provision(pending_pod()).new == ()


def test_daemons_that_ask_for_nothing_take_a_pod_s_place_alone() -> None:
    """And a type of one pod is then no use."""
    done = with_daemons(daemon_set()).provision(pending_pod(requests={"cpu": "100m"}))
    assert done.types == [SMALL]
    single = [fake_type("single", pods=1)]
    assert with_daemons(daemon_set(), catalog=single).provision(pending_pod()).new == ()


def test_daemons_that_do_not_tolerate_the_provisioner_s_taint_are_not_counted() -> None:
    pool = provisioner(taints=[Taint("foo", "bar", "NoSchedule")])
    waiting = pending_pod(requests=ONE, tolerations=(EVERYTHING,))
    assert with_daemons(daemon_set(requests=ONE), provisioners=[pool]).provision(waiting).types == [SMALL]


def test_daemons_that_select_an_unknown_label_are_not_counted() -> None:
    agent = daemon_set(requests=ONE, spec={"nodeSelector": {"node": "invalid"}})
    assert with_daemons(agent).provision(pending_pod(requests=ONE)).types == [SMALL]


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    """A pod template's required node affinity of these terms."""
    required = {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in expressions]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def test_daemons_with_not_in_on_an_undefined_label_are_counted() -> None:
    agent = daemon_set(requests=ONE, spec=affinity({"key": "foo", "operator": "NotIn", "values": ["bar"]}))
    assert with_daemons(agent).provision(pending_pod(requests=ONE)).types == [DEFAULT]


def test_daemons_of_one_instance_type_cost_nothing_on_the_others() -> None:
    """Better than Karpenter v0.27, which charges a GPU daemon to every type of the Provisioner."""
    agent = daemon_set(requests=ONE, spec={"nodeSelector": {keys.INSTANCE_TYPE: VENDOR_A}})
    assert with_daemons(agent).provision(pending_pod(requests=ONE)).types == [SMALL]


def test_any_or_term_of_a_daemon_set_brings_it_to_a_node() -> None:
    """Karpenter v0.27 reads the first term alone: a daemon for either zone counts in both."""
    either = affinity(
        {"key": keys.ZONE, "operator": "In", "values": [ZONE_1]},
        {"key": keys.ZONE, "operator": "In", "values": [ZONE_2]},
    )
    cluster = with_daemons(daemon_set(requests=ONE, spec=either))
    done = cluster.provision(
        pending_pod(requests=ONE, node_selector={keys.ZONE: ZONE_1}),
        pending_pod(requests=ONE, node_selector={keys.ZONE: ZONE_2}),
    )
    assert done.types == [DEFAULT, DEFAULT]


def test_host_ports_of_daemons_are_reserved_on_new_nodes() -> None:
    """Karpenter v0.27 plans a node whose port its own daemon will take."""
    ports = {"containers": [{"name": "main", "ports": [{"hostPort": 9100, "containerPort": 9100}]}]}
    waiting = pending_pod(host_ports=(HostPort(9100),))
    done = with_daemons(daemon_set(spec=ports)).provision(waiting)
    assert done.left == {waiting.name}
    assert "9100" in done.plan.unplaced[0].reason


def test_daemons_of_one_zone_cost_nothing_in_the_others() -> None:
    """DaemonSet overhead as it really is: in zone 2 the small type has room for the pod."""
    agent = daemon_set(requests=ONE, spec={"nodeSelector": {keys.ZONE: ZONE_1}})
    waiting = pending_pod(requests=ONE)
    assert with_daemons(agent, catalog=six_types()[1:2]).provision(waiting).placed(waiting)


def test_daemons_on_a_node_are_not_reserved_twice() -> None:
    """A node of 16 cpu with its 1-cpu daemon running has 14.9 left."""
    owner = daemon_set(requests={"cpu": "1"})
    cluster = with_daemons(owner)
    (name,) = cluster.provision(pending_pod(requests={"cpu": "10"})).nodes
    cluster.change(name, pods=(daemon_pod(owner, name, pod(requests={"cpu": "1"})),))
    done = cluster.provision(pending_pod(requests={"cpu": "14900m"}))
    assert done.new == ()
    assert done.plan.existing[0].node == name


def test_an_unexpected_daemon_pod_frees_nothing() -> None:
    """A daemon that should not be there takes room, and what remains for daemons never goes below zero."""
    owner = daemon_set(requests={"cpu": "1"}, spec={"nodeSelector": {"nowhere": "at-all"}})
    cluster = with_daemons(owner)
    (name,) = cluster.provision(pending_pod(requests={"cpu": "10"})).nodes
    cluster.change(name, pods=(daemon_pod(owner, name, pod(requests={"cpu": "1"})),))
    done = cluster.provision(pending_pod(requests={"cpu": "15500m"}))
    assert done.types == [ARM]
    assert done.plan.existing == ()


def test_daemons_yet_to_come_are_reserved_on_a_node_on_its_way() -> None:
    """16 cpu, less 0.1, less a daemon of 1 that has not started."""
    cluster = with_daemons(daemon_set(requests={"cpu": "1"}))
    (name,) = cluster.provision(pending_pod(requests={"cpu": "14"})).nodes
    cluster.change(name, pods=())
    assert cluster.provision(pending_pod(requests={"cpu": "15"})).plan.existing == ()


def test_daemons_that_a_limit_range_defaulted_count_as_they_run() -> None:
    """The template asks for nothing, admission added 1 cpu and 1Gi to the pods."""
    owner = daemon_set()
    cluster = with_daemons(owner)
    live = replace(daemon_pod(owner, "other", running_pod(node="other", requests=ONE)), created=5.0)
    cluster.add(state_node(node=node(name="other", provisioner="", allocatable=ONE | {"pods": 1}), pods=[live]))
    assert cluster.provision(pending_pod(requests=ONE)).types == [DEFAULT]


def test_a_daemon_set_whose_empty_term_matches_nothing_is_not_counted() -> None:
    """An empty nodeSelectorTerm matches no node (Kubernetes API)."""
    nothing: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    agent = daemon_set(requests=ONE, spec={"affinity": {"nodeAffinity": nothing}})
    assert with_daemons(agent).provision(pending_pod(requests=ONE)).types == [SMALL]
