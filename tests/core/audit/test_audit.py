"""The auditor itself: a good plan passes, and no plan that breaks a rule of kube-scheduler does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodVolume,
    SelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from controller.core.api.workloads import (
    CSINode,
    DaemonSet,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from controller.core.audit.plan_audit import audit, judge
from controller.core.cloud import PricedOffering
from controller.core.provisioning.plan import (
    ExistingPlacement,
    PlannedNode,
    SchedulingPlan,
    SchedulingProblem,
    UnplacedPod,
)
from controller.core.scheduling.requirements import Requirements
from tests import factories as make

A, B, C = make.ZONES
WEB = LabelSelector((SelectorRequirement("app", "In", ("web",)),))


def offering(kind: str = "m5.xlarge", zone: str = A, capacity_type: str = keys.ON_DEMAND) -> PricedOffering:
    known = {t.name: t for t in make.small_catalog()}[kind]
    price = next(o.price for o in known.offerings if (o.zone, o.capacity_type) == (zone, capacity_type))
    return PricedOffering(price, kind, zone, capacity_type)


def planned(pods: Iterable[Pod], kind: str = "m5.xlarge", zone: str = A, **fields: Any) -> PlannedNode:
    base = PlannedNode(
        provisioner="default",
        offering=offering(kind, zone),
        alternatives=(),
        requirements=Requirements(),
        labels=FrozenMap(),
        taints=(),
        startup_taints=(),
        pods=tuple(p.key for p in pods),
        requests=FrozenMap(),
        reason="cheapest that fits",
    )
    return replace(base, **fields)


def broken(plan: SchedulingPlan, problem: SchedulingProblem) -> str:
    return "\n".join(str(violation) for violation in audit(plan, problem))


def new_nodes(*nodes: PlannedNode) -> SchedulingPlan:
    return SchedulingPlan(new_nodes=nodes)


def zonal(**fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        **{
            "max_skew": 1,
            "topology_key": keys.ZONE,
            "when_unsatisfiable": "DoNotSchedule",
            "label_selector": WEB,
            **fields,
        }
    )


def web(count: int = 1, **fields: Any) -> tuple[Pod, ...]:
    return make.pending_pods(count, labels={"app": "web"}, **fields)


def test_a_plan_that_keeps_every_rule_has_no_violation() -> None:
    pods = make.pending_pods(3)
    assert broken(new_nodes(planned(pods)), make.problem(pending=pods)) == ""


class TestBookkeeping:
    def test_every_pending_pod_is_named_exactly_once(self) -> None:
        pods = make.pending_pods(2)
        problem = make.problem(pending=pods)
        assert "0 times" in broken(new_nodes(planned(pods[:1])), problem)
        assert "2 times" in broken(new_nodes(planned(pods), planned(pods[:1])), problem)

    def test_a_pod_that_was_not_pending_may_not_be_named(self) -> None:
        assert "not pending" in broken(new_nodes(planned([make.pod()])), make.problem())

    def test_an_unplaced_pod_and_a_new_node_carry_reasons(self) -> None:
        (pod,) = make.pending_pods(1)
        problem = make.problem(pending=[pod])
        assert "without a reason" in broken(SchedulingPlan(unplaced=(UnplacedPod(pod.key, ""),)), problem)
        assert "no reason" in broken(new_nodes(planned([pod], reason="")), problem)

    def test_a_node_is_launched_for_pods(self) -> None:
        assert "for no pod" in broken(new_nodes(planned([])), make.problem())

    def test_only_nodes_that_may_take_pods_and_usable_provisioners_are_used(self) -> None:
        (pod,) = make.pending_pods(1)
        problem = make.problem(pending=[pod])
        gone = SchedulingPlan(existing=(ExistingPlacement("gone", (pod.key,), "room"),))
        assert "may not take pods" in broken(gone, problem)
        assert "not usable" in broken(new_nodes(planned([pod], provisioner="other")), problem)


class TestOffering:
    def test_it_must_be_available_at_its_price(self) -> None:
        (pod,) = make.pending_pods(1)
        full = tuple(
            replace(t, offerings=tuple(replace(o, available=False) for o in t.offerings)) for t in make.small_catalog()
        )
        assert "not available" in broken(new_nodes(planned([pod])), make.problem(pending=[pod], catalog=full))
        cheap = replace(offering(), price=0.01)
        assert "costs" in broken(new_nodes(planned([pod], offering=cheap)), make.problem(pending=[pod]))

    def test_it_must_meet_the_provisioners_requirements_and_labels(self) -> None:
        (pod,) = make.pending_pods(1)
        spot = make.provisioner(requirements=[make.requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
        assert "breaks karpenter.sh/capacity-type" in broken(
            new_nodes(planned([pod])), make.problem(pending=[pod], provisioners=[spot])
        )
        labelled = make.provisioner(labels={"team": "a"})
        assert "team=a" in broken(new_nodes(planned([pod])), make.problem(pending=[pod], provisioners=[labelled]))

    def test_every_alternative_must_hold_the_pods_too(self) -> None:
        pods = make.pending_pods(3)
        small = planned(pods, alternatives=(offering("m5.large"),))
        assert "m5.large: cpu" in broken(new_nodes(small), make.problem(pending=pods))

    def test_alternatives_may_not_leave_a_zone_open_that_topology_rests_on(self) -> None:
        pods = web(1, topology_spread=(zonal(),))
        node = planned(pods, alternatives=(offering(zone=B),))
        assert "leave topology.kubernetes.io/zone open" in broken(new_nodes(node), make.problem(pending=pods))


class TestResources:
    def test_pods_may_not_ask_for_more_than_is_allocatable(self) -> None:
        pods = make.pending_pods(5)
        assert "cpu: 5000 used of 4000" in broken(new_nodes(planned(pods)), make.problem(pending=pods))

    def test_an_unknown_extended_resource_is_not_there(self) -> None:
        pods = make.pending_pods(1, requests={"nvidia.com/gpu": 1})
        assert "nvidia.com/gpu" in broken(new_nodes(planned(pods)), make.problem(pending=pods))

    def test_daemons_that_will_run_there_take_their_share(self) -> None:
        pods = make.pending_pods(3)
        daemon = DaemonSet("kube-system", "agent", "uid-agent", make.pod(requests={"cpu": "1500m"}))
        problem = make.problem(pending=pods, daemon_sets=FrozenMap({("kube-system", "agent"): daemon}))
        assert "cpu: 4500 used of 4000" in broken(new_nodes(planned(pods)), problem)

    def test_a_live_daemon_pod_counts_as_admission_made_it(self) -> None:
        pods = make.pending_pods(3)
        owner = make.daemon_owner(name="agent")
        daemon = DaemonSet("kube-system", "agent", owner.uid, make.pod(requests={"cpu": "10m"}))
        live = make.running_pod(node="n", requests={"cpu": "1500m"}, owner=owner)
        node = make.state_node(node=make.node(name="n"), pods=[live])
        sets = FrozenMap({("kube-system", "agent"): daemon})
        assert "cpu: 4500" in broken(
            new_nodes(planned(pods)), make.problem(pending=pods, nodes=[node], daemon_sets=sets)
        )

    def test_an_existing_node_keeps_what_its_pods_use(self) -> None:
        (pod,) = make.pending_pods(1, requests={"cpu": "1500m"})
        node = make.state_node(node=make.node(name="n"), pods=[make.running_pod(node="n")])
        plan = SchedulingPlan(existing=(ExistingPlacement("n", (pod.key,), "room"),))
        assert "cpu: 2500 used of 2000" in broken(plan, make.problem(pending=[pod], nodes=[node]))

    def test_limits_hold_for_existing_and_new_nodes_together(self) -> None:
        (pod,) = make.pending_pods(1)
        node = make.state_node(node=make.node(name="n"))
        limited = make.provisioner(limits={"cpu": 5})
        problem = make.problem(pending=[pod], nodes=[node], provisioners=[limited])
        assert "cpu would be 6000 of a limit of 5000" in broken(new_nodes(planned([pod])), problem)


class TestAdmission:
    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"node_selector": {keys.ZONE: B}}, "node selector"),
            ({"node_selector": {"undefined": "x"}}, "node selector"),
            (
                {"required_node_affinity": make.node_affinity(make.requirement(keys.INSTANCE_CPU, "Gt", "4"))},
                "node selector",
            ),
            ({"required_node_affinity": (NodeSelectorTerm(),)}, "node selector"),
            ({"required_node_affinity": ()}, "node selector"),
            ({"gated": True}, "gates"),
            ({"malformed": ("spec.containers[0]",)}, "malformed"),
            ({"unsupported": ("spec.resourceClaims: unknown",)}, "spec.resourceClaims"),
        ],
    )
    def test_a_pod_goes_only_where_its_spec_allows(self, fields: dict[str, Any], text: str) -> None:
        pods = make.pending_pods(1, **fields)
        assert text in broken(new_nodes(planned(pods)), make.problem(pending=pods))

    def test_terms_are_ored(self) -> None:
        terms = (
            *make.node_affinity(make.requirement(keys.ZONE, "In", B)),
            *make.node_affinity(make.requirement(keys.ZONE, "In", A)),
        )
        pods = make.pending_pods(1, required_node_affinity=terms)
        assert broken(new_nodes(planned(pods)), make.problem(pending=pods)) == ""

    def test_taints_must_be_tolerated_and_may_not_be_left_out(self) -> None:
        taint = Taint("dedicated", "gpu", "NoSchedule")
        tainted = make.provisioner(taints=[taint])
        (pod,) = make.pending_pods(1)
        problem = make.problem(pending=[pod], provisioners=[tainted])
        assert "does not tolerate" in broken(new_nodes(planned([pod], taints=(taint,))), problem)
        assert "leaves out" in broken(new_nodes(planned([pod])), problem)
        (tolerant,) = make.pending_pods(1, tolerations=(Toleration("dedicated", "Equal", "gpu"),))
        fine = make.problem(pending=[tolerant], provisioners=[tainted])
        assert broken(new_nodes(planned([tolerant], taints=(taint,))), fine) == ""

    def test_host_ports_are_claimed_once_a_node_daemons_included(self) -> None:
        pods = make.pending_pods(2, host_ports=(HostPort(80),))
        assert "host port 80" in broken(new_nodes(planned(pods)), make.problem(pending=pods))
        daemon = DaemonSet("kube-system", "agent", "u", make.pod(requests={}, host_ports=(HostPort(80),)))
        sets = FrozenMap({("kube-system", "agent"): daemon})
        assert "host port 80" in broken(new_nodes(planned(pods[:1])), make.problem(pending=pods[:1], daemon_sets=sets))


class TestTopology:
    def test_spread_counts_what_stands_and_what_comes(self) -> None:
        pods = web(2, topology_spread=(zonal(),))
        stander = make.state_node(node=make.node(name="n", zone=B), pods=[])
        problem = make.problem(pending=pods, nodes=[stander])
        assert "spread over topology.kubernetes.io/zone" in broken(new_nodes(planned(pods)), problem)
        balanced = new_nodes(planned(pods[:1], zone=A), planned(pods[1:], zone=B))
        assert broken(balanced, problem) == ""

    def test_too_few_domains_make_the_least_zero(self) -> None:
        pods = web(2, topology_spread=(zonal(min_domains=3),))
        assert "in the least" in broken(new_nodes(planned(pods)), make.problem(pending=pods))

    def test_match_label_keys_part_revisions(self) -> None:
        spread = (zonal(match_label_keys=("rev",)),)
        one = make.pending_pod(labels={"app": "web", "rev": "1"}, topology_spread=spread)
        two = make.pending_pod(labels={"app": "web", "rev": "2"}, topology_spread=spread)
        nodes = [make.state_node(node=make.node(name="n", zone=B))]
        assert broken(new_nodes(planned([one, two])), make.problem(pending=[one, two], nodes=nodes)) == ""

    def test_node_affinity_policy_ignore_counts_nodes_that_the_pod_cannot_use(self) -> None:
        fields: dict[str, Any] = {"node_selector": {keys.ZONE: A}}
        honor = web(2, topology_spread=(zonal(),), **fields)
        ignore = web(2, topology_spread=(zonal(node_affinity_policy="Ignore"),), **fields)
        nodes = [make.state_node(node=make.node(name="n", zone=B))]
        assert broken(new_nodes(planned(honor)), make.problem(pending=honor, nodes=nodes)) == ""
        assert "spread" in broken(new_nodes(planned(ignore)), make.problem(pending=ignore, nodes=nodes))

    def test_node_taints_policy_honor_leaves_out_nodes_that_are_not_tolerated(self) -> None:
        tainted = [make.state_node(node=make.node(name="n", zone=B, taints=[Taint("k")]))]
        honor = web(2, topology_spread=(zonal(node_taints_policy="Honor"),))
        ignore = web(2, topology_spread=(zonal(),))
        assert broken(new_nodes(planned(honor)), make.problem(pending=honor, nodes=tainted)) == ""
        assert "spread" in broken(new_nodes(planned(ignore)), make.problem(pending=ignore, nodes=tainted))

    def test_anti_affinity_keeps_apart_both_ways(self) -> None:
        lonely = make.pending_pod(required_pod_anti_affinity=(PodAffinityTerm(keys.HOSTNAME, WEB),))
        (target,) = web()
        for order in ([lonely, target], [target, lonely]):
            assert "anti-affinity" in broken(new_nodes(planned(order)), make.problem(pending=order))
        apart = new_nodes(planned([lonely]), planned([target]))
        assert broken(apart, make.problem(pending=[lonely, target])) == ""

    def test_a_standing_pods_anti_affinity_repels_newcomers(self) -> None:
        guard = make.running_pod(node="n", required_pod_anti_affinity=(PodAffinityTerm(keys.ZONE, WEB),))
        nodes = [make.state_node(node=make.node(name="n", zone=A), pods=[guard])]
        pods = web()
        assert "anti-affinity" in broken(new_nodes(planned(pods, zone=A)), make.problem(pending=pods, nodes=nodes))
        assert broken(new_nodes(planned(pods, zone=B)), make.problem(pending=pods, nodes=nodes)) == ""

    def test_anti_affinity_over_a_key_that_a_node_lacks_binds_nobody_there(self) -> None:
        pods = web(2, required_pod_anti_affinity=(PodAffinityTerm("rack", WEB),))
        assert broken(new_nodes(planned(pods)), make.problem(pending=pods)) == ""

    def test_affinity_needs_a_matching_pod_in_the_domain(self) -> None:
        follower = make.pending_pod(required_pod_affinity=(PodAffinityTerm(keys.ZONE, WEB),))
        target = make.running_pod(node="n", labels={"app": "web"})
        nodes = [make.state_node(node=make.node(name="n", zone=B), pods=[target])]
        problem = make.problem(pending=[follower], nodes=nodes)
        assert "pod affinity" in broken(new_nodes(planned([follower], zone=A)), problem)
        assert broken(new_nodes(planned([follower], zone=B)), problem) == ""

    def test_self_affinity_starts_anywhere_once_and_stays_together(self) -> None:
        pods = web(2, required_pod_affinity=(PodAffinityTerm(keys.ZONE, WEB),))
        problem = make.problem(pending=pods)
        assert broken(new_nodes(planned(pods)), problem) == ""
        split = new_nodes(planned(pods[:1], zone=A), planned(pods[1:], zone=B))
        assert "pod affinity" in broken(split, problem)

    def test_namespaces_of_a_term(self) -> None:
        team = LabelSelector((SelectorRequirement("team", "In", ("a",)),))
        term = PodAffinityTerm(keys.HOSTNAME, WEB, namespace_selector=team)
        lonely = make.pending_pod(required_pod_anti_affinity=(term,))
        near = make.pending_pod(labels={"app": "web"}, namespace="a")
        far = make.pending_pod(labels={"app": "web"}, namespace="b")
        spaces = FrozenMap({n: Namespace(n, FrozenMap({"team": n})) for n in ("a", "b")})
        inside = make.problem(pending=[lonely, near], namespaces=spaces)
        outside = make.problem(pending=[lonely, far], namespaces=spaces)
        assert "anti-affinity" in broken(new_nodes(planned([lonely, near])), inside)
        assert broken(new_nodes(planned([lonely, far])), outside) == ""

    def test_nodes_thought_away_count_in_no_topology(self) -> None:
        pods = web(2, topology_spread=(zonal(),))
        nodes = [make.state_node(node=make.node(name="n", zone=B))]
        problem = replace(make.problem(pending=pods, nodes=nodes), nodes=(), without_nodes=frozenset({"n"}))
        assert broken(new_nodes(planned(pods)), problem) == ""


def claimed(claim: PersistentVolumeClaim, **fields: Any) -> tuple[Pod, SchedulingProblem]:
    pod = make.pending_pod(pod_fields={"volumes": (PodVolume("data", claim.name),)})
    return pod, make.problem(pending=[pod], claims=FrozenMap({claim.key: claim}), **fields)


class TestVolumes:
    def test_a_claim_must_exist(self) -> None:
        pod = make.pending_pod(pod_fields={"volumes": (PodVolume("data", "gone"),)})
        assert "does not exist" in broken(new_nodes(planned([pod])), make.problem(pending=[pod]))

    def test_any_term_of_a_bound_volume_will_do(self) -> None:
        terms = (
            *make.node_affinity(make.requirement(keys.ZONE, "In", B)),
            *make.node_affinity(make.requirement(keys.ZONE, "In", C)),
        )
        held = PersistentVolume("pv", node_affinity=terms)
        pod, problem = claimed(PersistentVolumeClaim("default", "data", "pv"), volumes=FrozenMap({"pv": held}))
        assert "not reachable" in broken(new_nodes(planned([pod], zone=A)), problem)
        assert broken(new_nodes(planned([pod], zone=C)), problem) == ""

    def test_a_zone_that_stands_only_in_the_volumes_labels_binds(self) -> None:
        held = PersistentVolume("pv", labels=FrozenMap({keys.ZONE: f"{B}__{C}"}))
        pod, problem = claimed(PersistentVolumeClaim("default", "data", "pv"), volumes=FrozenMap({"pv": held}))
        assert "not reachable" in broken(new_nodes(planned([pod], zone=A)), problem)
        assert broken(new_nodes(planned([pod], zone=C)), problem) == ""

    def test_an_unbound_claim_of_an_immediate_class_waits(self) -> None:
        classes = FrozenMap({"now": StorageClass("now", "ebs.csi.aws.com")})
        pod, problem = claimed(
            PersistentVolumeClaim("default", "data", storage_class_name="now"), storage_classes=classes
        )
        assert "binds immediately" in broken(new_nodes(planned([pod])), problem)

    def test_allowed_topologies_of_a_class_that_waits_for_the_pod(self) -> None:
        terms = make.node_affinity(make.requirement(keys.ZONE, "In", B))
        late = StorageClass("late", "ebs.csi.aws.com", "WaitForFirstConsumer", terms, default=True)
        pod, problem = claimed(PersistentVolumeClaim("default", "data"), storage_classes=FrozenMap({"late": late}))
        assert "does not allow" in broken(new_nodes(planned([pod], zone=A)), problem)
        assert broken(new_nodes(planned([pod], zone=B)), problem) == ""

    def test_static_volumes_without_a_provisioner_bind_where_they_are(self) -> None:
        held = PersistentVolume(
            "pv", node_affinity=make.node_affinity(make.requirement(keys.ZONE, "In", B)), storage_class_name="static"
        )
        static = StorageClass("static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        pod, problem = claimed(
            PersistentVolumeClaim("default", "data", storage_class_name="static"),
            storage_classes=FrozenMap({"static": static}),
            volumes=FrozenMap({"pv": held}),
        )
        assert "no free volume" in broken(new_nodes(planned([pod], zone=A)), problem)
        assert broken(new_nodes(planned([pod], zone=B)), problem) == ""

    def test_a_local_volume_lives_on_its_host(self) -> None:
        terms = make.node_affinity(make.requirement(keys.HOSTNAME, "In", "old"))
        held = PersistentVolume("pv", node_affinity=terms, local=True)
        pod, problem = claimed(PersistentVolumeClaim("default", "data", "pv"), volumes=FrozenMap({"pv": held}))
        assert "lives on a host" in broken(new_nodes(planned([pod])), problem)

    def test_attach_limits_count_a_claim_once(self) -> None:
        node = make.state_node(node=make.node(name="n", allocatable={"cpu": "8", "memory": "8Gi", "pods": 29}))
        held = {f"pv{i}": PersistentVolume(f"pv{i}", driver="ebs.csi.aws.com") for i in range(2)}
        claims = {("default", f"c{i}"): PersistentVolumeClaim("default", f"c{i}", f"pv{i}") for i in range(2)}
        pods = [make.pending_pod(pod_fields={"volumes": (PodVolume("v", name),)}) for name in ("c0", "c0", "c1")]
        shared: dict[str, Any] = {
            "nodes": [node],
            "volumes": FrozenMap(held),
            "claims": FrozenMap(claims),
            "csi_nodes": FrozenMap({"n": CSINode("n", FrozenMap({"ebs.csi.aws.com": 1}))}),
        }
        two = SchedulingPlan(existing=(ExistingPlacement("n", tuple(p.key for p in pods[:2]), "room"),))
        three = SchedulingPlan(existing=(ExistingPlacement("n", tuple(p.key for p in pods), "room"),))
        assert broken(two, make.problem(pending=pods[:2], **shared)) == ""
        assert "2 volumes of ebs.csi.aws.com" in broken(three, make.problem(pending=pods, **shared))


def test_pods_and_zones_of_a_node_that_is_leaving_count() -> None:
    """kube-scheduler does not look at a node's deletionTimestamp: what stands there counts for as long as it stands."""
    leaving = make.state_node(
        node=make.node(name="leaving", zone=B, deleted_at=5.0),
        pods=[make.running_pod(node="leaving", labels={"app": "web"})],
    )
    follower = make.pending_pod(
        name="follower", required_pod_affinity=(PodAffinityTerm(keys.ZONE, make.selector(app="web")),)
    )
    posed = make.problem(pending=[follower], nodes=[leaving])
    assert broken(new_nodes(planned([follower], zone=B)), posed) == ""
    assert "finds no pod" in broken(new_nodes(planned([follower], zone=A)), posed)
    gone = replace(posed, without_nodes=frozenset({"leaving"}))
    assert "finds no pod" in broken(new_nodes(planned([follower], zone=B)), gone)


def test_a_claim_of_the_empty_class_that_is_not_bound_may_not_be_placed() -> None:
    """kube-scheduler: no class cannot wait for a consumer, so the claim is an unbound immediate one."""
    pod, posed = claimed(PersistentVolumeClaim("default", "data", storage_class_name=""))
    assert "not bound" in broken(new_nodes(planned([pod])), posed)


class TestJudge:
    def test_a_plan_that_keeps_every_rule_is_carried_out_as_it_is(self) -> None:
        pods = make.pending_pods(2)
        plan = new_nodes(planned(pods))
        verdict = judge(plan, make.problem(pending=pods))
        assert (verdict.plan, verdict.violations) == (plan, ())

    def test_a_new_node_that_breaks_a_rule_is_taken_out_and_the_others_stay(self) -> None:
        good, bad = make.pending_pods(1), make.pending_pods(1, node_selector={"disk": "ssd"})
        plan = new_nodes(planned(good), planned(bad))
        verdict = judge(plan, make.problem(pending=(*good, *bad)))
        assert verdict.plan.new_nodes == plan.new_nodes[:1]
        assert [each.pod for each in verdict.plan.unplaced] == [bad[0].key]
        assert "does not match its node selector" in verdict.plan.unplaced[0].reason

    def test_a_violation_of_the_node_itself_takes_all_of_its_pods_along(self) -> None:
        pods, others = make.pending_pods(2), make.pending_pods(1)
        plan = new_nodes(planned(others), planned(pods, reason=""))
        verdict = judge(plan, make.problem(pending=(*pods, *others)))
        assert {each.pod for each in verdict.plan.unplaced} == {pod.key for pod in pods}
        assert verdict.plan.new_nodes == plan.new_nodes[:1]

    def test_a_violation_by_an_alternative_offering_takes_the_node_out(self) -> None:
        (pod,) = make.pending_pods(1)
        cheap = replace(offering("m5.large"), price=0.01)
        verdict = judge(new_nodes(planned([pod], alternatives=(cheap,))), make.problem(pending=[pod]))
        assert verdict.plan.new_nodes == ()
        assert "costs" in verdict.plan.unplaced[0].reason

    def test_pods_on_an_existing_node_that_may_not_take_them_are_unplaced(self) -> None:
        (pod,) = make.pending_pods(1)
        node = make.state_node(node=make.node(taints=(Taint("dedicated", "x", "NoSchedule"),)))
        problem = make.problem(pending=[pod], nodes=[node])
        verdict = judge(SchedulingPlan(existing=(ExistingPlacement(node.name, (pod.key,), "room"),)), problem)
        assert verdict.plan.existing == ()
        assert "does not tolerate dedicated" in verdict.plan.unplaced[0].reason

    def test_topology_beyond_the_work_allowed_is_not_judged_and_the_verdict_says_so(self) -> None:
        pods = web(5, topology_spread=(zonal(),))
        plan, problem = new_nodes(planned(pods[:4]), planned(pods[4:], zone=B)), make.problem(pending=pods)
        assert "spread" in broken(plan, problem)
        verdict = judge(plan, problem, most_work=3)
        assert (verdict.violations, verdict.topology_judged) == ((), False)
        assert judge(plan, problem).violations, "within the work allowed it is"
