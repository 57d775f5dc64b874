"""Limits, the on-demand mix and headroom as people see them: what there is of each, and whether it binds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from controller.aws.catalog.offline_catalog import shipped_catalog
from controller.cli.cluster.cluster_view import ClusterLocation, ClusterView, build_cluster_view
from controller.cli.cluster.dry_run import DryRun, dry_run
from controller.cli.cluster.limits_report import ALL, LimitStatus, limit_statuses
from controller.cli.explain.explain_node import explain_node
from controller.cli.explain.explain_pod import explain_pod
from controller.cli.explain.explain_provisioner import explain_provisioner
from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.objects import Objects
from controller.cli.inputs.sources import source_for
from controller.cli.view.screen import limits_table
from controller.cli.view.view_data import View, assess
from tests.cli.cluster_files import READY, WAITING, labels
from tests.cli.conftest import TEMPLATE, container, provisioner
from tests.cli.drawing import drawn

NOW = 1_800_000_000.0
EITHER = ("karpenter.sh/capacity-type", "In", ["spot", "on-demand"])
M5_XLARGE = ("node.kubernetes.io/instance-type", "In", ["m5.xlarge"])


def node(name: str, capacity_type: str = "on-demand", created: str = "2027-01-15T07:00:00Z") -> dict[str, Any]:
    """An m5.xlarge of the Provisioner `default`: $0.192 an hour on demand in us-east-1."""
    of = labels("m5.xlarge", **{
        "karpenter.sh/provisioner-name": "default", "karpenter.sh/initialized": "true",
        "karpenter.sh/capacity-type": capacity_type, "kubernetes.io/hostname": name,
    })  # fmt: skip
    room = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    metadata = {"name": name, "uid": name, "labels": of, "creationTimestamp": created}
    return {
        "kind": "Node",
        "metadata": metadata,
        "status": {"capacity": room, "allocatable": room, "conditions": [READY]},
    }


def pod(name: str, cpu: str = "1", on: str = "") -> dict[str, Any]:
    """A pod that runs on a node, or waits for one."""
    spec = {"containers": [container(cpu, "1Gi")], **({"nodeName": on} if on else {})}
    status = {"phase": "Running"} if on else {"phase": "Pending", "conditions": [WAITING]}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": spec, "status": status}


def cluster(
    *documents: dict[str, Any],
    annotations: dict[str, str] | None = None,
    launch_limits: dict[str, Any] | None = None,
    **spec: Any,
) -> ClusterView:
    """A cluster of the Provisioner `default`, which buys m5.xlarge of either capacity type."""
    own = provisioner("default", EITHER, M5_XLARGE, **spec)
    own["metadata"]["annotations"] = annotations or {}
    settings = {"launchLimits": json.dumps(launch_limits or {})}
    config = {"kind": "ConfigMap", "metadata": {"name": "karpenter-global-settings"}, "data": settings}
    return build_cluster_view(
        Objects(tuple(LocatedObject(each, "here") for each in (TEMPLATE, own, config, *documents))), ClusterLocation()
    )


def only(view: ClusterView, refused: DryRun | None = None) -> LimitStatus:
    (bound,) = limit_statuses(view, NOW, refused.guards if refused else ())
    return bound


def test_nothing_bounds_a_cluster_that_sets_no_limit() -> None:
    assert limit_statuses(cluster(node("a")), NOW) == ()


def test_limits_of_a_provisioner_count_the_capacity_of_its_nodes() -> None:
    bound = only(cluster(node("a"), node("b"), limits={"resources": {"cpu": "10"}}))
    assert (bound.owner, bound.what, bound.have, bound.want, bound.state) == ("default", "cpu", "8", "10", "")
    assert bound.share == pytest.approx(0.8)
    assert only(cluster(node("a"), node("b"), limits={"resources": {"cpu": "8"}})).state == "full"


def test_price_limit_binds_when_it_keeps_a_pod_waiting_and_the_pod_is_told_so() -> None:
    view = cluster(
        node("a"), pod("web", "3"), pod("sits", "3", on="a"), annotations={"karpenter.sh/price-limit": "0.2"}
    )
    seen = dry_run(view, view.plan(), NOW)
    assert seen.launched == ()
    assert "karpenter.sh/price-limit of Provisioner default" in seen.reasons()[("shop", "web")]
    bound = only(view, seen)
    assert (bound.what, bound.have, bound.want, bound.state) == ("$ an hour", "$0.1920", "$0.2000", "binds")


def test_a_limit_that_leaves_room_lets_the_pod_have_its_node() -> None:
    view = cluster(node("a"), pod("web"), pod("sits", "3500m", on="a"), annotations={"karpenter.sh/price-limit": "2"})
    seen = dry_run(view, view.plan(), NOW)
    assert (len(seen.launched), seen.refused, only(view, seen).state) == (1, {}, "")


@pytest.mark.parametrize(
    ("limits", "what", "have"),
    [
        ({"pricePerHour": 0.25}, "$ an hour", "$0.1920"),
        ({"resources": {"cpu": "4"}}, "cpu", "4"),
        ({"nodesPerMinute": 1}, "nodes a minute", "1"),
    ],
)
def test_limits_of_the_settings_bind_for_all_provisioners_together(limits: Any, what: str, have: str) -> None:
    recent = node("a", created="2027-01-15T07:59:30Z")
    view = cluster(recent, pod("web", "3"), pod("sits", "3", on="a"), launch_limits=limits)
    bound = only(view, dry_run(view, view.plan(), NOW))
    assert (bound.owner, bound.what, bound.have, bound.state) == (ALL, what, have, "binds")


def test_nodes_a_minute_forget_those_that_are_older() -> None:
    assert only(cluster(node("a"), launch_limits={"nodesPerMinute": 1})).have == "0"


def test_too_few_nodes_on_demand_are_short_and_new_ones_are_planned_on_demand() -> None:
    wanted = {"karpenter.sh/on-demand-base": "2"}
    view = cluster(
        node("a"), node("b", "spot"), pod("web", "3"), pod("x", "3", "a"), pod("y", "3", "b"), annotations=wanted
    )
    bound = only(view)
    assert (bound.what, bound.have, bound.want, bound.state) == ("on demand", "1", "2", "short")
    assert [each.offering.capacity_type for each in dry_run(view, view.plan(), NOW).launched] == ["on-demand"]
    assert only(cluster(node("a"), node("b"), annotations=wanted)).state == ""


def test_headroom_counts_the_units_that_have_room_now() -> None:
    wanted = {"karpenter.sh/headroom": '[{"cpu": "1", "memory": "1Gi", "count": 3}]'}
    kept = only(cluster(node("a"), annotations=wanted))
    assert (kept.what, kept.have, kept.want, kept.state) == ("headroom", "3", "3", "")
    short = only(cluster(node("a"), pod("web", "3500m", on="a"), annotations=wanted))
    assert (short.have, short.want, short.state) == ("0", "3", "short")
    assert short.reason == "nodes for it are not launched yet"


@pytest.mark.parametrize("key", ["karpenter.sh/price-limit", "karpenter.sh/on-demand-base", "karpenter.sh/headroom"])
def test_what_cannot_be_read_is_said_with_the_annotation(key: str) -> None:
    bound = only(cluster(annotations={key: "much"}))
    assert bound.state == "unreadable"
    assert key in bound.reason


def test_those_that_bind_come_first_and_the_view_has_them() -> None:
    limited = {"karpenter.sh/price-limit": "0.2"}
    view = cluster(
        node("a"), pod("web", "3"), pod("sits", "3", on="a"), annotations=limited, limits={"resources": {"cpu": "80"}}
    )
    assessment = assess(view, NOW)
    assert [each.state for each in assessment.limits] == ["", "binds"]
    assert assessment.waiting[0].reason.startswith("not launched: ")
    lines = drawn(limits_table(assessment.limits), 100).splitlines()
    assert lines[1].split()[:3] == ["$", "an", "hour"]
    assert "binds" in lines[1]
    assert View((), (), (), (), 0.0, limits=assessment.limits).limits


def test_a_node_that_is_coming_up_counts_with_the_room_of_its_type() -> None:
    """What waits for it is not told that one more would be bought."""
    coming = node("a")
    del coming["metadata"]["labels"]["karpenter.sh/initialized"]
    coming["status"] = {}
    view = cluster(coming, pod("web"))
    assert dry_run(view, view.plan(), NOW).reasons()[("shop", "web")] == "fits on a"


def test_explain_tells_the_pod_which_limit_binds_and_the_provisioner_how_full_it_is() -> None:
    limited = {"karpenter.sh/price-limit": "0.2"}
    view = cluster(node("a"), pod("web", "3"), pod("sits", "3", on="a"), annotations=limited)
    told = explain_pod(view, "shop", "web", NOW)
    assert told.verdict == "is pending because a limit binds"
    assert "$0.1920 + $" in told.sections[0].lines[0]
    limits = explain_provisioner(view, "default", NOW).document()["reasons"]["limits"]
    assert limits == ["spec.limits: none", "$ an hour: $0.1920 of $0.2000"]


@pytest.mark.parametrize(("consolidation", "said"), [(True, " more; a node moves every 30 min"), (False, " more")])
def test_explain_tells_the_zones_shares_and_what_is_done_about_them(consolidation: bool, said: str) -> None:
    asked = {"karpenter.sh/zone-max-share": "0.4", "karpenter.sh/zone-move-interval": "30m"}
    view = cluster(node("a"), annotations=asked, consolidation={"enabled": consolidation})
    zones = explain_provisioner(view, "default", NOW).document()["facts"]["zones"]
    assert zones.startswith("us-east-1a 100 % of its CPU; at most 40 % from 6 nodes on, where a node costs up to 2 %")
    assert zones.partition("up to 2 %")[2].removesuffix(" while one has more") == said


@pytest.mark.parametrize(
    ("on_provisioner", "on_node", "said"),
    [
        ({"karpenter.sh/on-demand-base": "1"}, {}, "1 of 1 nodes of Provisioner default are to be on demand"),
        ({}, {"karpenter.sh/do-not-consolidate": "true"}, "annotation karpenter.sh/do-not-consolidate is set"),
        ({}, {"karpenter.sh/resting-workloads": '{"a": 1800000060}'}, "1 of its pods rest after a recent move"),
        ({}, {}, "removes it: "),
    ],
)
def test_what_keeps_a_node_from_consolidation_is_explained_as_the_controller_decides(
    on_provisioner: dict[str, str], on_node: dict[str, str], said: str
) -> None:
    kept = node("a")
    kept["metadata"]["annotations"] = on_node
    owned = pod("a", on="a")
    owned["metadata"]["creationTimestamp"] = "2027-01-15T07:51:10Z"
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "a", "uid": "a", "controller": True}]
    view = cluster(kept, owned, annotations=on_provisioner, consolidation={"enabled": True})
    (line,) = (
        each
        for section in explain_node(view, "a", NOW).sections
        for each in section.lines
        if each.startswith("consolidation: ")
    )
    assert said in line


def test_amounts_are_written_so_that_they_can_be_compared() -> None:
    odd = node("a")
    odd["status"] = {**odd["status"], "capacity": {"cpu": "4", "memory": "15938355Ki"}}
    cpu, memory = limit_statuses(cluster(odd, limits={"resources": {"cpu": "2000", "memory": "800Gi"}}), NOW)
    assert (cpu.have, cpu.want) == ("4", "2,000")
    assert (memory.have, memory.want) == ("15.2 GiB", "800 GiB")


def test_price_limits_count_by_the_clusters_price_book() -> None:
    """A table that has another price must not say that a limit is reached, or that it is not."""
    limited: dict[str, Any] = {
        "annotations": {"karpenter.sh/price-limit": "0.3"},
        "launch_limits": {"pricePerHour": 0.3},
    }
    view = cluster(node("a"), node("b"), **limited)
    assert [each.state for each in limit_statuses(view, NOW)] == ["full", "full"]
    book = replace(shipped_catalog("us-east-1"), on_demand={"m5.xlarge": 0.1})
    booked = replace(view, source=source_for("", "us-east-1", view.settings, book=book))
    assert [(each.have, each.state) for each in limit_statuses(booked, NOW)] == [("$0.2000", "")] * 2
