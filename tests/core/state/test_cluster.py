"""What a snapshot holds after which events: Karpenter v0.27's state suite as behaviours, and our own rules."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.kinds import KINDS
from tests.core.state.changes import Object, added, at, deleted, learned, listed, modified, take
from tests.factories import instance_type, node_object, node_template_object, pod_object, provisioner_object


def bound(name: str, node: str, *, cpu: str = "1", phase: str = "Running", version: int = 1, **meta: Any) -> Object:
    return at(
        pod_object(name=name, requests={"cpu": cpu}, spec={"nodeName": node}, status={"phase": phase}), version, **meta
    )


def owned_node(name: str = "n1", *, initialized: bool = False, **fields: Any) -> Object:
    labels = {keys.PROVISIONER_NAME: "default", keys.INSTANCE_TYPE: "m5.large"}
    return node_object(name=name, labels=labels | ({keys.INITIALIZED: "true"} if initialized else {}), **fields)


def cpu_on(cluster: Cluster, node: str) -> int:
    return sum(pod.spec.requests["cpu"] for pod in cluster.snapshot().nodes[node].pods)


class TestResources:
    def test_pods_without_a_node_are_on_no_node(self) -> None:
        snapshot = take(Cluster(), added(node_object(name="n1"), pod_object(name="a")))
        assert snapshot.nodes["n1"].pods == ()
        assert ("default", "a") in snapshot.pods

    def test_the_namespace_default_may_be_left_out(self) -> None:
        pod = pod_object(name="a")
        del pod["metadata"]["namespace"]
        snapshot = take(Cluster(), added(pod))
        assert {key: each.key for key, each in snapshot.pods.items()} == {("default", "a"): ("default", "a")}

    def test_newly_bound_pods_count(self) -> None:
        cluster = Cluster()
        pending = pod_object(name="a", requests={"cpu": "1500m"})
        take(cluster, added(node_object(name="n1"), pending), modified(bound("a", "n1", cpu="1500m", version=2)))
        assert cpu_on(cluster, "n1") == 1500
        take(cluster, added(bound("b", "n1", cpu="2")))
        assert cpu_on(cluster, "n1") == 3500

    def test_pods_that_were_bound_before_their_node_is_known_count_once_it_is(self) -> None:
        cluster = Cluster()
        assert take(cluster, added(bound("a", "n1"))).nodes == {}
        take(cluster, added(node_object(name="n1")))
        assert cpu_on(cluster, "n1") == 1000

    def test_a_deleted_pod_frees_its_resources(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1"), bound("a", "n1"), bound("b", "n1", cpu="2")))
        take(cluster, deleted(bound("a", "n1", version=2)))
        assert cpu_on(cluster, "n1") == 2000

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_terminal_pods_use_nothing(self, phase: str) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1"), bound("a", "n1")))
        snapshot = take(cluster, modified(bound("a", "n1", phase=phase, version=2)))
        assert snapshot.nodes["n1"].pods == ()
        assert snapshot.pods["default", "a"].terminal

    def test_a_terminating_pod_still_uses_its_node(self) -> None:
        gone_by = "2026-01-02T03:05:05Z"
        snapshot = take(Cluster(), added(node_object(name="n1"), bound("a", "n1", deletionTimestamp=gone_by)))
        assert [pod.terminating for pod in snapshot.nodes["n1"].pods] == [True]

    def test_a_deleted_node_is_dropped_and_its_pods_wait_for_it_to_come_back(self) -> None:
        cluster = Cluster()
        node = node_object(name="n1")
        take(cluster, added(node, bound("a", "n1")))
        assert take(cluster, deleted(at(node, 5))).nodes == {}
        take(cluster, added(at(node, 7, uid="another")))
        assert cpu_on(cluster, "n1") == 1000

    def test_a_pod_name_that_is_used_again_on_another_node_moves_the_usage(self) -> None:
        """The events of the deletion were missed: the StatefulSet's pod is a new object of the same name."""
        cluster = Cluster()
        take(cluster, added(node_object(name="n1"), node_object(name="n2"), bound("db-0", "n1", uid="first")))
        snapshot = take(cluster, added(bound("db-0", "n2", uid="second", version=9)))
        assert snapshot.nodes["n1"].pods == ()
        assert [pod.uid for pod in snapshot.nodes["n2"].pods] == ["second"]

    def test_usage_stays_exact_over_many_additions_and_deletions_with_duplicate_events(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1")))
        for number in range(100):
            pod = bound(f"p{number}", "n1", version=10 * number + 1)
            take(cluster, added(pod, pod), modified(at(pod, 10 * number + 2), at(pod, 10 * number + 2)))
            if number % 2:
                gone = at(pod, 10 * number + 3)
                take(cluster, deleted(gone, gone))
        assert cpu_on(cluster, "n1") == 50_000


class TestNodes:
    def test_an_uninitialized_node_that_reports_nothing_has_its_instance_types_resources(self) -> None:
        cluster = Cluster()
        cluster.set_instance_types("default", {"m5.large": instance_type(name="m5.large")})
        snapshot = take(cluster, added(owned_node(status={"capacity": {}, "allocatable": {}})))
        of_type = instance_type(name="m5.large")
        assert snapshot.nodes["n1"].capacity == of_type.capacity
        assert snapshot.nodes["n1"].allocatable == of_type.allocatable

    def test_what_is_reported_wins_and_what_is_missing_or_zero_is_filled_per_resource(self) -> None:
        cluster = Cluster()
        of_type = instance_type(name="m5.large")
        cluster.set_instance_types("default", {"m5.large": of_type})
        partly = {"cpu": "1", "memory": "0"}
        snapshot = take(cluster, added(owned_node(status={"capacity": partly, "allocatable": partly})))
        allocatable = snapshot.nodes["n1"].allocatable
        assert allocatable["cpu"] == 1000
        assert allocatable["memory"] == of_type.allocatable["memory"]
        assert allocatable["pods"] == of_type.allocatable["pods"]

    def test_an_initialized_node_has_what_it_reports(self) -> None:
        cluster = Cluster()
        cluster.set_instance_types("default", {"m5.large": instance_type(name="m5.large")})
        snapshot = take(cluster, added(owned_node(initialized=True, status={"allocatable": {"cpu": "1"}})))
        assert snapshot.nodes["n1"].allocatable == {"cpu": 1000}

    def test_a_node_of_others_has_what_it_reports(self) -> None:
        cluster = Cluster()
        cluster.set_instance_types("", {"m5.large": instance_type(name="m5.large")})
        foreign = node_object(name="n1", labels={keys.INSTANCE_TYPE: "m5.large"}, status={"allocatable": {}})
        assert take(cluster, added(foreign)).nodes["n1"].allocatable == {}

    def test_instance_types_that_come_later_fill_nodes_that_are_there(self) -> None:
        cluster = Cluster()
        before = take(cluster, added(owned_node(status={"capacity": {}, "allocatable": {}})))
        assert before.nodes["n1"].allocatable == {}
        cluster.set_instance_types("default", {"m5.large": instance_type(name="m5.large")})
        assert cluster.snapshot().nodes["n1"].allocatable["cpu"] > 0

    def test_a_type_that_is_not_sold_any_more_still_fills_nodes_that_start(self) -> None:
        cluster = Cluster()
        cluster.set_instance_types("default", {"m5.large": instance_type(name="m5.large")})
        before = take(cluster, added(owned_node(status={"capacity": {}, "allocatable": {}})))
        cluster.set_instance_types("default", {"c5.large": instance_type(name="c5.large")})
        assert cluster.snapshot().nodes["n1"].allocatable == before.nodes["n1"].allocatable != {}

    def test_a_node_that_gains_its_provider_id_stays_one_entry(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1", spec={"providerID": ""})))
        snapshot = take(cluster, modified(at(node_object(name="n1", spec={"providerID": "aws:///z/i-1"}), 2)))
        assert [(name, node.node.provider_id) for name, node in snapshot.nodes.items()] == [("n1", "aws:///z/i-1")]

    def test_a_thousand_nodes_are_tracked_in_the_order_of_their_names(self) -> None:
        nodes = [node_object(name=f"n{number * 7919 % 1000:04}") for number in range(1000)]
        snapshot = take(Cluster(["Node"]), listed("Node", *nodes))
        assert list(snapshot.nodes) == sorted(snapshot.nodes)
        assert len(snapshot.nodes) == 1000

    def test_a_deletion_timestamp_means_leaving(self) -> None:
        node = node_object(name="n1", deletionTimestamp="2026-01-02T03:04:05Z", finalizers=["karpenter.sh/termination"])
        assert take(Cluster(), added(node)).nodes["n1"].leaving


class TestNominationsAndMarks:
    def test_a_nomination_lasts_until_its_time(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1")))
        cluster.nominate("n1", until=110.0)
        cluster.expire(now=105.0)
        assert cluster.snapshot().nodes["n1"].nominated_until == 110.0
        cluster.expire(now=111.0)
        assert cluster.snapshot().nodes["n1"].nominated_until == 0.0

    def test_a_later_nomination_extends_and_an_earlier_one_does_not_shorten(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1")))
        for until in (100.0, 120.0, 110.0):
            cluster.nominate("n1", until)
        assert cluster.snapshot().nodes["n1"].nominated_until == 120.0

    def test_a_nomination_ends_when_the_last_pod_it_was_made_for_is_bound_or_gone(self) -> None:
        """Karpenter v0.27 waits its time out; a node that is empty again would stand that much longer."""
        cluster = Cluster()
        waiting = [pod_object(name=name) for name in ("a", "b", "c")]
        snapshot = take(cluster, added(node_object(name="n1")), *(added(pod) for pod in waiting))
        cluster.nominate("n1", until=100.0, pods=snapshot.pods.values())
        bound = at(pod_object(name="a", spec={"nodeName": "elsewhere"}), 2)
        finished = at(pod_object(name="b", status={"phase": "Failed"}), 2)
        assert take(cluster, modified(bound), modified(finished)).nodes["n1"].nominated_until == 100.0
        assert take(cluster, deleted(at(waiting[2], 2))).nodes["n1"].nominated_until == 0.0

    def test_a_pod_that_is_bound_already_nominates_nothing(self) -> None:
        cluster = Cluster()
        before = take(cluster, added(node_object(name="n1")), added(pod_object(name="a")))
        take(cluster, modified(at(pod_object(name="a", spec={"nodeName": "n1"}), 2)))
        cluster.nominate("n1", until=100.0, pods=before.pods.values())
        assert cluster.snapshot().nodes["n1"].nominated_until == 0.0

    def test_a_node_is_kept_while_a_pod_waits_that_any_node_was_nominated_for(self) -> None:
        """kube-scheduler may bind it to whichever has room, so none of them is empty for good yet."""
        cluster = Cluster()
        nodes, pods = ("n1", "n2"), [pod_object(name=name) for name in ("a", "b")]
        snapshot = take(cluster, *(added(node_object(name=n)) for n in nodes), *(added(pod) for pod in pods))
        for name, pod in zip(nodes, snapshot.pods.values(), strict=True):
            cluster.nominate(name, until=100.0, pods=[pod])
        crossed = take(cluster, modified(at(pod_object(name="a", spec={"nodeName": "n2"}), 2))).nodes
        assert [crossed[name].nominated_until for name in nodes] == [100.0, 100.0]
        settled = take(cluster, modified(at(pod_object(name="b", spec={"nodeName": "n1"}), 2))).nodes
        assert [settled[name].nominated_until for name in nodes] == [0.0, 0.0]

    def test_a_nomination_for_no_pods_in_particular_ends_by_time_alone(self) -> None:
        cluster = Cluster()
        snapshot = take(cluster, added(node_object(name="n1")), added(pod_object(name="a")))
        cluster.nominate("n1", until=90.0)
        cluster.nominate("n1", until=100.0, pods=snapshot.pods.values())
        bound = modified(at(pod_object(name="a", spec={"nodeName": "n1"}), 2))
        assert take(cluster, bound).nodes["n1"].nominated_until == 100.0

    def test_nomination_and_mark_may_come_before_the_node_and_survive_its_updates(self) -> None:
        cluster = Cluster()
        cluster.nominate("n1", until=100.0)
        cluster.mark_for_deletion(["n1"])
        node = owned_node()
        snapshot = take(cluster, learned(node), added(node), modified(at(owned_node(initialized=True), 2)))
        assert snapshot.nodes["n1"].nominated_until == 100.0
        assert snapshot.nodes["n1"].marked_for_deletion

    def test_they_go_with_the_node(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1")))
        cluster.nominate("n1", until=100.0)
        cluster.mark_for_deletion(["n1"])
        node = node_object(name="n1")
        state = take(cluster, deleted(at(node, 2)), added(at(node, 3, uid="another"))).nodes["n1"]
        assert (state.nominated_until, state.marked_for_deletion) == (0.0, False)

    def test_they_do_not_pass_to_another_node_of_the_same_name(self) -> None:
        """The deletion was missed."""
        cluster = Cluster()
        take(cluster, added(node_object(name="n1")))
        cluster.mark_for_deletion(["n1"])
        assert not take(cluster, added(at(node_object(name="n1"), 3, uid="another"))).nodes["n1"].marked_for_deletion

    def test_a_mark_can_be_taken_back(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1")))
        cluster.mark_for_deletion(["n1"])
        assert cluster.snapshot().nodes["n1"].leaving
        cluster.unmark(["n1", "unknown"])
        assert not cluster.snapshot().nodes["n1"].leaving


class TestInvalidObjects:
    def test_an_invalid_provisioner_takes_no_part_and_says_every_broken_rule(self) -> None:
        bad = at(provisioner_object(name="bad", spec={"weight": 1000, "ttlSecondsAfterEmpty": -1}), 2, generation=7)
        cluster = Cluster()
        (refused,) = cluster.apply(added(bad)[0])
        snapshot = take(cluster, added(provisioner_object(name="good")))
        assert list(snapshot.provisioners) == ["good"]
        assert snapshot.invalid == {("Provisioner", "bad"): refused}
        assert refused.generation == 7
        assert "spec.weight" in refused.error
        assert "spec.ttlSecondsAfterEmpty" in refused.error

    def test_a_provisioner_that_becomes_invalid_loses_its_old_value_and_comes_back_when_mended(self) -> None:
        cluster = Cluster()
        good = provisioner_object(name="p")
        assert list(take(cluster, added(good)).provisioners) == ["p"]
        broken = take(cluster, modified(at(provisioner_object(name="p", spec={"weight": 1000}), 2)))
        assert (dict(broken.provisioners), list(broken.invalid)) == ({}, [("Provisioner", "p")])
        mended = take(cluster, modified(at(good, 3)))
        assert (list(mended.provisioners), dict(mended.invalid)) == (["p"], {})

    def test_a_refusal_is_reported_once_an_error(self) -> None:
        cluster = Cluster()
        nope, neither = ({"amiFamily": family} for family in ("Nope", "Neither"))
        versions = enumerate((nope, nope, neither), start=1)
        documents = (at(node_template_object(spec=spec), version) for version, spec in versions)
        reports = [cluster.apply(change) for change in modified(*documents)]
        assert [len(report) for report in reports] == [1, 0, 1]

    def test_deleting_an_invalid_object_clears_it(self) -> None:
        cluster = Cluster()
        bad = provisioner_object(name="p", spec={"weight": 1000})
        assert take(cluster, added(bad)).invalid
        assert take(cluster, deleted(at(bad, 2))).invalid == {}

    @pytest.mark.parametrize(
        "document", [{}, {"metadata": None}, {"metadata": {"name": 5}}, {"metadata": {"name": []}}]
    )
    @pytest.mark.parametrize("kind", sorted(KINDS))
    def test_a_document_that_is_no_object_is_refused_and_stops_nothing(self, kind: str, document: Object) -> None:
        cluster = Cluster([kind])
        (refused,) = cluster.apply(Change(kind, ChangeType.REPLACED, (document,)))
        assert refused.kind == kind
        assert cluster.snapshot().synced

    def test_startup_taints_of_a_provisioner_that_became_invalid_still_hold_for_its_nodes(self) -> None:
        taint = {"key": "wait", "effect": "NoSchedule"}
        cluster = Cluster()
        good = provisioner_object(spec={"startupTaints": [taint]})
        take(cluster, added(good, owned_node(spec={"taints": [taint]})))
        bad = provisioner_object(spec={"startupTaints": [taint], "weight": 1000})
        assert take(cluster, modified(at(bad, 2))).nodes["n1"].taints == ()
        assert len(take(cluster, deleted(at(bad, 3))).nodes["n1"].taints) == 1


class TestTaints:
    def test_startup_taints_pass_until_initialization(self) -> None:
        taint = {"key": "wait", "value": "x", "effect": "NoSchedule"}
        cluster = Cluster()
        take(cluster, added(owned_node(spec={"taints": [taint]})))
        assert len(cluster.snapshot().nodes["n1"].taints) == 1, "the Provisioner is not known yet"
        with_provisioner = take(cluster, added(provisioner_object(spec={"startupTaints": [taint]})))
        assert with_provisioner.nodes["n1"].taints == ()
        initialized = take(cluster, modified(at(owned_node(initialized=True, spec={"taints": [taint]}), 2)))
        assert [taint.key for taint in initialized.nodes["n1"].taints] == ["wait"]

    @pytest.mark.parametrize("initialized", [False, True])
    @pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"])
    def test_not_ready_and_unreachable_are_always_ignored(self, key: str, initialized: bool) -> None:
        taints = [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        snapshot = take(Cluster(), added(owned_node(initialized=initialized, spec={"taints": taints})))
        assert [(taint.key, taint.effect) for taint in snapshot.nodes["n1"].taints] == [(key, "NoExecute")]

    def test_the_cloud_controllers_taint_passes_until_initialization(self) -> None:
        """A kubelet registers with it: a node that boots is no reason to launch another."""
        taints = [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]
        assert take(Cluster(), added(owned_node(spec={"taints": taints}))).nodes["n1"].taints == ()
        initialized = take(Cluster(), added(owned_node(initialized=True, spec={"taints": taints})))
        assert len(initialized.nodes["n1"].taints) == 1

    def test_a_cordoned_node_has_the_unschedulable_taint_before_the_node_controller_puts_it_on(self) -> None:
        snapshot = take(Cluster(), added(owned_node(spec={"unschedulable": True})))
        assert [taint.key for taint in snapshot.nodes["n1"].taints] == ["node.kubernetes.io/unschedulable"]


class TestSync:
    def test_synced_when_every_watched_kind_was_listed(self) -> None:
        cluster = Cluster(["Node", "Pod"])
        assert not cluster.snapshot().synced
        assert not take(cluster, listed("Node", node_object(name="n1"))).synced
        assert not take(cluster, added(pod_object(name="a"))).synced, "an event is no list"
        assert cluster.unsynced() == ("Pod",)
        assert take(cluster, listed("Pod")).synced

    def test_a_list_removes_what_it_does_not_have(self) -> None:
        cluster = Cluster()
        take(cluster, added(node_object(name="n1"), bound("a", "n1"), bound("b", "n1")))
        take(cluster, listed("Pod", bound("b", "n1"), version=10))
        assert [pod.name for pod in cluster.snapshot().nodes["n1"].pods] == ["b"]

    def test_our_own_write_outlives_a_list_that_is_older(self) -> None:
        """The Node was created at 12; a list that was taken at 10 cannot know it. The next list must."""
        cluster = Cluster()
        take(cluster, learned(at(node_object(name="n1"), 12)))
        assert "n1" in take(cluster, listed("Node", version=10)).nodes
        assert take(cluster, listed("Node", version=11)).nodes == {}

    def test_our_own_write_is_not_undone_by_an_event_that_is_older(self) -> None:
        cluster = Cluster()
        node = node_object(name="n1")
        take(cluster, added(at(node, 10)), learned(at(node_object(name="n1", labels={"mine": "yes"}), 12)))
        snapshot = take(cluster, modified(at(node_object(name="n1", labels={"other": "yes"}), 11)))
        assert snapshot.nodes["n1"].node.labels == {"mine": "yes"}

    def test_our_own_write_does_not_bring_back_what_was_deleted_meanwhile(self) -> None:
        cluster = Cluster()
        node = node_object(name="n1")
        take(cluster, added(at(node, 10)), deleted(at(node, 13)))
        assert take(cluster, learned(at(node, 12))).nodes == {}

    def test_a_control_plane_that_was_restored_from_a_backup_is_believed(self) -> None:
        """Its versions start again below ours, and objects that we saw deleted may be back."""
        cluster = Cluster()
        old, lost = node_object(name="old"), node_object(name="lost")
        take(cluster, listed("Node", at(old, 900), at(lost, 901), version=1000), deleted(at(old, 1001)))
        snapshot = take(cluster, listed("Node", at(old, 500), version=600))
        assert list(snapshot.nodes) == ["old"]
        assert take(cluster, modified(at(node_object(name="old", labels={"a": "b"}), 601))).nodes["old"].node.labels


class TestSharing:
    def test_nothing_changed_gives_the_same_snapshot(self) -> None:
        cluster = Cluster()
        first = take(cluster, added(node_object(name="n1")))
        assert take(cluster, added(node_object(name="n1"))) is first
        assert cluster.snapshot() is first

    def test_what_did_not_change_is_shared(self) -> None:
        cluster = Cluster()
        template = node_template_object()
        first = take(cluster, added(node_object(name="n1"), node_object(name="n2"), template, bound("a", "n1")))
        second = take(cluster, added(bound("b", "n2")))
        assert second.version > first.version
        assert second.nodes["n1"] is first.nodes["n1"]
        assert second.nodes["n2"] is not first.nodes["n2"]
        assert second.node_templates is first.node_templates
        assert second.pods["default", "a"] is first.pods["default", "a"]

    def test_a_list_that_tells_nothing_new_changes_nothing(self) -> None:
        cluster = Cluster()
        nodes = [at(node_object(name=name), 3) for name in ("n1", "n2")]
        first = take(cluster, listed("Node", *nodes, version=5))
        second = take(cluster, listed("Node", *nodes, version=9))
        assert second is first

    def test_a_heartbeat_brings_the_new_resource_version_but_no_new_version(self) -> None:
        """Loops that wait for a change sleep on; a write with the resource version as precondition still succeeds."""
        cluster = Cluster()
        beat = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}]}
        first = take(cluster, added(node_object(name="n1", status=beat), bound("a", "n1"), provisioner_object()))
        beat["conditions"][0]["lastHeartbeatTime"] = "2026-01-02T03:09:05Z"
        second = take(cluster, modified(at(node_object(name="n1", status=beat), 2), bound("a", "n1", version=3)))
        assert second.version == first.version
        assert second.nodes["n1"].node.resource_version == "2"
        assert second.pods["default", "a"].resource_version == "3"
        assert second.nodes["n1"].pods[0].resource_version == "3"
        third = take(cluster, modified(at(node_object(name="n1", labels={"new": "yes"}), 4)))
        assert third.version > second.version

    def test_an_older_snapshot_does_not_change(self) -> None:
        cluster = Cluster()
        first = take(cluster, added(node_object(name="n1"), bound("a", "n1")))
        take(cluster, deleted(bound("a", "n1", version=2), at(node_object(name="n1"), 2)))
        assert list(first.nodes) == ["n1"]
        assert len(first.nodes["n1"].pods) == 1

    def test_everything_is_sorted_by_key_whatever_came_first(self) -> None:
        names = ["c", "a", "d", "b"]
        snapshot = take(Cluster(), added(*(bound(name, "n1") for name in names), node_object(name="n1")))
        assert [name for _, name in snapshot.pods] == sorted(names)
        assert [pod.name for pod in snapshot.nodes["n1"].pods] == sorted(names)

    def test_pods_without_a_node_are_sorted_while_they_come_and_go(self) -> None:
        cluster = Cluster()
        take(cluster, added(*(pod_object(name=name) for name in "dbf")))
        take(cluster, modified(bound("b", "n1", version=2)))
        assert [pod.name for pod in cluster.snapshot().unbound] == ["d", "f"]
        take(cluster, added(pod_object(name="e")), added(pod_object(name="a")))
        assert [pod.name for pod in cluster.snapshot().unbound] == ["a", "d", "e", "f"]


def test_a_kind_without_a_parser_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="Secret"):
        Cluster(["Node", "Secret"])
